"""Env steps per second of ``lift_cube`` in chunks, with and without a camera of 64 × 64 pixels.

Three envs of as many worlds run the same chunks in turns: ``no camera``; ``frames read``, with a
camera whose frames are rendered where a policy reads them; ``every frame``, with a frame of every
control step. Reported are medians over the repeats, and ratios to ``no camera`` of the same repeat.

    python benchmarks/camera_steps.py [--json FILE] [--worlds 64] [--horizon 8] [--repeats 9]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import torch

from robo_rl.config.component import component
from robo_rl.env.mujoco.sim_env import SimEnv

CAMERA = {"name": "wrist", "width": 64, "height": 64}
CHUNKS = 10
"""Chunks of a turn; some of them end episodes."""


class Side:
    """An env that is stepped in chunks.

    Args:
        worlds: Number of worlds.
        horizon: Control steps of a chunk.
        camera: Whether the env has a camera.
        frames: That of ``OpenLoop.rollout``.
    """

    def __init__(self, worlds: int, horizon: int, *, camera: bool, frames: int | None) -> None:
        task = component("tasks").make("lift_cube").build()
        cfg = SimEnv.Config.model_validate({"cameras": [CAMERA]} if camera else {})
        self.env, self.frames = SimEnv(cfg, task, worlds), frames
        self.env.reset(0)
        home = torch.tensor(task.robot.home_ctrl, dtype=torch.float32)
        self.act = home.expand(worlds, horizon, -1).clone()
        self.steps_per_s()  # warm-up

    def steps_per_s(self) -> float:
        """Return the env steps per second of one turn."""
        begun = time.perf_counter()
        for _ in range(CHUNKS):
            self.env.rollout(self.act, frames=self.frames)
        return CHUNKS * self.act.shape[0] * self.act.shape[1] / (time.perf_counter() - begun)

    def close(self) -> None:
        """Close the env."""
        self.env.close()


def measured(args: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Return side → env steps per second and ratio."""
    sides = {
        "no camera": {"camera": False, "frames": 1},
        "frames read": {"camera": True, "frames": 1},
        "every frame": {"camera": True, "frames": None},
    }
    with ExitStack() as stack:
        built: dict[str, Any] = {
            name: stack.enter_context(closing(Side(args.worlds, args.horizon, **fields)))
            for name, fields in sides.items()
        }
        turns = [
            {name: side.steps_per_s() for name, side in built.items()} for _ in range(args.repeats)
        ]
    return {
        name: {
            "env_steps_per_s": statistics.median(turn[name] for turn in turns),
            "ratio": statistics.median(turn[name] / turn["no camera"] for turn in turns),
        }
        for name in sides
    }


def main() -> None:
    args = _arguments()
    results = measured(args)
    print(f"lift_cube, {args.worlds} worlds, chunks of {args.horizon}; env steps/s, ratio")
    for name, row in results.items():
        print(f"{name:16}{row['env_steps_per_s']:12,.0f}{row['ratio']:9.2f}")
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--worlds", type=int, default=64)
    parser.add_argument("--horizon", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=9)
    return parser.parse_args()


if __name__ == "__main__":
    main()
