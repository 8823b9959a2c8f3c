"""Faults of the robot and of its measurements: lag, sag, contact, backlash, wrong readings.

Shapes: n joints. An adversary sets the desired joint positions, and the policy is stopped, ended
and started at random. At random times the measurements are wrong for up to 60 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from _fault_stage import DT_S, JOINTS, NAMES, READINGS, ROBOT, Array, FaultTestbed
from _fault_stage import excess as excess_of
from _fault_table import TOLERANCE, TrialCounts

from robo_rl.bundle.bundle import Bundle
from robo_rl_sim2real.control.runtime import TickOutput
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.readings import Reading

BEYOND = 0.02  # rad or m, by which commands may pass the end of braking
OFTEN = 0.01  # probability of a wrong reading per period
LOW, HIGH = (
    np.array([getattr(joint, end) for joint in ROBOT.actuated_joints]) for end in ("low", "high")
)
SAG = np.array([0.0, 0.04, 0.0, 0.05, 0.0, 0.03, 0.0, 0.0])
PLAY = np.array([0.02] * 7 + [0.0005])

Follow = Callable[[Array, Array], Array]
Spoil = Callable[[Array], Array]


def _touches(pos: Array, told: Array) -> Array:
    """Return positions with a wall before one joint and a cube of 4 cm between the fingers."""
    new = np.array(told)
    new[3] = max(new[3], -2.1)
    new[7] = max(new[7], 0.02)
    return new


ROBOTS: dict[str, Follow] = {
    "follows": lambda pos, told: told,
    "lags": lambda pos, told: pos + 0.4 * (told - pos),
    "sags": lambda pos, told: pos + 0.4 * (told - SAG - pos),
    "touches": _touches,
    "has play": lambda pos, told: np.clip(pos, told - PLAY, told + PLAY),
}


def _one_off(pos: Array) -> Array:
    return pos + np.eye(len(pos))[0] * (1.0 if pos[0] < 1.0 else -1.0)


READ_WRONG: dict[str, Spoil] = {
    "one joint 1 rad off": _one_off,
    "zeros": lambda pos: np.zeros_like(pos),
    "degrees": lambda pos: np.degrees(pos),
    "times 1000": lambda pos: 1000.0 * pos,
    "of another robot": lambda pos: np.clip(pos[::-1] + 0.5, LOW, HIGH),
}


def robots(name: str, bundle: Bundle, first: int, number: int) -> TrialCounts:
    """Run periods of the named robot with every kind of wrong reading."""
    return _periods([ROBOTS[name]], list(READ_WRONG.values()), bundle, first, number)


def wrong_readings(name: str, bundle: Bundle, first: int, number: int) -> TrialCounts:
    """Run periods of every robot in turn with the named kind of wrong reading."""
    return _periods(list(ROBOTS.values()), [READ_WRONG[name]], bundle, first, number)


def _periods(
    follows: Sequence[Follow], spoils: Sequence[Spoil], bundle: Bundle, first: int, number: int
) -> TrialCounts:
    rng = np.random.default_rng([first, number])
    follow = follows[first // max(number, 1) % len(follows)]
    lifecycle = {
        "ramp_s": 0.2,
        "final_hold_s": 0.5,
        "start_tolerance_rad": 10.0,
        "start_tolerance_m": 1.0,
    }
    stage = FaultTestbed(bundle, follow=follow, want=_adversary(rng), lifecycle=lifecycle)
    stage.begin()
    stage.sent = stage.sent[-1:]  # commands before the trial are unknown
    trial = _RobotTrial(stage, rng, spoils)
    for _ in range(number):
        trial.period()
    excess = excess_of(np.stack(stage.sent), stage.limits)
    worst = {"excess": excess, "beyond braking": trial.beyond}
    return TrialCounts(number, trial.violations + (excess > TOLERANCE), worst)


class _RobotTrial:
    """Periods of one robot, and the number of violations in them.

    Args:
        stage: The testbed.
        rng: Draws faults and requests.
        spoils: Wrong readings as functions of the true ones.
    """

    def __init__(
        self, stage: FaultTestbed, rng: np.random.Generator, spoils: Sequence[Spoil]
    ) -> None:
        self.stage, self.rng, self.spoils = stage, rng, spoils
        self.violations, self.beyond = 0, 0.0
        self._spoil: Spoil | None = None
        self._left = 0  # number of wrong readings still to come
        self._way: tuple[Array, Array] | None = None  # range of commands during braking

    def period(self) -> None:
        """Run one period, with random events at its beginning."""
        self._ask()
        if not self._left and self._way is None and self.rng.random() < OFTEN:
            self._spoil = self.spoils[int(self.rng.integers(len(self.spoils)))]
            self._left = int(self.rng.integers(1, 4 * READINGS // 3 + 1))
        wrong = self._left > 0 and self._differs()
        if wrong and self._way is None and self.stage.state.moves:
            limiter = self.stage.node.runtime.parts.safety.limiter
            ends = np.stack([limiter.motion.pos, limiter.stop])
            self._way = ends.min(axis=0), ends.max(axis=0)
        count = len(self.stage.sent)
        output = self.stage.tick(self._pass)
        self._judge(output, sent=len(self.stage.sent) > count)

    def _differs(self) -> bool:
        """Return whether the wrong reading is implausible; zeros may be plausible."""
        assert self._spoil is not None
        return bool((np.abs(self._spoil(self.stage.pos) - self.stage.pos) > 0.45).any())

    def _pass(self, topic: str, reading: Reading) -> list[tuple[str, Reading]]:
        if topic != JOINTS or self._left <= 0:
            return [(topic, reading)]
        assert self._spoil is not None
        self._left -= 1
        fields = {"position": self._spoil(reading.fields["position"])}
        return [(topic, reading._replace(fields=fields))]

    def _judge(self, output: TickOutput, *, sent: bool) -> None:
        """Check that commands brake from a wrong reading until the policy is followed again."""
        if self._way is None:
            return
        followed = output.command is not None and output.command.reason is None
        if self._left <= 0 and (followed or not self.stage.state.moves):
            self._way = None
            return
        low, high = self._way
        apart = float(np.maximum(low - self.stage.sent[-1], self.stage.sent[-1] - high).max())
        self.beyond = max(self.beyond, apart)
        self.violations += sent and (followed or apart > BEYOND)

    def _ask(self) -> None:
        stage, chance = self.stage, self.rng.random()
        if not stage.state.moves:
            stage.node.request("reset" if stage.state is State.FAULTED else "activate")
        elif chance < 0.004:
            stage.node.request("deactivate")
        elif chance < 0.006:
            stage.press(True)
            stage.press(False)
        elif chance < 0.007:
            stage.node.request("stop")


def _adversary(rng: np.random.Generator) -> Callable[[float], Array]:
    """Return desired joint positions: anywhere, far out, or alternating between the ends."""
    span = HIGH - LOW

    def want(now_s: float) -> Array:
        kind, side = int(now_s / 5.0) % 3, 1.0 if int(now_s / DT_S) % 2 else -1.0
        if kind == 0:
            return rng.uniform(LOW - 0.5 * span, HIGH + 0.5 * span)
        if kind == 1:
            return 0.5 * (LOW + HIGH) + 1.5 * side * span
        return np.where(rng.random(len(NAMES)) < 0.5, LOW, HIGH)

    return want


def frozen(bundle: Bundle, first: int, number: int) -> TrialCounts:
    """Run periods in which joint states sometimes repeat with the same header."""
    rng, stage = np.random.default_rng(first), FaultTestbed(bundle)
    left, stuck, since_s, violations, longest_s = 0, None, 0.0, 0, 0.0

    def way(topic: str, reading: Reading) -> list[tuple[str, Reading]]:
        nonlocal left, stuck, since_s
        if topic != JOINTS:
            return [(topic, reading)]
        if left <= 0 and rng.random() < 0.01:
            left, stuck, since_s = int(rng.integers(2, 40)), reading, stage.now_s
        left -= 1
        if left < 0 or stuck is None:
            since_s = stage.now_s
            return [(topic, reading)]
        return [(topic, stuck)]

    stage.begin()
    for _ in range(number):
        output = stage.tick(way)
        if output.command is not None and output.command.reason is None:
            longest_s = max(longest_s, stage.now_s - since_s)
            violations += stage.now_s - since_s > 0.1 + 1e-9
        if not stage.state.moves:
            stage.begin()
    over = stage.excess()
    worst = {"followed a reading of s": longest_s, "excess": over}
    return TrialCounts(number, violations + (over > TOLERANCE), worst)


def slow(bundle: Bundle, first: int, number: int) -> TrialCounts:
    """Run stretches of 6 s with joint states at 5 to 9 Hz: one hold occurs and persists."""
    violations, most, over = 0, 0, 0.0
    for trial in range(first, first + number):
        rng = np.random.default_rng(trial)
        stage, every_s = FaultTestbed(bundle), 1.0 / rng.uniform(5.0, 9.0)
        stage.begin()
        for _ in range(20):
            stage.tick()
        due_s, holds, before = stage.now_s, 0, stage.state

        def way(topic: str, reading: Reading, stage=stage, every_s=every_s):
            nonlocal due_s
            if topic == JOINTS and stage.now_s < due_s - 1e-9:
                return []
            due_s += every_s if topic == JOINTS else 0.0
            return [(topic, reading)]

        for _ in range(round(6.0 / DT_S)):
            state = stage.tick(way).state
            holds += state is State.HOLDING and before is not State.HOLDING
            before = state
        most, over = max(most, holds), max(over, stage.excess())
        violations += holds > 1
    return TrialCounts(
        number, violations + (over > TOLERANCE), {"holds": float(most), "excess": over}
    )
