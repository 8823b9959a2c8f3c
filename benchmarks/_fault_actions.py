"""Faults of the policy's actions: not finite, too large, wrong shape, late."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from _fault_stage import (
    DT_S,
    EXEC,
    HORIZON,
    NAMES,
    ROBOT,
    Array,
    FaultTestbed,
    excess,
    wandering_positions,
)
from _fault_table import TOLERANCE, TrialCounts

from robo_rl.bundle.bundle import Bundle
from robo_rl_sim2real.control.commands.braking import Limits
from robo_rl_sim2real.control.commands.contract import command_spec
from robo_rl_sim2real.control.commands.limiter import Limiter
from robo_rl_sim2real.control.inference import (
    InferenceRequest,
    InferenceResult,
    InferenceRunner,
    InlineInferenceRunner,
)
from robo_rl_sim2real.core.lifecycle_states import State

BAD = (np.nan, np.inf, -np.inf, 1e30, -1e12)
SHAPES = ((HORIZON, len(NAMES) - 1), (len(NAMES),), (HORIZON, len(NAMES), 1), (0, len(NAMES)))
LANES, RATES_HZ = 500, (20.0, 50.0, 200.0)


def plan_with(stage: FaultTestbed, planner: InferenceRunner) -> None:
    """Replace the inference runner of the node."""
    stage.node.runtime.parts.policy.inference = planner


def bad_actions(bundle: Bundle, first: int, number: int) -> TrialCounts:
    """Run trials of chunks with one bad value or a wrong shape; all commands must be valid."""
    rng, stage, spoil = (
        np.random.default_rng(first),
        FaultTestbed(bundle),
        list[Callable[[Any], Any]](),
    )

    def query(obs: Mapping[str, Any], _plan: Any) -> Any:
        chunk = np.repeat(obs["wanted"].astype(np.float32), HORIZON, axis=1)
        return spoil.pop()(chunk) if spoil else chunk

    plan_with(stage, InlineInferenceRunner(query))
    violations = 0
    for trial in range(number):
        stage.begin()
        for _ in range(int(rng.integers(1, 6))):
            stage.tick()
        before = len(stage.sent)
        spoil.append(_spoiler(rng, by_shape=trial % 6 == 0))
        for _ in range(2 * EXEC):
            stage.tick()
        out = [np.asarray(pos) for pos in stage.sent[before:]]
        fine = all(pos.shape == (len(NAMES),) and np.isfinite(pos).all() for pos in out)
        violations += not fine or bool(spoil)
        spoil.clear()
    over = stage.excess()
    return TrialCounts(number, violations + (over > TOLERANCE), {"excess": over})


def _spoiler(rng: np.random.Generator, *, by_shape: bool) -> Callable[[Any], Any]:
    def number(chunk: Any) -> Any:
        chunk[0, rng.integers(EXEC), rng.integers(len(NAMES))] = bad
        return chunk

    bad, shape = np.float32(rng.choice(BAD)), SHAPES[rng.integers(len(SHAPES))]
    return (lambda chunk: np.zeros((1, *shape), np.float32)) if by_shape else number


def adversarial_actions(bundle: Bundle, first: int, number: int) -> TrialCounts:
    """Run trials of extreme targets, one joint set per lane: at all limits and rates."""
    rng, ticks = np.random.default_rng(first), -(-number // LANES)
    limits = at_rate(bundle, RATES_HZ[first // max(number, 1) % len(RATES_HZ)])
    start = rng.uniform(limits.low, limits.high, (LANES, len(NAMES)))
    limiter, sent = Limiter(limits, start), [start]
    for tick in range(ticks):
        sent.append(limiter.step(_adversary(tick // 10 % 4, tick, sent[-1], limits, rng)))
    path = np.stack(sent)
    worst = _figures(path, limits)
    lanes = [excess(path[:, lane], limits) > TOLERANCE for lane in range(LANES)]
    return TrialCounts(number, sum(lanes), worst)


def at_rate(bundle: Bundle, rate_hz: float) -> Limits:
    """Return the Panda's limits at another control rate."""
    limits = command_spec(bundle.manifest.contract, ROBOT).limits
    bounds = limits.low, limits.high, limits.velocity, limits.acceleration, limits.jerk
    return Limits(*bounds, dt_s=1.0 / rate_hz)


