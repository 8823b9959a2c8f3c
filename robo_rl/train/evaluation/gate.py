"""Gates with three answers: pass, fail, or cannot tell with the given episodes."""

from __future__ import annotations

from typing import Any, Literal, Self, cast

from pydantic import model_validator

from robo_rl.config.models import ConfigModel
from robo_rl.stats.intervals import Interval, normal_quantile
from robo_rl.stats.paired_tests import Comparison, discordant
from robo_rl.stats.power import SMALL_DISCORDANCE, episodes_by_sqrt_n, min_pairs, pairs_needed
from robo_rl.train.evaluation.comparison import Pair, compare, format_comparison, worst_and_best
from robo_rl.train.evaluation.evaluate import EvalProtocol, EvalResult

GateAnswer = Literal["pass", "fail", "cannot tell"]

_ANSWERS: dict[str, GateAnswer] = {
    "non-inferior": "pass",
    "inferior": "fail",
    "cannot tell": "cannot tell",
}
EPISODES = "eval.episodes"
"""The setting that gives most gates more episodes; training does not depend on it."""
_NO_SUCCESS = "no episode of either policy succeeded; eval.measure=return compares returns"
"""Also of an env that defines no success, in which no number of episodes would show a loss."""


class Gate(ConfigModel):
    """Whether later stages may use a stage's result.

    Args:
        name: Name of the gate.
        passed: Whether the later stages may run.
        detail: The evidence, in a clause.
        waiver: Reason of the waiver; None without one.
        answer: Answer of the evidence; by default that of ``passed``. A stage that chooses its
            result itself may pass with another answer.
        episodes_needed: Number of episodes that would decide at the same rates; None if no number
            would, or if it is not computed. See ``power``.
        setting: Setting that raises the number of episodes; None without one.
    """

    name: str
    passed: bool
    detail: str
    waiver: str | None = None
    answer: GateAnswer = "fail"
    episodes_needed: int | None = None
    setting: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _answered(cls, fields: Any) -> Any:
        if not isinstance(fields, dict) or "answer" in fields:
            return fields
        said = cast("dict[str, Any]", fields)
        return {**said, "answer": "pass" if said.get("passed") else "fail"}

    @model_validator(mode="after")
    def _nothing_is_held_back(self) -> Self:
        if self.answer == "pass" and not self.passed:
            raise ValueError("answer: 'pass' of a gate that did not pass")
        return self

    @property
    def status(self) -> str:
        """``passed``, ``waived``, ``failed`` or ``cannot tell``."""
        if self.passed:
            return "passed"
        if self.waiver:
            return "waived"
        return "cannot tell" if self.answer == "cannot tell" else "failed"


def confidence_of(looks: int) -> float:
    """Return the confidence of a comparison after ``looks`` earlier ones of the same stage.

    The first has 95 %, and each later one half the error of the one before: 97.5 %, 98.75 %. By
    Bonferroni's inequality a policy that loses exactly the margin passes with a probability of at
    most 2.5 % at the first look, and 5 % over all looks, wherever they stop.
    """
    return 1.0 - 0.05 / 2**looks


