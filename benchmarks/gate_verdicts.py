"""Verdicts of the offline gates in the kept runs of suites, for several values of difference_error.

The sentence of a gate has the interval of the estimated difference, and the report has the returns
of both policies in the env. Each row widens the bootstrap intervals by another
``difference_error`` and counts the runs whose new policy is better. Policies outside the data
support are never better. A gate that two suites share counts once.

- ``lower``, of the better ones: the mean return is lower than that of the old policy.
- ``significant``, of the lower ones: the 95 % interval of the true difference is below 0.
- ``missed``, of the others: that interval is above 0.

    python benchmarks/gate_verdicts.py [--json FILE] [--suites offline_methods offline_to_online]
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from robo_rl.bench.results.cell_record import CellRecord
from robo_rl.bench.results.store import Results

RESULTS = Path(__file__).parent / "results"
SUITES = ("offline_methods", "offline_to_online")
ERRORS = (0.0, 0.05, 0.1, 0.15, 0.2)
COLUMNS = ("difference_error", "runs", "better", "lower", "significant", "missed")
_DIFFERENCE = re.compile(r": [+-][\d.]+ \[([+-][\d.]+), [+-][\d.]+\], margin ([\d.]+)")


class Verdict(NamedTuple):
    """A gate by one estimator, and what its policies return in the env.

    Args:
        low: Lower end of the bootstrap interval of the estimated difference.
        margin: Difference that counts as better.
        is_supported: Whether the new policy is inside the data support.
        gain: True return of the new policy minus that of the old one.
        half_width: Half of the 95 % interval of ``gain``.
        error: ``difference_error`` of the run.
        accepted: Whether the run went on with the new policy.
    """

    low: float
    margin: float
    is_supported: bool
    gain: float
    half_width: float
    error: float = 0.0
    accepted: bool = False

    def is_better(self, error: float) -> bool:
        """Whether the gate accepts the new policy with this ``difference_error``."""
        if error == self.error:
            return self.accepted  # the printed end is rounded
        return self.is_supported and self.low - error > self.margin

    @property
    def is_significant(self) -> bool:
        """Whether the interval of the true gain excludes 0."""
        return abs(self.gain) > self.half_width


def verdicts(record: CellRecord) -> Iterator[Verdict]:
    """Yield the gates of a run that one estimator decided; rewards are successes, 0 or 1."""
    for label, stage in record.stages.items():
        numbers, said = stage.numbers, _DIFFERENCE.findall(stage.gate)
        if len(said) == 1 and "return_ungated" in numbers:
            settings = record.config["stages"][label]
            error = settings.get("difference_error", 0.0)
            low, margin = map(float, said[0])
            supported = numbers["ood_distance_after"] <= settings["max_ood_distance"]
            accepted = bool(numbers["accepted"])
            yield Verdict(low + error, margin, supported, *_gain(numbers), error, accepted)


def distinct(records: Iterable[CellRecord]) -> list[Verdict]:
    """Return the gates of the runs; equal ones of one task and seed, of two suites, count once."""
    found = {
        (record.task, record.seed, verdict): verdict
        for record in records
        for verdict in verdicts(record)
    }
    return list(found.values())


def _gain(numbers: Mapping[str, Any]) -> tuple[float, float]:
    """Return the difference of the true returns, and half of its 95 % interval."""
    ends = [
        np.array([number.low, number.value, number.high], dtype=float)
        for number in (numbers["return_ungated"], numbers["return_before"])
    ]
    halves = [(high - low) / 2.0 for low, _, high in ends]
    return float(ends[0][1] - ends[1][1]), float(np.hypot(*halves))


def count(found: list[Verdict], error: float) -> dict[str, float]:
    """Return a row of the table."""
    better = [each for each in found if each.is_better(error)]
    lower = [each for each in better if each.gain < 0.0]
    others = [each for each in found if not each.is_better(error)]
    return {
        "difference_error": error,
        "runs": len(found),
        "better": len(better),
        "lower": len(lower),
        "significant": sum(each.is_significant for each in lower),
        "missed": sum(each.is_significant and each.gain > 0.0 for each in others),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--suites", nargs="+", default=list(SUITES))
    args = parser.parse_args()
    kept = [record for name in args.suites for record in Results(RESULTS, name).read().values()]
    found = distinct(kept)
    rows = [count(found, error) for error in ERRORS]
    print(f"| {' | '.join(COLUMNS)} |\n" + "|---" * len(COLUMNS) + "|")
    for row in rows:
        print(f"| {' | '.join(f'{value:g}' for value in row.values())} |")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
