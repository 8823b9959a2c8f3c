"""Frames a second of datasets with images, and the time of a batch beside that of a gradient step.

A dataset of one camera is written as LeRobotDataset v3.0, converted back, and decoded into files.
``batch`` is the time of random windows from memory and from these files, ``step`` that of a step
of cloning with the encoder ``conv``, on one thread. They take turns; reported are medians.

    python benchmarks/dataset_frames.py [--json FILE] [--side 96] [--batch 64] [--repeats 30]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from encoder_cost import ACT, Side

from robo_rl.core.spec import ObsSpec, TensorSpec
from robo_rl.data import dataset
from robo_rl.data.dataset import WindowDataset
from robo_rl.data.lerobot.exporter import LeRobotExporter
from robo_rl.data.lerobot.importer import LeRobotConverter
from robo_rl.data.lerobot.info import MAPPING_FILE
from robo_rl.data.store.zarr_store import ZarrStore

EPISODES, ROWS = 8, 200


def episode(number: int, side: int) -> dict[str, Any]:
    """Return an episode: a disc that moves over a shaded ground, with the noise of a camera."""
    rng, step = np.random.default_rng(number), np.arange(ROWS)
    x, y = np.meshgrid(np.arange(side), np.arange(side))
    centre = side / 2 * (1 + 0.7 * np.stack([np.cos(step / 20), np.sin(step / 13 + number)]))
    far = (x - centre[0, :, None, None]) ** 2 + (y - centre[1, :, None, None]) ** 2
    shade = np.where(far < (side / 8) ** 2, 220.0, 60.0 + 80.0 * (x + y) / (2 * side))
    image = shade[:, None] * np.array([1.0, 0.8, 0.6])[:, None, None]
    image = np.clip(image + rng.normal(0.0, 2.0, image.shape), 0, 255).astype(np.uint8)
    act = rng.uniform(-1.0, 1.0, (ROWS, 8)).astype(np.float32)
    return {
        "obs": {"joint_pos": act[:, :7], "eye_rgb": image},
        "act": act,
        "rew": np.zeros(ROWS, np.float32),
        "terminated": step == ROWS - 1,
        "truncated": np.zeros(ROWS, bool),
        "success": True,
        "seed": number,
        "meta": {},
    }


def seconds(call: Callable[[], object]) -> float:
    """Return the wall time of a call."""
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def measured(folder: Path, side: int, batch: int, repeats: int) -> dict[str, float]:
    """Return frames a second and times in ms."""
    camera = TensorSpec(shape=(3, side, side), dtype="uint8")
    spec = ObsSpec(items={"joint_pos": TensorSpec(shape=(7,)), "eye_rgb": camera})
    store = ZarrStore.create(folder / "data.zarr", spec, ACT, {})
    frames, out = EPISODES * ROWS, folder / "lerobot"
    found: dict[str, float] = {}
    found["zarr_write_fps"] = frames / seconds(
        lambda: store.extend(episode(number, side) for number in range(EPISODES))
    )
    exporter = LeRobotExporter(LeRobotExporter.Config(task="follow the disc"))
    found["lerobot_write_fps"] = frames / seconds(lambda: exporter.export(store.path, out))
    converter = LeRobotConverter(LeRobotConverter.Config(mapping=str(out / MAPPING_FILE)))
    found["lerobot_read_fps"] = frames / seconds(
        lambda: converter.convert(out, folder / "again.zarr")
    )
    memory = WindowDataset(store, 1, 8)
    dataset.fits_memory = lambda needed: False
    found["decode_fps"] = frames / seconds(
        lambda: WindowDataset(store, 1, 8, frames=folder / "frames")
    )
    files = WindowDataset(store, 1, 8, frames=folder / "frames")
    policy, draws = Side("conv", side, batch), torch.Generator().manual_seed(0)
    calls = {
        "memory_batch_ms": lambda: memory.sample(batch, draws),
        "files_batch_ms": lambda: files.sample(batch, draws),
        "step_ms": policy.step,
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            times[name].append(1e3 * seconds(call))
    return found | {name: statistics.median(each) for name, each in times.items()}


def main() -> None:
    args = _arguments()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder), args.side, args.batch, args.repeats)
    print(f"{EPISODES * ROWS} frames of {args.side} × {args.side}, batch {args.batch}")
    for name, value in found.items():
        print(f"{name:20}{value:10,.1f}")
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--side", type=int, default=96)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=30)
    return parser.parse_args()


if __name__ == "__main__":
    main()
