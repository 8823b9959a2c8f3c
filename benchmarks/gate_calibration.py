"""Calibration of off-policy evaluation: estimates and true returns of policies.

On each task, an unreliable demonstrator records logs. Ten policies are trained on them, similar to
those that the gate of offline training meets. They are clones of few or many steps, from all logs
or from the successful ones, and clones improved by AWR, by further cloning, by PA-RL and by PPO in
the denoising chain. Other logs of the same demonstrator serve for evaluation, and 400 episodes give
the true return. There is one row per estimator and one for all together. Its value is the mean, its
interval the hull of theirs, and its answer must be unanimous.

- ``OOD``: out of distribution, policies whose chunks are too far from the data for their estimates
  to count.
- ``covered``, of the others: the 95 % interval contains the true return; ``width`` is the median
  width of these intervals. ``OOD covered``: the same count for the policies that are OOD.
- ``rank``: Spearman's correlation of estimates and true returns, of all policies.
- ``cannot tell`` and ``wrong``: counts over all ordered pairs of one task's policies, on the same
  resamples. An answer is wrong if the 95 % interval of the true difference is on the other side
  of 0.

Over all tasks, the table counts the improved policies that are rated better than their clone, and
how many of these ratings are wrong (``contradicted``). ``off`` is how far outside its interval one
true return in ten may lie (``ope.calibration``). ``covered then`` is the coverage after widening
the intervals of each task by the ``off`` of the other tasks.

The last table has a row for every estimator and ``difference_error``. It counts the improved
policies that are rated better than their clone, and how many of these ratings are wrong. It counts
the same over all ordered pairs of one task's policies inside the data support. The tables above
have the default of ``difference_error``.

    python benchmarks/gate_calibration.py [--json FILE] [--tasks lift_cube …]
        [--estimators fqe rollouts …]

Runs are saved in ``--out`` and resumed; results are saved under ``benchmarks/results``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
from _judged_policies import (
    ESTIMATORS,
    IMPROVERS,
    MAX_OOD_DISTANCE,
    PLANS,
    POSSIBLE,
    SETTINGS,
    WHOLE,
    PolicyEstimate,
    half,
    policy_estimate,
)
from scipy.stats import rankdata

from robo_rl.core.atomic_files import make_directory
from robo_rl.ope.conformal import conformal_quantile, distance_outside, widen
from robo_rl.ope.policy_comparison import OpeAnswer, clip_interval, compare_estimates
from robo_rl.train.ope.ope_evaluator import OpeResult
from robo_rl.train.stages.offline_rl import OfflineRl

COLUMNS = (
    *("task", "who", "policies", "OOD", "covered", "width", "OOD covered"),
    *("rank", "cannot tell", "wrong"),
)
BY_ERROR = (
    *("who", "difference_error", "improved: better", "contradicted"),
    *("pairs: better", "contradicted"),
)
DIFFERENCE_ERROR: float = OfflineRl.Config.model_fields["difference_error"].default
DIFFERENCE_ERRORS = (0.0, 0.05, 0.1, 0.15, 0.2)
OVER_ALL = ("who", "covered", "width", "improved: better", "contradicted", "off", "covered then")
KEPT = Path(__file__).parent / "results" / "gate_calibration"
ALL = "all of them"


def main() -> None:
    args = _arguments()
    make_directory(args.results)
    figures: dict[str, Any] = {}
    policies: dict[str, list[PolicyEstimate]] = {}
    print(_row(COLUMNS) + "\n" + "|---" * len(COLUMNS) + "|")
    for task in args.tasks:
        policies[task] = [policy_estimate(task, plan, args) for plan in PLANS]
        for who, each in _by_estimator(policies[task], args.estimators).items():
            figures[f"{task} {who}"] = row = summary(each)
            print(line(task, who, row), flush=True)
    if len(policies) > 1:
        print("\n" + _row(OVER_ALL) + "\n" + "|---" * len(OVER_ALL) + "|")
        split = {task: _by_estimator(each, args.estimators) for task, each in policies.items()}
        for who in next(iter(split.values())):
            figures[who] = row = over_all({task: each[who] for task, each in split.items()})
            print(_row([who, *_cells(row)]))
        print("\n" + _row(BY_ERROR) + "\n" + "|---" * len(BY_ERROR) + "|")
        for who, error in product(next(iter(split.values())), DIFFERENCE_ERRORS):
            own = {task: each[who] for task, each in split.items()}
            figures[f"{who} {error:g}"] = row = by_error(own, error)
            print(_row([who, f"{error:g}", *(str(number) for number in row.values())]))
    if args.json:
        args.json.write_text(json.dumps(figures, indent=2) + "\n")


def over_all(policies: Mapping[str, list[PolicyEstimate]]) -> dict[str, Any]:
    """Summarise all tasks' policies, with intervals also widened by the other tasks' errors."""
    known = {task: [x for x in each if not x.is_ood] for task, each in policies.items()}
    everyone = [x for each in known.values() for x in each]
    off = {
        task: _off([x for other in known if other != task for x in known[other]]) for task in known
    }
    then = [
        distance_outside(
            clip_interval(widen(x.interval, off[task]), POSSIBLE), x.true_return["value"]
        )
        <= 0.0
        for task, each in known.items()
        for x in each
    ]
    told = np.isfinite(list(off.values())).all()
    better, contradicted = _of_improved(policies)
    return {
        "policies": len(everyone),
        "covered": sum(x.covered for x in everyone),
        "width": _width(everyone),
        "improved": len(policies) * len(IMPROVERS),
        "better": better,
        "contradicted": contradicted,
        "off": _off(everyone) if np.isfinite(_off(everyone)) else None,
        "off_by_others": off if told else None,
        "covered_then": sum(then) if told else None,
    }


def by_error(policies: Mapping[str, list[PolicyEstimate]], error: float) -> dict[str, int]:
    """Count the answers "better", and the contradicted ones, with a ``difference_error``."""
    better, contradicted = _of_improved(policies, error)
    pairs = [
        pair
        for each in policies.values()
        for pair in permutations([x for x in each if not x.is_ood], 2)
        if _answer(*pair, error) is OpeAnswer.BETTER
    ]
    return {
        "improved_better": better,
        "improved_contradicted": contradicted,
        "pairs_better": len(pairs),
        "pairs_contradicted": sum(_contradicted(*pair, OpeAnswer.BETTER) for pair in pairs),
    }


def _width(policies: list[PolicyEstimate]) -> float:
    return float(np.median([each.interval.high - each.interval.low for each in policies]))


def _off(policies: list[PolicyEstimate]) -> float:
    """Return the distance outside the interval that one true return in ten exceeds, at least 0."""
    return max(
        0.0,
        conformal_quantile(
            [distance_outside(x.interval, x.true_return["value"]) for x in policies], 0.9
        ),
    )


def _of_improved(
    policies: Mapping[str, list[PolicyEstimate]], error: float = DIFFERENCE_ERROR
) -> tuple[int, int]:
    """Count the improved policies that are rated better than their clone, and the wrong ratings."""
    places = {plan.name: place for place, plan in enumerate(PLANS)}
    clone = places[f"all_{WHOLE}"]
    pairs = [(each[places[name]], each[clone]) for each in policies.values() for name in IMPROVERS]
    better = [pair for pair in pairs if _answer(*pair, error) is OpeAnswer.BETTER]
    return len(better), sum(_contradicted(*pair, OpeAnswer.BETTER) for pair in better)


def _by_estimator(
    policies: list[PolicyEstimate], names: list[str]
) -> dict[str, list[PolicyEstimate]]:
    """Return the estimates by estimator, and those of all together if there are several."""
    parts = {name: [each.only(name) for each in policies] for name in names}
    return {**parts, ALL: policies} if len(parts) > 1 else parts


def summary(policies: list[PolicyEstimate]) -> dict[str, Any]:
    """Summarise one task's policies."""
    values = [each.value for each in policies]
    truths = [each.true_return["value"] for each in policies]
    ood = [each for each in policies if each.is_ood]
    known = [each for each in policies if not each.is_ood]
    pairs = list(permutations(policies, 2))
    answers = [_answer(*pair) for pair in pairs]
    wrong = [_contradicted(*pair, answer) for pair, answer in zip(pairs, answers, strict=True)]
    return {
        "policies": len(policies),
        "ood": len(ood),
        "covered": sum(each.covered for each in known),
        "covered_ood": sum(each.covered for each in ood),
        "width": _width(known or policies),
        "rank": float(np.corrcoef(rankdata(values), rankdata(truths))[0, 1]),
        "pairs": len(pairs),
        "cannot_tell": answers.count(OpeAnswer.CANNOT_TELL),
        "wrong": sum(wrong),
        "values": values,
        "truths": truths,
        "ood_distances": [each.ood_distance for each in policies],
    }


