"""Wall time of a PPO update by ratio mode, per 10⁵ env decisions.

Every variant learns from the same number of decisions of a random rollout (``_ppo_updates``), with
the same network and the same number of optimiser steps. A minibatch is the same number of
decisions. In ``per_step``, the setting of DPPO, each of the last ten denoising steps has its own
likelihood ratio, which makes ten times as many ratios.

The variants alternate. ``scored`` is the number of scored denoising steps of a chain, ``s per 1e5``
the median over the repeats, ``ratio`` the median over the repeats of its time over that of
``per_step``.

    python benchmarks/update_speed.py [--json FILE] [--envs 512] [--repeats 7]
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

import torch
from _ppo_updates import BLOCK, UpdateSetting, prepared, timed

BASE = "per_step"
SIDES = {
    "per_step": UpdateSetting(
        "per_step", "diffusion", "ddpm", num_steps=20, scored_steps=10, finetune_steps=10
    ),
    "joint": UpdateSetting("joint", "flow", "flow_noise", num_steps=4, scored_steps=4),
    "single_step": UpdateSetting("single_step", "flow", "flow_sde", num_steps=4, scored_steps=1),
    "noise_conditioned": UpdateSetting(
        "noise_conditioned", "flow", "flow_noise", num_steps=4, scored_steps=1
    ),
}


def main() -> None:
    args = _arguments()
    decisions = args.envs * BLOCK
    sides = {mode: side._replace(num_envs=args.envs) for mode, side in SIDES.items()}
    updates = {mode: prepared(side, args.minibatch).run for mode, side in sides.items()}
    seconds: dict[str, list[float]] = {mode: [] for mode in SIDES}
    for repeat in range(args.repeats + 1):
        for mode in list(SIDES)[:: -1 if repeat % 2 else 1]:
            spent = timed(updates[mode]) * 1e5 / decisions
            if repeat:  # 0 is the warm-up
                seconds[mode].append(spent)
    results = {mode: _summary(seconds[mode], seconds[BASE]) for mode in SIDES}
    print(
        f"{decisions} decisions, minibatch {args.minibatch} decisions,"
        f" {torch.get_num_threads()} threads, median of {args.repeats}"
    )
    print(f"{'ratio mode':20}{'sampler':12}{'K':>4}{'scored':>8}{'s per 1e5':>12}{'ratio':>8}")
    for mode, row in results.items():
        side = SIDES[mode]
        print(
            f"{mode:20}{side.sampler:12}{side.num_steps:4}{side.scored_steps:8}"
            f"{row['seconds_per_1e5']:12.2f}{row['ratio']:8.3f}"
        )
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


def _summary(seconds: list[float], base: list[float]) -> dict[str, float]:
    ratios = [own / other for own, other in zip(seconds, base, strict=True)]
    return {"seconds_per_1e5": statistics.median(seconds), "ratio": statistics.median(ratios)}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--envs", type=int, default=512, help="of a block of 8 decisions each")
    parser.add_argument("--minibatch", type=int, default=512, help="decisions of an optimiser step")
    parser.add_argument("--repeats", type=int, default=7)
    return parser.parse_args()


if __name__ == "__main__":
    main()
