"""Topics of a recording, besides those that the readings came on.

All that belongs to one control period has one time, when it began; a reading has the time at which
it arrived. Times are those of the node's monotonic clock, set to the wall clock once, when the
recording began, so that no later jump of the wall clock reorders anything.

What was sent is said here and not on the controller's topic: a recording that is played back must
not move a robot.
"""

FORMAT = "robo-rl/recording"
VERSION = 1
"""Of what ``RUN`` says, and of the topics with it."""

RUN = "/robo_rl/run"
"""``std_msgs/String``, latched: JSON of the bundle, its contract, the settings and the clock."""

TICK = "/robo_rl/tick"
"""``std_msgs/String``: JSON of a control period, see ``log.tick_fields``."""

CHUNK = "/robo_rl/chunk"
"""``std_msgs/Float64MultiArray`` (H, A): what the policy answered; the tick says which it is of."""

ASKED = "/robo_rl/asked"
"""``sensor_msgs/JointState``: what the policy asked for."""

SENT = "/robo_rl/sent"
"""``sensor_msgs/JointState``: what was sent."""

CLAMPED = "/robo_rl/clamped"
"""``std_msgs/Float64MultiArray`` (A,): how far what was sent is from what was asked for."""

EVENT = "/robo_rl/event"
"""``std_msgs/String``: JSON ``{"event": …, "what": …}``: ``state``, ``request``, ``refused``,
``problem``, ``control`` (who commands from here on: ``policy`` or ``human``)."""

HEALTH = "/robo_rl/health"
"""``diagnostic_msgs/DiagnosticArray``, once a second."""
