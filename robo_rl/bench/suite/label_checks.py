"""Checks the stage labels of a suite, since a misspelt label would only leave empty results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from robo_rl.bench.suite.suite import CellKey, ReportConfig, Suite
from robo_rl.config.component import Component
from robo_rl.core.suggestions import did_you_mean

Place = tuple[str, ...]
"""Keys within the suite's section."""

Stages = Mapping[str, Component[Any]]
"""Label → stage, of a cell."""


def unknown_stage_labels(
    suite: Suite, stages: Mapping[CellKey, Stages]
) -> Iterator[tuple[Place, str]]:
    """Yield the labels of a suite that are not stages: their place, and the problem.

    ``report.stage`` must be a stage of every cell, the others of at least one. The defaults of
    ``report.student`` and ``shared`` may be absent. An ``eval`` curve needs a stage with periodic
    evaluations.

    Args:
        suite: Suite with the labels.
        stages: Stages of every cell; without cells nothing is checked.
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
    """Yield the first cell that lacks the reported stage."""
    for key, own in stages.items():
        if label not in own:
            problem = f"no stage '{label}' in {key}; {did_you_mean(label, own)}"
            yield ("report", "stage"), problem
            return


def _not_looked_at(
    report: ReportConfig, stages: Mapping[CellKey, Stages]
) -> Iterator[tuple[Place, str]]:
    """Yield the first cell without periodic evaluations, if an ``eval`` curve is requested."""
    for key, own in stages.items() if report.curve == "eval" else ():
        probe = getattr(getattr(own.get(report.stage), "cfg", None), "periodic_eval", None)
        if not getattr(probe, "every", 0):
            problem = f"'eval', but {key} sets no stages.{report.stage}.periodic_eval.every"
            yield ("report", "curve"), problem
            return


def _others(suite: Suite) -> Iterator[tuple[Place, str]]:
    """Yield all labels that are not defaults."""
    student, shared = suite.report.student, Suite.model_fields["shared"].default
    if student not in (None, ReportConfig.model_fields["student"].default):
        yield ("report", "student"), str(student)
    for label in suite.report.prior_stages:
        yield ("report", "prior_stages"), label
    for name, which in suite.report.ratios.items():
        for label in which.prior_stages:
            yield ("report", "ratios", name, "prior_stages"), label
    for label in suite.shared:
        if label not in shared:
            yield ("shared",), label
