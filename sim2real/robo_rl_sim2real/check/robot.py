"""Checks of robot and policy: joints, ranges, units, start pose and inference time.

Shapes: n joints.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from robo_rl.core.errors import SpecError
from robo_rl_sim2real.check.check_result import CheckResult, failed, ok, warning
from robo_rl_sim2real.check.survey import SurveyResult, current_observation
from robo_rl_sim2real.control.commands.braking import Limits
from robo_rl_sim2real.control.commands.contract import command_spec

_SLACK = 0.02
"""Share of a joint's range by which a measurement may exceed it."""
_FAR = 0.5
"""Share of a joint's range by which the first action may differ from the measurement."""
_ENOUGH_TIMINGS = 100
"""Number of queries from which a 99th percentile is shown."""
_LEAST_TIMINGS = 20
"""Number of queries below which their slowest is no ground to run the policy."""
_TOO_FEW = "too few to judge rare delays; check again while no other node steers the robot"
_SCALES = {"degrees": 180.0 / math.pi, "mm": 1000.0}


def check_contract(facts: SurveyResult) -> Iterator[CheckResult]:
    """Report that robot, limits, units and rate match the bundle; a mismatch raises before this."""
    act, of = facts.contract.act, facts.contract
    text = f"{of.robot}, {of.task}: {len(act.names)} actions at {act.rate_hz:g} Hz, limits agree"
    yield ok("contract", text)


def check_joints(facts: SurveyResult) -> Iterator[CheckResult]:
    """Check that all joints are measured, in range, in their unit, and near the start."""
    names = facts.runtime.measured.names
    try:
        found = facts.runtime.measured.sample(facts.inbox)
    except SpecError as error:
        topics = ", ".join(facts.runtime.measured.topics)
        yield failed("joints", str(error), f"mend what publishes {topics}: {', '.join(names)}")
        return
    if found is None:
        return
    measured = found.pos
    amiss = list(_out_of_range(facts, measured))
    yield from amiss
    if not amiss:
        yield ok("joints", f"all {len(names)} that are commanded, by name, within their limits")
        yield _start(facts, measured)


def check_observation(facts: SurveyResult) -> Iterator[CheckResult]:
    """Check the present observation and the policy's first action."""
    obs, problem = current_observation(facts)
    if problem:
        yield failed("observation", problem, "mend what publishes it, or observe in the settings")
    if obs is None:
        return
    yield ok("observation", f"{', '.join(obs)} as in training")
    first = np.asarray(facts.query(obs, None))[0, 0].astype(np.float64)
    if not np.isfinite(first).all():
        yield failed("first action", "not finite", "the bundle is damaged, or an input absurd")
    else:
        yield from _near(facts, first)


def check_inference_time(facts: SurveyResult) -> Iterator[CheckResult]:
    """Check that the policy's inference is fast enough on this machine."""
    p50_s, tail_s, tail = _quantiles(facts.query_s)
    inline = facts.settings.inference == "inline"
    period_s, patience_s = (
        1.0 / facts.contract.act.rate_hz,
        facts.settings.safety.inference_timeout_s,
    )
    limit_s, what = (period_s, "a period") if inline else (patience_s, "safety.inference_timeout_s")
    text = f"answers in {1e3 * p50_s:.3g} ms, {tail} {1e3 * tail_s:.3g} ms;"
    text += f" {what} is {1e3 * limit_s:.0f} ms"
    faster = "a faster machine, fewer denoising steps" + (
        ", or inference: thread" if inline else ""
    )
    if p50_s > limit_s:
        yield failed("policy", text, faster)
    elif tail_s > (0.5 if inline else 1.0) * limit_s:
        yield warning("policy", text, f"end what else runs here; {faster}")
    elif len(facts.query_s) < _LEAST_TIMINGS:
        yield warning("policy", text, _TOO_FEW)
    else:
        yield ok("policy", text)


