"""Critics that overestimate actions outside the data, and the gate's verdict on the result.

``lift_offline`` runs per seed, improved by ``parl``, which searches for actions of high value. The
critics' values are raised by the distance of a chunk from those of the data. The benchmark reports
the gate's verdict on the resulting policy, and the success of both policies in 400 episodes.

    python benchmarks/offline_sabotage.py [--json FILE] [--seeds 0 1 2]

Runs are saved in ``--out`` and resumed; results are saved under ``benchmarks/results``.
"""

from __future__ import annotations

import argparse
import json
import re
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from _kept import kept_or_made, resolve_experiment, run_parser, table_head
from torch import Tensor

from robo_rl.algo.offline_critics.base import OfflineCritics
from robo_rl.config.compose import compose
from robo_rl.config.models import validate
from robo_rl.core.atomic_files import make_directory
from robo_rl.data.replay import Replay
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.run import run_experiment
from robo_rl.train.pipeline.stage import Context, Report
from robo_rl.train.stages.offline_rl import OfflineRl

BONUS = 0.5
"""Bonus per unit of mean absolute distance between chunks, in normalised action units."""
REACH = {"name": "parl", "num_samples": 8, "gradient_steps": 20, "step_size": 0.1}
SHOWN = ("answer", "accepted", "success_before", "success_ungated", "ood_distance_after")
COLUMNS = (
    *("seed", "success before", "after"),
    *("difference of values by `fqe`", "out-of-distribution distance", "gate", "goes on"),
)
_DIFFERENCE = re.compile(r"[+-][\d.]+ \[[+-][\d.]+, [+-][\d.]+\](?=, margin)")
_DISTANCE = re.compile(r"actions are ([\d.]+) times as far")
"""The distance in an answer of an older revision, which kept no number of it."""


class OverestimatingCritics:
    """Critics with a bonus for chunks outside the data.

    Args:
        critics: The original critics.
        tried: (n, H, A), chunks of the data.
    """

    def __init__(self, critics: OfflineCritics, tried: Tensor) -> None:
        self.critics, self.mean = critics, tried.mean(dim=0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.critics, name)

    def q_value(self, obs: dict[str, Tensor], act: Tensor, generator: torch.Generator) -> Tensor:
        """Return the value of ``OfflineCritics.q_value`` plus the bonus."""
        apart = (act - self.mean).abs().mean(dim=(1, 2))
        return self.critics.q_value(obs, act, generator) + BONUS * apart


class SabotagedOfflineRl(OfflineRl):
    """The stage with the overestimating critics."""

    def _critics(
        self, context: Context, replay: Replay, policy: DenoisingPolicy
    ) -> tuple[OfflineCritics, dict[str, float]]:
        critics, figures = super()._critics(context, replay, policy)
        tried = replay.sample(4096, torch.Generator().manual_seed(0)).act
        return cast(OfflineCritics, OverestimatingCritics(critics, tried)), figures


def main() -> None:
    args = _arguments()
    make_directory(args.results)
    print(table_head(COLUMNS))
    found: dict[str, Any] = {}
    for seed in args.seeds:
        found[str(seed)] = cell = _cell(seed, args)
        print(line(seed, cell), flush=True)
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n")


def _cell(seed: int, args: argparse.Namespace) -> dict[str, Any]:
    """Return the saved result of a run, or compute it."""
    path = args.results / f"{seed}.json"
    return kept_or_made(path, settings(seed), partial(_run, seed, args.out), redo=args.redo)


def _run(seed: int, out: Path) -> dict[str, Any]:
    words = [f"seed={seed}", f"name=sabotage_{seed}"]
    summary = run_experiment("lift_offline", words, out, until="bc")
    run = Path(summary["directory"])
    earlier = [(place, Report.read(place)) for place in sorted(run.glob("0[01]-*"))]
    experiment = validate(compose("lift_offline", words), Experiment)
    make_directory(folder := run / "02-sabotaged")
    report = SabotagedOfflineRl(_misled()).run(Context(experiment, folder, cast(Any, earlier)))
    assert report.gate is not None
    cell = {"answer": report.gate.detail, **report.numbers}
    return {name: cell[name] for name in SHOWN}


def settings(seed: int) -> dict[str, Any]:
    """Return the settings of clone, critics, algorithm and gate."""
    clone = resolve_experiment("lift_offline", [f"seed={seed}"])
    del clone["stages"]["offline"]  # this benchmark replaces it
    unused = {"model_error", "difference_error"}  # the first affects no value, the second is fixed
    misled = _misled().model_dump(mode="json", exclude=unused)
    return {"clone": clone, "offline": misled, "bonus": BONUS}


def _misled() -> OfflineRl.Config:
    return OfflineRl.Config.model_validate({"algo": REACH, "difference_error": 0.0})


def line(seed: int, cell: dict[str, Any]) -> str:
    """Return a row of the table, in Markdown."""
    numbers = [cell[f"success_{name}"] for name in ("before", "ungated")]
    percent = [[100 * number[part] for part in ("value", "low", "high")] for number in numbers]
    rates = [f"{value:.1f} % [{low:.1f}, {high:.1f}]" for value, low, high in percent]
    gate = re.split(r" \(|: ", cell["answer"])[0]
    (difference,) = _DIFFERENCE.findall(cell["answer"])
    goes_on = "the new policy" if cell["accepted"] else "the clone"
    return f"| {' | '.join([str(seed), *rates, difference, _distance(cell), gate, goes_on])} |"


def _distance(cell: dict[str, Any]) -> str:
    number = cell.get("ood_distance_after")
    return _DISTANCE.findall(cell["answer"])[0] if number is None else f"{number:.2f}"


def _arguments() -> argparse.Namespace:
    return run_parser(__doc__, "offline_sabotage", seeds=(0, 1, 2)).parse_args()


if __name__ == "__main__":
    main()
