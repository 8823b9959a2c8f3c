"""Verdicts of the sequential test on a suite, by planned groups of seeds, on all its methods.

The looks are fixed before any run. Group g holds the planned seeds gN … (g + 1)N − 1. Groups after
the first incomplete one are not used. The family holds all methods of the suite on all its tasks.
So neither the order in which runs end nor a selection of runs influences the verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from itertools import count, islice
from typing import Any

import numpy as np

from robo_rl.bench.results.cell_record import CellRecord
from robo_rl.bench.results.scores import Scores, common_seeds
from robo_rl.bench.suite.suite import CellKey, Suite
from robo_rl.stats.sequential import Decision, PairVerdict, compare_sequentially


def verdicts(
    suite: Suite, kept: Mapping[CellKey, CellRecord], methods: Collection[str]
) -> list[dict[str, Any]]:
    """Return the verdicts on each method against the reference.

    Args:
        suite: The whole suite.
        kept: Its kept cells of the current settings.
        methods: Methods to report.

    Returns:
        ``method``, ``reference``, ``verdict``, ``difference`` of the means (None without seeds),
        ``seeds`` used, and ``next``: the seeds that are needed for a further look.
    """
    reference = suite.report.reference
    others = [method for method in suite.methods if method != reference]
    if not others or reference not in suite.methods:
        return []
    family = [_scores(suite, kept, method) for method in (reference, *others)]
    complete, following = _looked_at(suite, common_seeds(family))
    tables = np.stack([scores.table(complete) for scores in family])
    pairs = [(other, 0) for other in range(1, len(family))]
    decided = compare_sequentially(tables, pairs, **suite.report.sequential.model_dump())
    return [
        {"method": method, "reference": reference, **_told(decision, following)}
        for method, decision in zip(others, decided.values(), strict=True)
        if method in methods
    ]


def planned(suite: Suite) -> list[int]:
    """Return all planned seeds: the suite's, then those after its largest."""
    plan = suite.report.sequential
    further = count(max(suite.seeds) + 1)
    size = plan.seeds_per_group * plan.num_groups
    return [*suite.seeds, *islice(further, max(0, size - len(suite.seeds)))][:size]


def _looked_at(suite: Suite, there: Collection[int]) -> tuple[list[int], list[int]]:
    """Return the seeds of the complete groups, and the missing seeds of the next group."""
    seeds, size = planned(suite), suite.report.sequential.seeds_per_group
    for start in range(0, len(seeds), size):
        lacking = [seed for seed in seeds[start : start + size] if seed not in there]
        if lacking:
            return seeds[:start], lacking
    return seeds, []


def _scores(suite: Suite, kept: Mapping[CellKey, CellRecord], method: str) -> Scores:
    own = [each for each in kept.values() if each.method == method]
    return Scores(suite.tasks, own, suite.report)


def _told(decision: Decision, following: list[int]) -> dict[str, Any]:
    return {
        "verdict": str(decision.verdict),
        "difference": None if math.isnan(decision.difference) else decision.difference,
        "seeds": decision.seeds,
        "next": following if decision.verdict is PairVerdict.MORE_SEEDS else [],
    }
