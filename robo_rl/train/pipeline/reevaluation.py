"""Reevaluates finished stages when only ``eval`` of their experiment changes.

A stage's folder records the ``eval`` of its result and the stage digest. With that ``eval`` put
back, an otherwise unchanged experiment has the same digest. Choices that a stage makes during
training rest on training episodes or data and are not repeated.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from robo_rl.config.compose import compose
from robo_rl.core.atomic_files import write_file
from robo_rl.core.errors import CheckpointError, RoboRlError
from robo_rl.train.evaluation.evaluate import EvalProtocol
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.stage import Context, Reevaluable, Report, Stage
from robo_rl.train.pipeline.stage_digest import stage_digest

FILE, MARK = "evaluation.json", "digest"


class StageMark(NamedTuple):
    """Digest and ``eval`` under which a stage's folder was made."""

    digest: str
    eval: EvalProtocol


def write_mark(place: Path, made: StageMark) -> None:
    """Record the digest and ``eval`` of a stage's folder.

    Raises:
        OSError: It cannot be written.
    """
    body = {"digest": made.digest, "eval": made.eval.model_dump()}
    write_file(place / FILE, json.dumps(body, indent=1).encode())
    write_file(place / MARK, made.digest.encode())  # last, because it is compared first


def read_digest(place: Path) -> str:
    """Return the digest under which a stage's folder was made; its second record if one is damaged.

    Raises:
        CheckpointError: Both records are damaged.
    """
    found = (place / MARK).read_bytes().decode("ascii", "replace")
    for digest in (found, _second_digest(place)):
        if re.fullmatch("[0-9a-f]+", digest):
            return digest
    raise CheckpointError(
        "is damaged",
        where=place / MARK,
        expected="hexadecimal digits",
        found=repr(found[:80]),
        hint=f"remove {place} to run the stage again, or put the file back",
    )


def _second_digest(place: Path) -> str:
    """Return the digest of ``FILE``; empty if it is missing or damaged."""
    try:
        return str(json.loads((place / FILE).read_text())["digest"])
    except (OSError, ValueError, TypeError, KeyError):
        return ""


def read_mark(place: Path) -> StageMark | None:
    """Return the record of ``write_mark``, or that of the run's config; None for neither."""
    try:
        if (place / FILE).is_file():
            body: dict[str, Any] = json.loads((place / FILE).read_text())
            return StageMark(body["digest"], EvalProtocol.model_validate(body["eval"]))
        tree = compose(str(place.parent / "config.yaml")).values
        return StageMark(read_digest(place), EvalProtocol.model_validate(tree.get("eval") or {}))
    except (OSError, ValueError, TypeError, KeyError, ValidationError, RoboRlError):
        return None


def only_eval_changed(place: Path, experiment: Experiment, index: int) -> bool:
    """Return whether only ``eval`` has changed since a stage's folder was made.

    ``eval.measure`` must be unchanged, and the stage must support reevaluation. Up to a stage that
    probes its policy in training, ``eval.num_envs`` must be unchanged, too: start states depend on
    it, and so do the decisions of training.
    """
    before = list(experiment.stages.values())[: index + 1]
    made, cls = read_mark(place), before[-1].cls
    if made is None or made.eval.measure != experiment.eval.measure:
        return False
    probed = any(stage.cls.probes for stage in before)
    if probed and made.eval.num_envs != experiment.eval.num_envs:
        return False
    if _is_asked(cls) and not hasattr(cls, "evaluate"):
        return False
    as_made = experiment.model_copy(update={"eval": made.eval})
    return stage_digest(as_made, index) == made.digest


def reevaluate_stage(stage: Stage, context: Context, report: Report) -> Report:
    """Return a stage's report under the current protocol, with the old gate in ``earlier``.

    Args:
        stage: Stage that passes ``only_eval_changed``.
        context: Context of the stage, with the current experiment.
        report: Report under the old protocol.
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