def check_prefix_time(facts: SurveyResult) -> Iterator[CheckResult]:
    """Check that images and words are encoded often enough on this machine."""
    if facts.settings.prefix is None:
        return
    p50_s, tail_s, tail = _quantiles(facts.prefix_s)
    limit_s = facts.settings.safety.max_chunk_age_s
    oldest_s = max(facts.settings.prefix.period_s, tail_s) + tail_s + facts.contract.execution_s
    text = (
        f"a refresh takes {1e3 * p50_s:.3g} ms, {tail} {1e3 * tail_s:.3g} ms; actions follow images"
        f" up to {oldest_s:.2f} s old, safety.max_chunk_age_s is {limit_s:g} s"
    )
    if oldest_s > limit_s:
        yield failed(
            "prefix", text, "a faster machine, a smaller prefix.period_s, or a larger limit"
        )
    elif len(facts.prefix_s) < _LEAST_TIMINGS:
        yield warning("prefix", text, _TOO_FEW)
    else:
        yield ok("prefix", text)


def _quantiles(durations_s: np.ndarray) -> tuple[float, float, str]:
    """Return the median, a long duration, and what that is: 99 % of 100 or more, or the slowest."""
    count = len(durations_s)
    if count < _ENOUGH_TIMINGS:  # a 99th percentile of fewer was never observed
        return float(np.median(durations_s)), float(durations_s.max()), f"the slowest of {count} in"
    p50_s, p99_s = np.percentile(durations_s, [50, 99])
    return float(p50_s), float(p99_s), "99 % in"


def _out_of_range(facts: SurveyResult, measured: np.ndarray) -> Iterator[CheckResult]:
    """Yield joints beyond the robot's limits, and the unit that would explain them."""
    limits, names = _limits(facts), facts.runtime.measured.names
    slack = _SLACK * (limits.high - limits.low)

    def beyond(values: np.ndarray) -> np.ndarray:
        return (values < limits.low - slack) | (values > limits.high + slack)

    where = np.flatnonzero(beyond(measured))
    if not len(where):
        return
    text = ", ".join(f"{names[i]} {measured[i]:.3f}" for i in where)
    units = [unit for unit, scale in _SCALES.items() if not beyond(measured / scale)[where].any()]
    like = f"these look like {units[0]}: publish rad and m" if units else ""
    remedy = like or "move them back, or mend robot.yaml"
    yield failed("joints", f"beyond their limits: {text}", remedy)


def _limits(facts: SurveyResult) -> Limits:
    """Return the robot's own limits, without the margin of commands."""
    return command_spec(facts.contract, facts.settings.robot.build()).limits


def _start(facts: SurveyResult, measured: np.ndarray) -> CheckResult:
    life, names = facts.runtime.life, facts.runtime.measured.names
    apart = np.abs(measured - life.start)
    worst = int((apart / life.within).argmax())
    within = life.within[worst]
    text = f"{names[worst]} is {apart[worst]:.3f} from its start, of at most {within:g}"
    if apart[worst] > within:
        return warning("start", text, f"move it there: {np.round(life.start, 3).tolist()}")
    return ok("start", text)


def _near(facts: SurveyResult, first: np.ndarray) -> Iterator[CheckResult]:
    """Check that the target of the first action is near the measured pose, as in training."""
    limits, names = _limits(facts), facts.runtime.measured.names
    try:
        found = facts.runtime.measured.sample(facts.inbox)
    except SpecError:  # ``check_joints`` reports it
        return
    if found is None:
        return
    deltas = facts.runtime.measured.deltas
    target = first if deltas is None else deltas.target(found.pos, first)
    share = np.abs(target - found.pos) / (limits.high - limits.low)
    worst = int(share.argmax())
    text = f"moves {names[worst]} by {100 * share[worst]:.0f} % of its range"
    if share[worst] > _FAR:
        yield warning("first action", text, "are joints, units and start those of training?")
    else:
        yield ok("first action", text)
