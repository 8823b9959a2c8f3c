"""The watchdog's loop: watch the policy process; if necessary, kill it and stop the robot.

A late command is not yet a fault. A position controller stays at the last command. A velocity
controller keeps moving, so it is commanded zero until the policy process resumes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from robo_rl_sim2real.control.commands.braking import Motion
from robo_rl_sim2real.control.commands.publishers import CommandPublishers
from robo_rl_sim2real.core.clock import Clock
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.transport.base import LATCHED, Publisher, Transport
from robo_rl_sim2real.watchdog.assessment import Assessment, SilenceTimer, WatchdogAction, assess
from robo_rl_sim2real.watchdog.braking_commands import braking_commands
from robo_rl_sim2real.watchdog.heartbeat import Heartbeat, HeartbeatMemory, Phase
from robo_rl_sim2real.watchdog.job import WatchdogJob
from robo_rl_sim2real.watchdog.process import ProcessHandle

_LOOK_S = 0.005
_FENCE_S = 0.02
"""Time limit for the end of the policy process before the robot is stopped."""
_WARM_UP = 20


class StopPublishers(NamedTuple):
    """Publishers that the watchdog stops the robot with.

    Args:
        commands: Publishers of commands.
        velocity_commands: Those of velocity commands.
        state: Publisher of the state.
    """

    commands: CommandPublishers
    velocity_commands: CommandPublishers
    state: Publisher

    def publish_state(self, state: State) -> None:
        """Publish the state."""
        self.state.send(Reading({"data": np.asarray(state.value)}, (), 0.0))


def open_stop_publishers(orders: WatchdogJob, transport: Transport) -> StopPublishers:
    """Return all publishers, warmed up because first messages are slow.

    The warm-up uses topics without subscribers.
    """
    still = Motion(*np.zeros((3, len(orders.limits["low"]))))
    topic = f"{orders.state}/watchdog_warms_up"
    topics = [f"{topic}{number or ''}" for number in range(len(orders.command_topics))]
    pairs = zip(orders.command_topics, topics, strict=True)
    practice = CommandPublishers([each._replace(topic=other) for each, other in pairs], transport)
    for _ in range(_WARM_UP):
        practice.send(still)
    commands = CommandPublishers(orders.command_topics, transport)
    velocities = commands.with_kind(MsgType.TWIST)
    return StopPublishers(
        commands, velocities, transport.create_publisher(orders.state, MsgType.TEXT, LATCHED)
    )


def run_watchdog(
    block: HeartbeatMemory,
    policy: ProcessHandle,
    mouth: StopPublishers,
    orders: WatchdogJob,
    clock: Clock,
) -> Assessment:
    """Watch until the watchdog has to leave or stop the robot; return that assessment.

    Args:
        block: Heartbeats of both processes.
        policy: Watched process.
        mouth: Publishers for zero velocities while commands are late.
        orders: Job description.
        clock: The machine's clock.
    """
    silence, stood_s, problem = SilenceTimer(), -np.inf, ""
    while True:
        life, now_s, beat = policy.state(), clock.now_s(), block.policy.read()
        age_s, number = (0.0, 0) if beat is None else (now_s - beat.time_s, beat.number)
        found = assess(beat, life, age_s, silence.update(number, now_s), orders.silence_limits)
        if found.action in (WatchdogAction.LEAVE, WatchdogAction.STOP):
            return Assessment(found.action, f"{found.reason}{problem}")
        if found.action is WatchdogAction.STAND and now_s - stood_s >= orders.dt_s:
            stood_s, problem = now_s, _stand(mouth, block.policy.read()) or problem
        block.watchdog.write(now_s, Phase.SILENT)
        policy.wait(_LOOK_S)


def _stand(mouth: StopPublishers, beat: Heartbeat | None) -> str:
    """Command zero velocities; return the problem. It is repeated one period later."""
    pos = np.zeros(0) if beat is None else beat.motion.pos
    try:
        mouth.velocity_commands.send(Motion(pos, np.zeros_like(pos), np.zeros_like(pos)))
    except Exception as error:  # the policy process may still die
        return f"; velocities were not told to be zero: {type(error).__name__}: {error}"
    return ""


def stop_robot(
    block: HeartbeatMemory,
    policy: ProcessHandle,
    mouth: StopPublishers,
    orders: WatchdogJob,
    clock: Clock,
) -> str:
    """Kill the policy process, then bring the robot to rest; return the problem.

    Its last beat is read after its end, because it may have run until then.
    """
    policy.kill(_FENCE_S)
    beat = block.policy.read()
    if beat is None or beat.phase is not Phase.SENDING:
        return ""
    problem, said = "", False
    by_velocity = any(way.kind is MsgType.TWIST for way in orders.command_topics)
    limits, hold_s = orders.joint_limits, orders.final_hold_s
    for motion in braking_commands(beat, limits, clock, hold_s, by_velocity=by_velocity):
        try:
            mouth.commands.send(motion)
            if not said:
                mouth.publish_state(State.FAULTED)
                said = True
        except Exception as error:  # the next command may succeed
            problem = f"; {type(error).__name__}: {error}"
    return problem if policy.wait(0.0) else f"{problem}; the policy process has not ended yet"