def line(task: str, who: str, row: dict[str, Any]) -> str:
    """Return a row of the table, in Markdown."""
    known = row["policies"] - row["ood"]
    cells = [
        *(task, who, f"{row['policies']}", f"{row['ood']}"),
        f"{row['covered']} of {known}",
        f"{row['width']:.2f}",
        f"{row['covered_ood']} of {row['ood']}",
        f"{row['rank']:.2f}",
        *(f"{row[name]} of {row['pairs']}" for name in ("cannot_tell", "wrong")),
    ]
    return _row(cells)


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        f"{row['covered']} of {row['policies']}",
        f"{row['width']:.2f}",
        f"{row['better']} of {row['improved']}",
        f"{row['contradicted']}",
        "–" if row["off"] is None else f"{row['off']:.2f}",
        "–" if row["covered_then"] is None else f"{row['covered_then']} of {row['policies']}",
    ]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _answer(new: PolicyEstimate, old: PolicyEstimate, error: float = DIFFERENCE_ERROR) -> OpeAnswer:
    """Return the gate's answer on replacing the old policy by the new one."""
    verdicts = {
        name: compare_estimates(each, old.members[name], error=error)
        for name, each in new.members.items()
    }
    return OpeResult(verdicts, new.ood_distance, MAX_OOD_DISTANCE).answer


def _contradicted(new: PolicyEstimate, old: PolicyEstimate, answer: OpeAnswer) -> bool:
    """Return whether the true difference has the opposite sign with 95 % confidence."""
    apart = new.true_return["value"] - old.true_return["value"]
    sure = abs(apart) > float(np.hypot(half(new.true_return), half(old.true_return)))
    return sure and answer is (OpeAnswer.WORSE if apart > 0.0 else OpeAnswer.BETTER)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--tasks", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--estimators", nargs="+", choices=ESTIMATORS, default=ESTIMATORS)
    parser.add_argument("--redo", action="store_true", help="not what is kept, but the runs")
    parser.add_argument("--out", type=Path, default=Path("runs/gate_calibration"))
    parser.add_argument("--results", type=Path, default=KEPT, help="folder of what is kept")
    return parser.parse_args()


if __name__ == "__main__":
    main()
