"""Offline RL on partly corrupted data: implicit Q-learning and its robust variant.

The benchmark runs ``lift_offline`` per seed and improves its clone with ``awr``. A fraction
``SHARE`` of the decisions is corrupted. Observations, actions or rewards get noise of ``SCALE``
standard deviations of that column, or the successor is that of another decision (Yang et al. 2023,
arXiv 2310.12955, random corruption). Clone and env are unchanged. Each result is measured in 400
episodes, regardless of the gate, and no selection is based on them. Intervals are of the mean over
seeds, see ``rate_interval``; the seeds share the start states of their episodes, which count once.

    python benchmarks/corrupted_data.py [--json FILE] [--seeds 0 1 2] [--kinds clean obs …]

Runs are saved in ``--out`` and resumed; results are saved under ``benchmarks/results``.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, cast

import torch
from _kept import kept_or_made, resolve_experiment, run_parser, table_head
from torch import Tensor

from robo_rl.config.compose import compose
from robo_rl.config.models import validate
from robo_rl.core.atomic_files import make_directory
from robo_rl.data.dataset import WindowDataset
from robo_rl.data.replay import Replay
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.stats.across_runs import rate_interval
from robo_rl.train.datasets.demonstrations import policy_transitions
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.run import run_experiment
from robo_rl.train.pipeline.stage import Context, Report
from robo_rl.train.stages.offline_rl import OfflineRl

KINDS = ("clean", "obs", "act", "rew", "dynamics")
SHARE, SCALE = 0.3, 2.0
ARMS: dict[str, dict[str, Any]] = {
    "iql": {},
    "robust": {
        "critic": {"members": 5, "head": {"kind": "huber", "huber_delta": 0.1}},
        "aggregation": {"mode": "quantile", "quantile": 0.25},
    },
}
COLUMNS = ("wrong", *(f"{arm}: success, {what}" for arm in ARMS for what in ("by seed", "mean")))


def corrupt(columns: dict[str, Tensor], kind: str, generator: torch.Generator) -> dict[str, Tensor]:
    """Return the rows of ``dataset_transitions`` with a fraction ``SHARE`` corrupted in one way."""
    number = len(columns["next"])
    wrong = torch.rand(number, generator=generator) < SHARE
    if kind == "dynamics":
        other = torch.randint(number, (number,), generator=generator)
        return {**columns, "next": torch.where(wrong, columns["next"][other], columns["next"])}
    spoil = {name for name in columns if name == kind or name.startswith(f"{kind}.")}
    return {
        name: _noisy(column, wrong, generator) if name in spoil else column
        for name, column in columns.items()
    }


def _noisy(column: Tensor, wrong: Tensor, generator: torch.Generator) -> Tensor:
    noise = torch.randn(column.shape, generator=generator) * column.float().std(dim=0)
    where = wrong.view(-1, *[1] * (column.ndim - 1))
    return torch.where(where, column + SCALE * noise, column).to(column.dtype)


class CorruptedOfflineRl(OfflineRl):
    """The stage on partly corrupted decisions.

    Args:
        cfg: Settings of the stage.
        kind: Kind of corruption.
        seed: Seed of the corruption.
    """

    def __init__(self, cfg: OfflineRl.Config, kind: str, seed: int) -> None:
        super().__init__(cfg)
        self.kind, self.seed = kind, seed

    def _replay(self, data: WindowDataset, policy: DenoisingPolicy, gamma: float) -> Replay:
        generator = torch.Generator().manual_seed(self.seed)
        replay = Replay(Replay.Config(demo_fraction=1.0))
        columns = policy_transitions(data, policy, gamma)
        replay.add_demonstrations(corrupt(columns, self.kind, generator))
        return replay


def main() -> None:
    args = _arguments()
    make_directory(args.results)
    print(table_head(COLUMNS))
    found: dict[str, Any] = {}
    for kind in args.kinds:
        cells = {
            (arm, seed): _cell(kind, arm, seed, args) for seed, arm in product(args.seeds, ARMS)
        }
        found[kind] = {f"{arm}_{seed}": cell for (arm, seed), cell in cells.items()}
        print(line(kind, cells), flush=True)
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n")


def line(kind: str, cells: dict[tuple[str, int], dict[str, Any]]) -> str:
    """Return a row of the table, in Markdown."""
    shown = [kind]
    for arm in ARMS:
        rates = [cell["success_ungated"] for (which, _), cell in cells.items() if which == arm]
        values = [rate["value"] for rate in rates]
        distinct = {rate["protocol"]: rate["n"] for rate in rates}
        shown.append(", ".join(f"{100 * value:.0f}" for value in values))
        shown.append(f"{100 * fmean(values):.1f} %")
        if len(values) > 1:
            low, high = rate_interval(values, sum(distinct.values()))
            shown[-1] += f" [{100 * low:.1f}, {100 * high:.1f}]"
    return f"| {' | '.join(shown)} |"


def _cell(kind: str, arm: str, seed: int, args: argparse.Namespace) -> dict[str, Any]:
    """Return the saved result of a run, or compute it."""
    path, made = args.results / f"{kind}_{arm}_{seed}.json", partial(_run, kind, arm, seed)
    asked = settings(kind, arm, seed)
    return kept_or_made(path, asked, partial(made, args.out), redo=args.redo)


def _run(kind: str, arm: str, seed: int, out: Path) -> dict[str, Any]:
    words = [f"seed={seed}", f"name=corrupted_{seed}"]
    run = Path(run_experiment("lift_offline", words, out, until="bc")["directory"])
    earlier = [(place, Report.read(place)) for place in sorted(run.glob("0[01]-*"))]
    experiment = validate(compose("lift_offline", words), Experiment)
    make_directory(folder := run / f"02-{kind}_{arm}")
    stage = CorruptedOfflineRl(_improved(arm), kind, seed)
    report = stage.run(Context(experiment, folder, cast(Any, earlier)))
    return report.numbers


def settings(kind: str, arm: str, seed: int) -> dict[str, Any]:
    """Return the settings of clone, critics and algorithm, and of the corruption."""
    clone = resolve_experiment("lift_offline", [f"seed={seed}"])
    del clone["stages"]["offline"]  # this benchmark replaces it
    improved = _improved(arm).model_dump(mode="json")
    return {
        "clone": clone,
        "offline": {name: improved[name] for name in ("critics", "critic_steps", "algo", "steps")},
        "wrong": {"kind": kind, "share": SHARE, "scale": SCALE},
    }


def _improved(arm: str) -> OfflineRl.Config:
    """Return the stage's settings: trained on all data, without off-policy evaluation."""
    critics = {"name": "iql", **ARMS[arm]}
    asked = {"critics": critics, "holdout_fraction": 0.0, "fqe": {"steps": 1}}
    return OfflineRl.Config.model_validate(asked)


def _arguments() -> argparse.Namespace:
    parser = run_parser(__doc__, "corrupted_data", seeds=(0, 1, 2))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    return parser.parse_args()


if __name__ == "__main__":
    main()
