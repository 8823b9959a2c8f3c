"""A watchdog's life: look, and once it has to, end the policy process and stop the robot."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from robo_rl_sim2real.braking import Motion
from robo_rl_sim2real.messages import Kind
from robo_rl_sim2real.outlets import Commands
from robo_rl_sim2real.readings import Reading
from robo_rl_sim2real.states import State
from robo_rl_sim2real.ticks import Clock
from robo_rl_sim2real.transport.base import LATCHED, Publisher, Transport
from robo_rl_sim2real.watchdog.block import Block, Phase
from robo_rl_sim2real.watchdog.judge import Finding, Verdict, judge
from robo_rl_sim2real.watchdog.orders import Orders
from robo_rl_sim2real.watchdog.process import Process
from robo_rl_sim2real.watchdog.rest import way_to_rest

_LOOK_S = 0.005
_FENCE_S = 0.02
"""How long the end of the policy process is waited for before the robot is stopped anyway."""
_WARM_UP = 20


class Mouth(NamedTuple):
    """What the robot and whoever listens are told by.

    Args:
        commands: Where they are sent from.
        state: Where the state is said.
    """

    commands: Commands
    state: Publisher

    def say(self, state: State) -> None:
        """The state."""
        self.state.send(Reading({"data": np.asarray(state.value)}, (), 0.0))


def open_mouth(orders: Orders, transport: Transport) -> Mouth:
    """All that will be needed, and used already: what is done first takes long.

    Commands are practised on a topic that no robot listens to.
    """
    still = Motion(*np.zeros((3, len(orders.limits["low"]))))
    topic = f"{orders.state}/watchdog_warms_up"
    topics = [f"{topic}{number or ''}" for number in range(len(orders.outlets))]
    pairs = zip(orders.outlets, topics, strict=True)
    practice = Commands([each._replace(topic=other) for each, other in pairs], transport)
    for _ in range(_WARM_UP):
        practice.send(still)
    commands = Commands(orders.outlets, transport)
    return Mouth(commands, transport.advertise(orders.state, Kind.TEXT, LATCHED))


def watch(block: Block, policy: Process, patience_s: float, clock: Clock) -> Finding:
    """Until there is something to do.

    Args:
        block: Both sides' beats.
        policy: Whose process is watched.
        patience_s: Age of its beat beyond which it hangs.
        clock: The machine's.
    """
    while True:
        life, now_s = policy.life(), clock.now_s()
        found = judge(block.policy.read(), life, now_s, patience_s)
        if found.verdict is not Verdict.WATCH:
            return found
        block.watchdog.write(now_s, Phase.SILENT)
        policy.wait(_LOOK_S)


def stop(block: Block, policy: Process, mouth: Mouth, orders: Orders, clock: Clock) -> str:
    """End the policy process for good, then bring the robot to rest; says what went wrong.

    What it did last is read after its end: it may have gone on until then.
    """
    policy.kill(_FENCE_S)
    beat = block.policy.read()
    if beat is None or beat.phase is not Phase.SENDING:
        return ""
    problem, said = "", False
    for motion in way_to_rest(beat, orders.within, clock, orders.hold_s):
        try:
            mouth.commands.send(motion)
            if not said:
                mouth.say(State.FAULTED)
                said = True
        except Exception as error:  # whatever it is: the next command may get through
            problem = f"; {type(error).__name__}: {error}"
    return problem if policy.wait(0.0) else f"{problem}; the policy process has not ended yet"
