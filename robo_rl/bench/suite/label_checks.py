"""A suite names stages of its cells; a misspelt one would only show as dashes, hours later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from robo_rl.bench.suite.suite import CellKey, ReportConfig, Suite
from robo_rl.config.registry import Component
from robo_rl.core.suggestions import did_you_mean

Place = tuple[str, ...]
"""Keys within the suite's section."""

Stages = Mapping[str, Component[Any]]
"""Label → stage, of a cell."""


def unknown_stage_labels(
    suite: Suite, stages: Mapping[CellKey, Stages]
) -> Iterator[tuple[Place, str]]:
    """Labels of a suite that are no stages: where they stand, and what is wrong.

    ``report.stage`` must be a stage of every cell, the others of at least one; the defaults of
    ``report.student`` and ``shared`` may be absent. A ``clean`` curve needs a stage that probes.

    Args:
        suite: With the labels.
        stages: Of every cell; of none there is nothing to say.
    """
    if not stages:
        return
    yield from _missing(suite.report.stage, stages)
    yield from _not_looked_at(suite.report, stages)
    known = {label for each in stages.values() for label in each}
    for place, label in _others(suite):
        if label not in known:
            yield place, f"no stage '{label}'; {did_you_mean(label, known)}"


def _missing(label: str, stages: Mapping[CellKey, Stages]) -> Iterator[tuple[Place, str]]:
    """The first cell that lacks the stage that counts."""
    for key, own in stages.items():
        if label not in own:
            problem = f"no stage '{label}' in {key}; {did_you_mean(label, own)}"
            yield ("report", "stage"), problem
            return


def _not_looked_at(
    report: ReportConfig, stages: Mapping[CellKey, Stages]
) -> Iterator[tuple[Place, str]]:
    """The first cell that has no evaluation curve to show, where one is asked for."""
    for key, own in stages.items() if report.curve == "eval" else ():
        probe = getattr(getattr(own.get(report.stage), "cfg", None), "periodic_eval", None)
        if not getattr(probe, "every", 0):
            problem = f"'eval', but {key} sets no stages.{report.stage}.periodic_eval.every"
            yield ("report", "curve"), problem
            return


def _others(suite: Suite) -> Iterator[tuple[Place, str]]:
    """All that is not a default."""
    student, shared = suite.report.student, Suite.model_fields["shared"].default
    if student not in (None, ReportConfig.model_fields["student"].default):
        yield ("report", "student"), str(student)
    for label in suite.report.prior_stages:
        yield ("report", "prior_stages"), label
    for label in suite.shared:
        if label not in shared:
            yield ("shared",), label
