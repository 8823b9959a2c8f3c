"""Cost of recording: tick time without, with a ring and in full, and bytes on the disk.

The node and the simulated robot run in one process, in lockstep and in real time. A tick is timed
from its start to its command; messages between ticks are excluded. The three modes alternate, so
that a busy machine slows all of them. The default bundle is the demo's.

    python benchmarks/deploy_recording.py [BUNDLE] [--json FILE] [--seconds 20] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from robo_rl.bundle.bundle import Bundle
from robo_rl.config.component import component
from robo_rl.config.models import compose, validate
from robo_rl_sim2real.core.clock import Clock, PeriodicTimer
from robo_rl_sim2real.node.node import Node
from robo_rl_sim2real.node.recorded_run import recording_node
from robo_rl_sim2real.node.settings import DeploySettings
from robo_rl_sim2real.simulated.robot import SimRobot
from robo_rl_sim2real.simulated.world import SimWorld
from robo_rl_sim2real.transport.loopback import Bus, Loopback

DEMO = Path("runs/demo/04-export/bundle")
RATE_HZ = 100
MODES = ("off", "ring", "full")


def main() -> None:
    args = _arguments()
    if args.bundle == DEMO and not DEMO.exists():
        print(f"left out: there is no {DEMO}; make demo makes it")
        return
    bundle = Bundle.load(args.bundle)
    spent: dict[str, list[float]] = {mode: [] for mode in MODES}
    sizes: list[float] = []
    for _ in range(args.rounds):
        for mode in MODES:
            with tempfile.TemporaryDirectory() as folder:
                spent[mode] += fly(bundle, mode, folder, args.seconds)
                if mode == "full":
                    files = [path for path in Path(folder).rglob("*") if path.is_file()]
                    sizes.append(sum(path.stat().st_size for path in files) / args.seconds)
    results: dict[str, Any] = {
        "tick_us": {mode: percentiles(values) for mode, values in spent.items()},
        "bytes_a_second": float(np.median(sizes)),
        "ticks": len(spent["off"]),
    }
    print(json.dumps(results, indent=2))
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


def fly(bundle: Bundle, mode: str, folder: str, seconds: float) -> list[float]:
    """Return the durations of ticks in s."""
    contract, bus, spent = bundle.manifest.contract, Bus(), list[float]()
    task = component("tasks").make(contract.task).build()
    backend = component("backends").make({"name": "mujoco_cpu", "threads": 1}).build()
    world = SimWorld(task, backend, 1.0 / RATE_HZ)
    over = [f"record.mode={mode}", f"record.folder={folder}", "record.min_free_mb=0"]
    tree = compose(f"deploy/{contract.robot}_{contract.task}", over)
    settings, period = validate(tree, DeploySettings), round(RATE_HZ / contract.act.rate_hz)
    node = Node(settings, bundle, Loopback(bus))
    with (
        closing(node),
        closing(SimRobot(SimRobot.Config(rate_hz=RATE_HZ), world, Loopback(bus))) as robot,
        recording_node(node, bundle, settings),
    ):
        for step in PeriodicTimer(1.0 / RATE_HZ, Clock()):
            robot.tick(time.monotonic())
            if step == period * 10:
                node.request("activate")
            if step % period == 0:
                began_s = time.perf_counter()
                node.tick(step // period)
                spent.append(time.perf_counter() - began_s)
            if step >= seconds * RATE_HZ:
                return spent[10:]
    raise AssertionError("ticks never end")


def percentiles(values: list[float]) -> dict[str, float]:
    """Return mean, median and 99th percentile in µs."""
    p50, p99 = np.percentile(values, [50, 99])
    return {"mean": 1e6 * float(np.mean(values)), "p50": 1e6 * float(p50), "p99": 1e6 * float(p99)}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("bundle", type=Path, nargs="?", default=DEMO)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
