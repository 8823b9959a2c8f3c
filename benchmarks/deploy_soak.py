"""A one-hour deployment: growth of memory and missed periods.

``robo-rl deploy`` runs with its watchdog and a ring of the flight recorder, over DDS; this process
is the robot. The anonymous memory of both processes is read from the system every ``--every``
seconds. ``slope`` is the median of the slopes between all pairs of readings (Theil–Sen) after the
first tenth of the time, in MB per hour. ``mb`` is the memory at every tenth of the time.
``standstills`` counts stalls of the machine per core, see ``_standstill.py``. For valid counts of
missed periods, run it on an otherwise idle machine.

    python benchmarks/deploy_soak.py [--json FILE] [--minutes 60] [--every 10]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from _fault_processes import WanderingRobot, deployed
from _fault_stage import make_bundle
from _standstill import watched
from numpy.typing import NDArray

from robo_rl_sim2real.core.clock import boot_s

PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1e6
START_S = 30.0


def main() -> None:
    args = _arguments()
    with tempfile.TemporaryDirectory() as folder:
        health = Path(folder) / "health.json"
        words = ["record.mode=ring", f"record.folder={folder}/recordings", "--json", str(health)]
        bundle, robot = make_bundle(Path(folder) / "bundle"), WanderingRobot()
        policy = deployed(bundle, Path(folder), *words)
        try:
            with watched() as standstills:
                began_s = boot_s()
                at_s, memory = _watched(policy, args.minutes, args.every)
                still = standstills.between(began_s, boot_s())
        finally:
            policy.send_signal(signal.SIGINT)
            _, said = policy.communicate(timeout=60.0)
            robot.close()
            print("\n".join(said.splitlines()[-5:]), file=sys.stderr)
        results: dict[str, Any] = {
            "minutes": args.minutes,
            "commands": len(robot.sent),
            "standstills": len(still),
            "longest_standstill_s": max((gap.long_s for gap in still), default=0.0),
            "health": json.loads(health.read_text()),
            **{name: _growth(at_s, mb) for name, mb in memory.items()},
        }
    print(json.dumps(results, indent=2))
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


def _watched(
    policy: subprocess.Popen[str], minutes: float, every_s: float
) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    """Return times (T,) in s, and process → its memory (T,) in MB."""
    time.sleep(min(START_S, 6.0 * minutes))
    pids = {"policy": policy.pid, "watchdog": _child(policy.pid)}
    began_s, at_s, found = time.monotonic(), list[float](), list[list[float]]()
    while (now_s := time.monotonic() - began_s) < 60.0 * minutes:
        if policy.poll() is not None:
            raise SystemExit(f"the policy process ended after {now_s:.0f} s")
        at_s.append(now_s)
        found.append([_memory_mb(pid) for pid in pids.values()])
        print(f"\r{now_s:.0f} s: {found[-1][0]:.1f} MB", end="", file=sys.stderr, flush=True)
        time.sleep(every_s)
    print(file=sys.stderr)
    return np.array(at_s), dict(zip(pids, np.array(found).T, strict=True))


def _growth(at_s: NDArray[np.float64], mb: NDArray[np.float64]) -> dict[str, Any]:
    late = at_s >= at_s[-1] / 10.0
    t, y = at_s[late] / 3600.0, mb[late]
    i, j = np.triu_indices(len(t), k=1)
    slope = float(np.median((y[j] - y[i]) / (t[j] - t[i]))) if len(i) else float("nan")
    tenths = [float(mb[place]) for place in np.linspace(0, len(mb) - 1, 11).round().astype(int)]
    return {"mb": tenths, "slope_mb_an_hour": slope}


def _memory_mb(pid: int) -> float:
    """Return the resident anonymous memory; pages of libraries vary with the system."""
    resident, shared = map(int, Path(f"/proc/{pid}/statm").read_text().split()[1:3])
    return (resident - shared) * PAGE_MB


def _child(pid: int) -> int:
    """Return the pid of the watchdog, the only child process of a deployment."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--every", type=float, default=10.0, help="seconds between readings")
    return parser.parse_args()


if __name__ == "__main__":
    main()
