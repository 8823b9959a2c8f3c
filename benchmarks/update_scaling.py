"""Time and memory of a PPO update as functions of envs, denoising steps K, and chunk.

The base setting has 64 envs of 8 decisions, joint ratio, K = 4, chunks of 8 actions of 8 numbers
and minibatches of 512 decisions. One quantity at a time is doubled, four times. Every point is
measured in a separate process. ``ms`` is the median over the repeats of an update's wall time and
``block`` the size of the rollout. ``peak`` is the rise of the process's resident memory above its
value before the first update. ``power`` is the slope of a line through the logarithms of the last
two doublings, where fixed costs are least: 1 is linear, 0 is constant.

The rollout size should be linear in all three, the time in envs and K. The peak is that of a
minibatch and should be constant beyond one. The network's width does not depend on the chunk, so
time hardly depends on small chunks.

    python benchmarks/update_scaling.py [--json FILE] [--plot FILE] [--repeats 5]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch
from _ppo_updates import UpdateSetting, prepared

from robo_rl.data.rollout import Rollout
from robo_rl.report.charts import linear_axis
from robo_rl.report.line_figure import FigureFrame, lines_figure

BASE = UpdateSetting("joint", "flow", "flow_noise", num_steps=4, scored_steps=4, num_envs=64)
FACTORS = (1, 2, 4, 8, 16)
AXES = ("envs", "K", "chunk")
FIGURES = {"ms": "ms", "block_mb": "block MB", "peak_mb": "peak MB"}
MINIBATCH = 512
LAST = 3  # points, from the largest down

Rows = Sequence[Mapping[str, float]]


def main() -> None:
    args = _arguments()
    results = {axis: [measured(axis, factor, args.repeats) for factor in FACTORS] for axis in AXES}
    powers = {axis: {name: power(rows, name) for name in FIGURES} for axis, rows in results.items()}
    print(f"{torch.get_num_threads()} threads, median of {args.repeats}")
    print(f"{'':8}{'value':>8}" + "".join(f"{name:>12}" for name in FIGURES.values()))
    for axis, rows in results.items():
        for row in rows:
            print(f"{axis:8}{row['value']:8.0f}" + "".join(f"{row[n]:12.1f}" for n in FIGURES))
        print(f"{'power':16}" + "".join(f"{powers[axis][n]:12.2f}" for n in FIGURES))
    if args.json:
        points = {axis: {"points": results[axis], "power": powers[axis]} for axis in AXES}
        args.json.write_text(json.dumps(points, indent=2) + "\n")
    if args.plot:
        args.plot.write_text(drawn(results))


def scaled(axis: str, factor: int) -> tuple[int, UpdateSetting]:
    """Return the scaled value, and the setting."""
    if axis == "envs":
        return BASE.num_envs * factor, BASE._replace(num_envs=BASE.num_envs * factor)
    if axis == "K":
        steps = BASE.num_steps * factor
        return steps, BASE._replace(num_steps=steps, scored_steps=steps)
    return BASE.chunk * factor, BASE._replace(chunk=BASE.chunk * factor)


def measured(axis: str, factor: int, repeats: int) -> dict[str, float]:
    """Measure one point in a separate process."""
    value, setting = scaled(axis, factor)
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=fresh) as pool:
        return {"value": float(value), **pool.submit(cost, setting, repeats).result()}


def cost(setting: UpdateSetting, repeats: int) -> dict[str, float]:
    """Return milliseconds and MB of an update in this process."""
    run, rollout, _ = prepared(setting, MINIBATCH)
    before = resident_mb("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    times: list[float] = []
    for _ in range(repeats + 1):  # the first is the warm-up
        start = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - start))
    peak = resident_mb("VmHWM") - before
    return {"ms": statistics.median(times[1:]), "block_mb": block_mb(rollout), "peak_mb": peak}


def resident_mb(name: str) -> float:
    """Return the resident memory of this process in MB: ``VmRSS`` now, ``VmHWM`` at its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    found = next(line for line in lines if line.startswith(f"{name}:"))
    return int(found.split()[1]) / 1024


def block_mb(rollout: Rollout) -> float:
    """Return the size of a rollout's tensors in MB."""
    found = [rollout.obs, rollout.last_obs, rollout.final_obs, vars(rollout)]
    tensors = [t for part in found for t in part.values() if isinstance(t, torch.Tensor)]
    return sum(t.nbytes for t in tensors) / 2**20


def power(rows: Rows, name: str) -> float:
    """Return the exponent of a figure in the scaled quantity, over the last doublings."""
    values, figures = ([row[key] for row in rows[-LAST:]] for key in ("value", name))
    return float(np.polyfit(np.log(values), np.log(np.maximum(figures, 1e-3)), 1)[0])


def drawn(results: Mapping[str, Rows]) -> str:
    """Plot times and memory against the scaled quantity, each relative to its smallest value."""
    lines = {
        f"{name} by {axis}": [
            (factor, row[key] / rows[0][key]) for factor, row in zip(FACTORS, rows, strict=True)
        ]
        for key, name in (("ms", "time"), ("block_mb", "block"))
        for axis, rows in results.items()
    }
    top = max(y for line in lines.values() for _, y in line)
    x, y = linear_axis(0.0, FACTORS[-1], tight=True), linear_axis(0.0, top)
    title = f"An update of PPO: {BASE.num_envs} envs, K = 4 and chunks of {BASE.chunk} are 1"
    return lines_figure(FigureFrame(title, "times as much", x, y), lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--plot", type=Path, help="draw them into this SVG file")
    parser.add_argument("--repeats", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
