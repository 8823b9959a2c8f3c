"""What off-policy evaluation said of policies that were improved from data, and what they came to.

A row a run. Values and returns are in one unit, the sum of an episode's rewards; what was measured
in the env was measured afterwards, and nothing was chosen by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robo_rl.train.bench.kept import Kept, Measured
from robo_rl.train.bench.suite import Key

NAMED = {
    "before": "return_before",
    "value_before": "value_before",
    "after": "return_ungated",
    "value_after": "value_after",
}
"""In a row → in the report of a stage that improves a policy by data alone."""
ACCEPTED = "accepted"


def gates(kept: Mapping[Key, Kept]) -> list[dict[str, Any]]:
    """Of every stage of a run that had such a gate; those of a task and a method stand together.

    Returns:
        ``task``, ``method``, ``seed`` and ``stage``, its label; ``before`` and ``after``, the mean
        returns of both policies, with ``value_before`` and ``value_after``, each a mapping of
        ``value``, ``low`` and ``high``; ``accepted``, whether the new policy went on, and
        ``waived``, whether against what the gate said.
    """
    order = list(dict.fromkeys(key[:2] for key in kept))
    ordered = sorted(kept.items(), key=lambda item: (order.index(item[0][:2]), item[0].seed))
    return [
        {
            **key._asdict(),
            "stage": label,
            **{name: _ends(stage.numbers[wanted]) for name, wanted in NAMED.items()},
            "accepted": bool(stage.numbers[ACCEPTED]),
            "waived": stage.status == "waived",
        }
        for key, each in ordered
        for label, stage in each.stages.items()
        if {*NAMED.values(), ACCEPTED} <= set(stage.numbers)
    ]


def _ends(number: Measured) -> dict[str, float | None]:
    return {"value": number.value, "low": number.low, "high": number.high}
