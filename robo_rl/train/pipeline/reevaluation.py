"""Stages evaluated again: what they trained stays, only ``eval`` of their experiment has changed.

A stage's folder notes under which ``eval`` it stands, beside the digest that follows from it. With
that ``eval`` put back, the digest of an experiment that has changed in nothing else is the same.
What a stage chose in training it chose by training episodes or data, and that is not repeated.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from robo_rl.config.compose import compose
from robo_rl.core.atomic_files import write_file
from robo_rl.core.errors import ConfigError
from robo_rl.train.evaluation.evaluate import EvalProtocol
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.stage import Context, Reevaluable, Report, Stage, stage_digest

FILE, MARK = "evaluation.json", "digest"


class StageMark(NamedTuple):
    """By what a stage's folder was made: digest and ``eval``."""

    digest: str
    eval: EvalProtocol


def write_mark(place: Path, made: StageMark) -> None:
    """Write down by what a stage's folder is made.

    Raises:
        OSError: It cannot be written.
    """
    body = {"digest": made.digest, "eval": made.eval.model_dump()}
    write_file(place / FILE, json.dumps(body, indent=1).encode())
    write_file(place / MARK, made.digest.encode())  # last, what is compared first


def read_mark(place: Path) -> StageMark | None:
    """What ``note`` wrote, or what the run's config says where nothing was; None for neither."""
    try:
        if (place / FILE).is_file():
            body: dict[str, Any] = json.loads((place / FILE).read_text())
            return StageMark(body["digest"], EvalProtocol.model_validate(body["eval"]))
        tree = compose(str(place.parent / "config.yaml")).values
        digest = (place / MARK).read_text()
        return StageMark(digest, EvalProtocol.model_validate(tree.get("eval") or {}))
    except (OSError, ValueError, TypeError, KeyError, ValidationError, ConfigError):
        return None


def only_eval_changed(place: Path, experiment: Experiment, index: int) -> bool:
    """Whether nothing but ``eval`` has changed since a stage's folder was made.

    ``eval.measure`` has to be the same, and the stage must be one that can be evaluated again.
    """
    made, cls = read_mark(place), list(experiment.stages.values())[index].cls
    if made is None or made.eval.measure != experiment.eval.measure:
        return False
    if _is_asked(cls) and not hasattr(cls, "evaluate"):
        return False
    as_made = experiment.model_copy(update={"eval": made.eval})
    return stage_digest(as_made, index) == made.digest


def reevaluate_stage(stage: Stage, context: Context, report: Report) -> Report:
    """A finished stage's report under the protocol of now, that of before among ``earlier``.

    Args:
        stage: For which ``only_eval_changed``.
        context: Of the stage, of the experiment of now.
        report: Under the earlier one.
    """
    made, before = read_mark(context.directory), report.gate
    if not (isinstance(stage, Reevaluable) and _is_asked(type(stage))):
        return report
    earlier, seconds = list(report.earlier), report.seconds
    found = stage.evaluate(context, report)
    if made and before and found.gate and before.detail != found.gate.detail:
        gate = before.model_dump(mode="json")
        answer = {"eval": made.eval.model_dump(mode="json"), "gate": gate}
        earlier = [each for each in earlier if each != answer] + [answer]
    found.earlier, found.seconds = earlier, seconds
    return found


def _is_asked(cls: type[Stage]) -> bool:
    return cls.evaluates and (cls.reads is None or "eval" in cls.reads)
