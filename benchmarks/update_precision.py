"""Wall time of a PPO update with networks in bfloat16, and with compiled ones.

Every variant learns from the same random rollout (``_ppo_updates``): 64 envs of 8 decisions, the
same minibatches, four epochs of critic and actor. ``bf16`` is ``algo.precision: bf16``, including
its second scoring of the rollout. ``compiled`` has the policy's network under ``torch.compile``,
which needs a C++ compiler; its time excludes the compilation. Rows are settings; their minibatches
are given in decisions.

The variants alternate. ``ms`` is the median over the repeats, ``ratio`` the median over the repeats
of float32's time over each variant's: above 1 it is faster.

    python benchmarks/update_precision.py [--json FILE] [--repeats 9]
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from _ppo_updates import UpdateSetting, prepared, timed

EPOCHS = 4
BASE = "fp32"
FLOW = UpdateSetting("joint", "flow", "flow_noise", num_steps=4, scored_steps=4, num_envs=64)
DDPM = UpdateSetting("per_step", "diffusion", "ddpm", 20, 10, finetune_steps=10, num_envs=64)
ROWS = {"joint, 128": (FLOW, 128), "joint, 512": (FLOW, 512), "per_step, 128": (DDPM, 128)}
SIDES: Mapping[str, Mapping[str, object]] = {
    BASE: {},
    "bf16": {"precision": "bf16"},
    "compiled": {"compiled": True},
}


def main() -> None:
    args = _arguments()
    torch.set_num_threads(args.threads)
    results = {name: measured(*row, args.repeats) for name, row in ROWS.items()}
    print(f"{args.threads} threads, median of {args.repeats}")
    print(f"{'':16}" + "".join(f"{side + ' ms':>14}{'ratio':>8}" for side in SIDES))
    for name, row in results.items():
        cells = (f"{row[s]['ms']:14.1f}{row[s]['ratio']:8.2f}" for s in SIDES)
        print(f"{name:16}" + "".join(cells))
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


def measured(setting: UpdateSetting, minibatch: int, repeats: int) -> dict[str, dict[str, float]]:
    """Return every variant's figures."""
    sides = {
        side: prepared(setting._replace(**change), minibatch, EPOCHS).run
        for side, change in SIDES.items()
    }
    times: dict[str, list[float]] = {side: [] for side in SIDES}
    for repeat in range(repeats + 1):
        for side in list(SIDES)[:: -1 if repeat % 2 else 1]:
            spent = 1e3 * timed(sides[side])
            if repeat:  # 0 is the warm-up, and compiles
                times[side].append(spent)
    return {side: _summary(own, times[BASE]) for side, own in times.items()}


def _summary(own: Sequence[float], base: Sequence[float]) -> dict[str, float]:
    ratios = [other / each for each, other in zip(own, base, strict=True)]
    return {"ms": statistics.median(own), "ratio": statistics.median(ratios)}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