def _adversary(kind: int, tick: int, pos: Array, limits: Limits, rng: np.random.Generator) -> Array:
    far = 3.0 * (limits.high - limits.low)
    return (
        rng.uniform(limits.low - far, limits.high + far, pos.shape),
        np.broadcast_to((-1.0) ** tick * 10.0 * far, pos.shape),
        pos + rng.normal(0.0, 1.0, pos.shape) * limits.velocity * limits.dt_s,
        np.full(pos.shape, 1e300 if rng.random() < 0.9 else -1e300),
    )[kind]


def _figures(path: Array, limits: Limits) -> dict[str, float]:
    """Return the largest used share of every limit."""
    pos = np.concatenate([np.repeat(path[:1], 3, axis=0), path])
    middle, half = 0.5 * (limits.high + limits.low), 0.5 * (limits.high - limits.low)
    found = {"position": float((np.abs(pos - middle) / half).max())}
    for name in ("velocity", "acceleration", "jerk"):
        pos = np.diff(pos, axis=0) / limits.dt_s
        found[name] = float((np.abs(pos) / getattr(limits, name)).max())
    return found


class DelayedInferenceRunner:
    """An inference runner with random delays, on the testbed's clock.

    Args:
        stage: The testbed.
        rng: Random generator of the delays, up to 20 periods.
    """

    def __init__(self, stage: FaultTestbed, rng: np.random.Generator) -> None:
        self._stage, self._rng, self._open = stage, rng, None
        self.due_s, self.asked_s, self.answers = 0.0, 0.0, 0

    @property
    def idle(self) -> bool:
        """Whether no inference is pending."""
        return self._open is None

    def submit(self, question: InferenceRequest) -> None:
        """Start an inference."""
        self._open, self.asked_s = question, self._stage.now_s
        self.due_s = self.asked_s + DT_S * float(self._rng.choice([0, 1, 2, 3, 5, 8, 12, 20]))

    def poll(self) -> InferenceResult | None:
        """Return the chunk once it is due."""
        question = self._open
        if question is None or self._stage.now_s < self.due_s - 1e-9:
            return None
        self._open, self.answers = None, self.answers + 1
        aim = self.asked_s + DT_S * np.arange(HORIZON)
        return InferenceResult(
            question, np.stack([wandering_positions(at_s, hz=0.5) for at_s in aim])
        )

    def pending_s(self) -> float:
        """Return the time since the request."""
        return 0.0 if self._open is None else self._stage.now_s - self.asked_s

    def close(self) -> None:
        """Do nothing, because there is no thread to stop."""


def late_chunks(bundle: Bundle, first: int, number: int) -> TrialCounts:
    """Run trials of chunks up to 1 s late, while the old chunk is executed to its end."""
    rng = np.random.default_rng(first)
    merge = ("newest", "soft", "ensemble")[first // max(number, 1) % 3]
    stage = FaultTestbed(bundle, chunks={"merge": merge}, safety={"inference_timeout_s": 0.3})
    planner = DelayedInferenceRunner(stage, rng)
    plan_with(stage, planner)
    stage.begin()
    violations, resting = 0, 0
    while planner.answers < number:
        output = stage.tick()
        if output.command is not None and output.command.reason is not None:
            resting += 1
        if not stage.state.moves:
            violations += stage.state is State.FAULTED
            stage.begin()
    worst = {**_figures(np.stack(stage.sent), stage.limits), "periods at rest": float(resting)}
    return TrialCounts(number, violations + (stage.excess() > TOLERANCE), worst)
