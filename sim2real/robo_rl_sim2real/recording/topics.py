"""Topics of a recording, in addition to those of the readings.

All messages of a control period have the time of its start; a reading has its time of arrival.
Times are of the node's monotonic clock, aligned with the wall clock once, at the start of the
recording. Later jumps of the wall clock therefore reorder nothing.

Commands are recorded on a topic of their own and not on the controller's topic, so that playback of
a recording cannot move a robot.
"""

FORMAT = "robo-rl/recording"
VERSION = 1
"""Version of the content of ``RUN`` and of the topics."""

RUN = "/robo_rl/run"
"""``std_msgs/String``, latched: JSON of the bundle, its contract, the settings and the clock."""

TICK = "/robo_rl/tick"
"""``std_msgs/String``: JSON of a control period, see ``message_encoder.tick_fields``."""

CHUNK = "/robo_rl/chunk"
"""``std_msgs/Float64MultiArray`` (H, A): the policy's chunk; the tick gives its first tick."""

ASKED = "/robo_rl/asked"
"""``sensor_msgs/JointState``: the target of the period, before the limits.

It is the policy's target or, during teleoperation, the human's, both after the blend of a ramp. On
the way home it leads to the start pose.
"""

SENT = "/robo_rl/sent"
"""``sensor_msgs/JointState``: the command that was sent."""

CLAMPED = "/robo_rl/clamped"
"""``std_msgs/Float64MultiArray`` (n,): |command - target| of each joint, 0 on the way to rest."""

EVENT = "/robo_rl/event"
"""``std_msgs/String``: JSON ``{"event": …, "what": …}``.

Events are ``state``, ``request``, ``refused``, ``problem`` and ``control`` (the new source of
commands: ``policy`` or ``human``).
"""

HEALTH = "/robo_rl/health"
"""``diagnostic_msgs/DiagnosticArray``, once per second."""
