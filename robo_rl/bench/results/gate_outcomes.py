"""Off-policy estimates of offline gates, and the measured returns of the policies.

One row per run. Values and returns share a unit, the sum of an episode's rewards. The returns in
the env were measured afterwards and influenced no choice.
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
"""Name in a row → name in the report of an offline improvement stage."""
ACCEPTED = "accepted"


def collect_gate_outcomes(kept: Mapping[CellKey, CellRecord]) -> list[dict[str, Any]]:
    """Return a row for every stage with such a gate, ordered by task and method.

    Returns:
        ``task``, ``method``, ``seed`` and the label ``stage``. ``before`` and ``after`` are the
        mean returns of both policies, ``value_before`` and ``value_after`` their estimates, each a
        mapping of ``value``, ``low`` and ``high``. ``ood_distance`` is that of the new policy,
        ``model_error`` widens the intervals of the values; both may be None. ``accepted`` says
        whether the new policy was kept, and ``waived`` whether by a waiver.
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
    """Group the rows of ``collect_gate_outcomes`` by task, method and stage.

    Returns:
        ``task``, ``method`` and ``stage``; and for each run ``seeds``, mean return ``before`` and
        ``after`` (whatever the gate says), ``accepted`` and ``waived``.
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
