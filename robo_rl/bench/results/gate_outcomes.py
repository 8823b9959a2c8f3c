"""What off-policy evaluation said of policies that were improved from data, and what they came to.

A row a run. Values and returns are in one unit, the sum of an episode's rewards; what was measured
in the env was measured afterwards, and nothing was chosen by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from robo_rl.bench.results.cell_record import CellRecord, NumberRecord
from robo_rl.bench.results.scores import stage_number
from robo_rl.bench.suite.suite import CellKey

NAMED = {
    "before": "return_before",
    "value_before": "value_before",
    "after": "return_ungated",
    "value_after": "value_after",
}
"""In a row → in the report of a stage that improves a policy by data alone."""
ACCEPTED = "accepted"


def collect_gate_outcomes(kept: Mapping[CellKey, CellRecord]) -> list[dict[str, Any]]:
    """Of every stage of a run that had such a gate; those of a task and a method stand together.

    Returns:
        ``task``, ``method``, ``seed`` and ``stage``, its label; ``before`` and ``after``, the mean
        returns of both policies, with ``value_before`` and ``value_after``, each a mapping of
        ``value``, ``low`` and ``high``; ``ood_distance`` of the new one, and ``model_error``, by
        which the values' intervals are widened, where they are known; ``accepted``, whether the new
        policy went on, and ``waived``, whether against what the gate said.
    """
    order = list(dict.fromkeys(key[:2] for key in kept))
    ordered = sorted(kept.items(), key=lambda item: (order.index(item[0][:2]), item[0].seed))
    return [
        {
            **key._asdict(),
            "stage": label,
            **{name: _ends(stage.numbers[wanted]) for name, wanted in NAMED.items()},
            "ood_distance": stage_number(each, label, "ood_distance_after"),
            "model_error": each.config.get("stages", {}).get(label, {}).get("model_error"),
            "accepted": bool(stage.numbers[ACCEPTED]),
            "waived": stage.status == "waived",
        }
        for key, each in ordered
        for label, stage in each.stages.items()
        if {*NAMED.values(), ACCEPTED} <= set(stage.numbers)
    ]


def group_by_method(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of ``gates``, those of a task, a method and a stage together.

    Returns:
        ``task``, ``method`` and ``stage``; and for each run ``seeds``, mean return ``before`` and
        ``after``, this whatever the gate said, ``accepted`` and ``waived``.
    """
    found: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["task"], row["method"], row["stage"]), []).append(row)
    return [
        {
            **dict(zip(("task", "method", "stage"), labels, strict=True)),
            "seeds": [row["seed"] for row in own],
            **{name: [row[name]["value"] for row in own] for name in ("before", "after")},
            **{name: [row[name] for row in own] for name in ("accepted", "waived")},
        }
        for labels, own in found.items()
    ]


def _ends(number: NumberRecord) -> dict[str, float | None]:
    return {"value": number.value, "low": number.low, "high": number.high}
