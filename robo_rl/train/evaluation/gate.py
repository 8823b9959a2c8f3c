"""What a gate answers: pass, fail, or that the episodes that it has cannot tell."""

from __future__ import annotations

from typing import Any, Literal, Self, cast

from pydantic import model_validator

from robo_rl.config.models import ConfigModel
from robo_rl.stats.paired_tests import Comparison, discordant
from robo_rl.stats.power import SMALL_DISCORDANCE, episodes_by_sqrt_n, min_pairs, pairs_needed
from robo_rl.train.evaluation.evaluate import EvalProtocol, EvalResult, compare, format_comparison

GateAnswer = Literal["pass", "fail", "cannot tell"]

_ANSWERS: dict[str, GateAnswer] = {
    "non-inferior": "pass",
    "inferior": "fail",
    "cannot tell": "cannot tell",
}
EPISODES = "eval.episodes"
"""The setting that gives most gates more episodes; what is trained does not depend on it."""


class Gate(ConfigModel):
    """Whether a stage's result may be built upon.

    Args:
        name: What is asked.
        passed: Whether the stages behind it may begin.
        detail: What was seen, in a clause.
        waiver: Why it is passed over, where it is.
        answer: What the evidence says; where it is not said, what ``passed`` says. A stage that
            decides by itself what goes on may pass with another answer.
        episodes_needed: How many episodes would tell at the same rates; None where that is not asked, or no
            number would. See ``power``.
        setting: Which setting asks for so many; None where it is no setting.
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


def comparison_gate(
    name: str, new: EvalResult, ref: EvalResult, margin: float, about: str = ""
) -> Gate:
    """A gate that compares a policy with its reference, both on the same starts.

    Args:
        name: Of the gate.
        new: Of the policy that is to pass.
        ref: Of its reference.
        margin: How much worse it may be; 0 demands that it is better. See ``compare``.
        about: What to say first.
    """
    test = compare(new, ref, margin)
    answer = _ANSWERS[test.verdict]
    words = {"pass": "not worse" if margin else "better", "fail": "worse"}
    detail = f"{about}{words.get(answer, answer)}: {format_comparison(test, new.measure)}"
    if answer != "cannot tell":
        return Gate(name=name, passed=answer == "pass", detail=detail, answer=answer)
    needed = _needed(new, ref, test)
    detail += f"; {episodes_needed_text(needed)}"
    return Gate(
        name=name,
        passed=False,
        detail=detail,
        answer=answer,
        episodes_needed=needed,
        setting=EPISODES,
    )


def _needed(new: EvalResult, ref: EvalResult, test: Comparison) -> int | None:
    """Episodes at which ``compare`` would tell, at the same rates or spread; see ``power``."""
    if new.measure == "success":
        return pairs_needed(*discordant(new.success.numpy(), ref.success.numpy()), test.margin)
    return episodes_by_sqrt_n(len(new.returns), test.difference, test.interval, -test.margin)


def episodes_needed_text(needed: int | None, what: str = "episodes") -> str:
    """How many, in a clause."""
    if needed is None:
        return f"no number of {what} that can be foretold would tell"
    return f"about {needed:,} {what} would tell if all stays as it looks"


def low_power_warning(protocol: EvalProtocol, margin: float) -> str | None:
    """Why a comparison of success rates can hardly pass; None where it well can.

    An equally good policy is foretold: one that never differs on a start from its reference, and
    one that differs on ``SMALL_DISCORDANCE`` of them, half each way. Of returns nothing is known
    beforehand.
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