def comparison_gate(
    name: str,
    new: EvalResult,
    ref: EvalResult,
    margin: float,
    about: str = "",
    *,
    looks: int = 0,
) -> Gate:
    """Return a gate that compares a policy with its reference on the same start states.

    Without any success the success rates compare nothing, and the answer is "cannot tell". Where
    worlds were lost, the answer holds for the worst and the best outcome of their episodes.

    In an env of several tasks, no task may be shown to be worse. Each is tested on its own at the
    level of the whole, so that more tasks find more losses, false ones among them.

    Args:
        name: Name of the gate.
        new: Evaluation of the policy under test.
        ref: Evaluation of its reference.
        margin: Largest accepted loss; 0 requires an improvement. See ``compare``.
        about: Prefix of the detail.
        looks: Number of earlier gates of the same policies, see ``confidence_of``.
    """
    if new.measure == "success" and not (new.success.any() or ref.success.any()):
        return Gate(name=name, passed=False, detail=f"{about}{_NO_SUCCESS}", answer="cannot tell")
    test = compare(new, ref, margin, confidence_of(looks))
    answer = _ANSWERS[test.verdict]
    words = {"pass": "not worse" if margin else "better", "fail": "worse"}
    detail = f"{about}{words.get(answer, answer)}: {format_comparison(test, new.measure)}"
    if lost := new.num_lost + ref.num_lost:
        detail += f" over the worst and best outcomes of {lost} episodes that lost their world"
    if looks:
        detail += f"; look {looks + 1}, interval of {100 * confidence_of(looks):.4g} %"
    if worse := _worse_tasks(new, ref, margin, looks):
        return Gate(name=name, passed=False, detail=f"{detail}; {worse}")
    if answer != "cannot tell":
        return Gate(name=name, passed=answer == "pass", detail=detail, answer=answer)
    needed = _needed(new, ref, test, looks)
    detail += f"; {episodes_needed_text(needed)}"
    return Gate(
        name=name,
        passed=False,
        detail=detail,
        answer=answer,
        episodes_needed=needed,
        setting=EPISODES,
    )


def _worse_tasks(new: EvalResult, ref: EvalResult, margin: float, looks: int) -> str:
    """Return a clause about the tasks that are worse; empty without any."""
    before, told, confidence = ref.by_task(), list[str](), confidence_of(looks)
    for name, after in new._replace(tasks=ref.tasks).by_task().items():
        if name not in before:
            continue
        if (test := compare(after, before[name], margin, confidence)).verdict == "inferior":
            told.append(f"task {name} worse: {format_comparison(test, new.measure)}")
    return "; ".join(told)


def _needed(new: EvalResult, ref: EvalResult, test: Comparison, looks: int) -> int | None:
    """Return the episodes at which the next look would decide, at the same rates or spread."""
    now, then = confidence_of(looks), confidence_of(looks + 1)
    if (pair := _deciding(new, ref, test.margin)) is None:
        return None
    new, ref = pair
    if new.measure == "success":
        pairs = discordant(new.success.numpy(), ref.success.numpy())
        return pairs_needed(*pairs, test.margin, then)
    if new.returns.equal(ref.returns):
        return min_pairs(test.margin, then) if test.margin else None
    whole, wider = compare(new, ref, test.margin, now), normal_quantile(then) / normal_quantile(now)
    low, high = (whole.difference + wider * (end - whole.difference) for end in whole.interval)
    interval = Interval(low, high)
    return episodes_by_sqrt_n(len(new.returns), whole.difference, interval, -test.margin)


def _deciding(new: EvalResult, ref: EvalResult, margin: float) -> Pair | None:
    """Return the worst case if it is above −margin, the best if it is below; None if neither is."""
    if not new.num_lost + ref.num_lost:
        return new, ref
    if (cases := worst_and_best(new, ref)) is None:
        return None
    worst, best = cases
    if compare(*worst, margin).difference > -margin:
        return worst
    return best if compare(*best, margin).difference < -margin else None


def episodes_needed_text(needed: int | None, what: str = "episodes") -> str:
    """Return the needed number of episodes as a clause."""
    if needed is None:
        return f"no number of {what} is predicted to decide"
    return f"about {needed:,} {what} decide if the measured rates hold"


def low_power_warning(protocol: EvalProtocol, margin: float) -> str | None:
    """Return why a comparison of success rates can hardly pass; None if the power suffices.

    The power is that for an equally good policy. It covers zero discordant pairs, and a fraction
    ``SMALL_DISCORDANCE`` of discordant pairs, half in each direction. For returns the power is
    unknown beforehand.
    """
    if protocol.measure != "success":
        return None
    have, least = protocol.episodes, min_pairs(margin)
    half = SMALL_DISCORDANCE / 2
    usual = pairs_needed(half, half, 1, margin)
    if usual is None or have >= usual:
        return None
    how = "cannot" if have < least else "can hardly"
    return (
        f"margin {margin:.1%} with {EPISODES}={have} {how} pass a policy that is just as good:"
        f" that takes {least} where no pair is discordant,"
        f" about {usual} where {SMALL_DISCORDANCE:.0%} are"
    )
