"""The sequential test's verdicts on a suite: by planned groups of seeds, on all its methods.

What a run of it may look at is fixed before anything is run. Group g are the planned seeds gN …
(g + 1)N − 1, and none behind the first that is not complete; the family are all methods of the
suite, on all of its tasks. So neither the order in which runs end, nor which of them somebody looks
at, has a say in what is found.
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
    """Verdicts on each method against the reference.

    Args:
        suite: The whole of it.
        kept: Its cells of the settings of now.
        methods: Whose verdicts to tell.

    Returns:
        ``method``, ``reference``, ``verdict``, ``difference`` of the means (None of no seeds),
        ``seeds`` looked at, and ``next``: the seeds that are needed, where more are.
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
    """All seeds that the test may look at: the suite's, then those that follow its largest."""
    plan = suite.report.sequential
    further = count(max(suite.seeds) + 1)
    size = plan.seeds_per_group * plan.num_groups
    return [*suite.seeds, *islice(further, max(0, size - len(suite.seeds)))][:size]


def _looked_at(suite: Suite, there: Collection[int]) -> tuple[list[int], list[int]]:
    """Seeds of the groups that are complete, and what the next one lacks."""
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
