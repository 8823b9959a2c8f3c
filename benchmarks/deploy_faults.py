"""Faults of a deployment: properties that must hold, trials, and violations.

Faults of messages, actions and clocks use the node itself, on its own bus and clock, with a policy
that passes on the wanted joint positions. Faults of limits use many limiters at once. Faults of
packets and processes use ``robo-rl deploy`` with its watchdog, over DDS and in real time, on an
otherwise idle machine. ``excess`` is the largest excess of a limit as a share, 0 up to rounding.
Faults of cameras are those that images can reveal; swapped plugs of two equal cameras are not.

Rows are saved under ``benchmarks/results/deploy_faults`` after every batch, and resumed.

    python benchmarks/deploy_faults.py [--json FILE] [--quick] [--redo] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import functools
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _fault_actions as actions
import _fault_images as pictures
import _fault_messages as messages
import _fault_packets as frames
import _fault_processes as processes
import _fault_robots as robots
import _fault_server as server
from _fault_stage import make_bundle
from _fault_table import HEADER, FaultRow, TrialCounts, filled, line

from robo_rl.bundle.bundle import Bundle
from robo_rl.core.errors import ConfigError
from robo_rl.core.suggestions import did_you_mean
from robo_rl_sim2real.simulated.network_delay import NetworkDelay

QUICK = 0.01
KEPT = Path(__file__).parent / "results" / "deploy_faults"
FRESH = "policy followed only on readings up to 0.1 s old"
BACK = "limits; running again within 0.5 s"
SENT = "only finite commands of the right shape, within limits"
LIMITS = "position, velocity, acceleration, jerk of the command"
SAME = "the same commands, to the bit"
SEEN = "not followed after 1 s; running again when pictures are good"
LATCHED = "a fault at the next tick, until a reset"
STOP = "first stop command in 0.1 s, then braking; never sends again"
GOES_ON = "no crash; commands in range and no faster; follows again"
SHIELD = "limits; no command beyond braking on a reading that cannot be true"
FROZEN = "not followed after 0.1 s; limits"
HOLDS = "one hold, that lasts"
REFUSED = "each refused in a word; the world goes on as it was"
Run = Callable[[Bundle, int, int], TrialCounts]


def main() -> None:
    args = _arguments()
    results, rows = dict[str, Any](), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        for fault in selected(faults(make_bundle(Path(folder) / "bundle")), args.only):
            wanted = max(round(fault.trials * QUICK), 2) if args.quick else fault.trials
            tally = filled(fault, wanted, args.results, redo=args.redo)
            results[fault.name] = {"holds": fault.holds, **tally._asdict()}
            rows.append(line(fault, tally))
    print("\n".join([HEADER, *rows]))
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


def selected(rows: list[FaultRow], names: list[str]) -> list[FaultRow]:
    """Return the rows of these names, all without names.

    Raises:
        ConfigError: No row has one of the names.
    """
    known = [fault.name for fault in rows]
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or ", ".join(known)
            raise ConfigError(f"no fault '{name}'", where="--only", hint=hint)
    return [fault for fault in rows if not names or fault.name in names]


def faults(bundle: Bundle) -> list[FaultRow]:
    """Return all rows: name, property, number of trials, batch size, and run function."""
    rows = [
        ("stale reading", FRESH, 100_000, 1_000, messages.stale),
        *((name, BACK, 10_000, 600, way) for name, way in _ways().items()),
        ("bad action", SENT, 10_000, 200, actions.bad_actions),
        ("adversarial action", LIMITS, 1_000_000, 20_000, actions.adversarial_actions),
        ("late chunk", "limits; no fault", 10_000, 200, actions.late_chunks),
        *(
            (f"robot that {name}", SHIELD, 160_000, 2_000, functools.partial(robots.robots, name))
            for name in robots.ROBOTS
        ),
        *(
            (
                f"reading {name}",
                SHIELD,
                40_000,
                2_000,
                functools.partial(robots.wrong_readings, name),
            )
            for name in robots.READ_WRONG
        ),
        ("frozen joint states", FROZEN, 40_000, 1_000, robots.frozen),
        ("joint states at 5 to 9 Hz", HOLDS, 500, 20, robots.slow),
        ("wall clock jumps 1 h", SAME, 10_000, 200, messages.clock_jumps),
        ("other joint order", SAME, 10_000, 500, messages.other_order),
        ("other robot, unit, rate", "refused at the start", 1_000, 60, messages.other_robot),
        ("emergency stop", LATCHED, 1_000, 50, messages.emergency_stop),
        *(
            (name, SEEN, 200, 20, functools.partial(pictures.pictures, spoil))
            for name, spoil in pictures.SPOILS.items()
        ),
        ("malformed packet", GOES_ON, 100_000, 5_000, frames.packets),
        ("malformed to serve-env", REFUSED, 100_000, 10_000, server.frames),
        ("kill -9", STOP, 200, 1, functools.partial(processes.processes, processes.killed)),
        ("SIGSTOP", STOP, 200, 1, functools.partial(processes.processes, processes.stopped)),
    ]
    return [
        FaultRow(name, holds, trials, batch, functools.partial(run, bundle))
        for name, holds, trials, batch, run in rows
    ]


def _ways() -> dict[str, Run]:
    """Return the network faults between robot and node."""
    lags = {
        "1 % dropped": ({"loss": 0.01}, 1),
        "10 % dropped": ({"loss": 0.1}, 1),
        "50 % dropped": ({"loss": 0.5}, 1),
        "reordered": ({"jitter_s": 0.1}, 1),
        "duplicated": ({"jitter_s": 0.05}, 2),
        "delayed 0 to 300 ms": ({"jitter_s": 0.3}, 1),
    }
    return {
        name: functools.partial(messages.on_the_way, NetworkDelay.Config(**lag), copies)
        for name, (lag, copies) in lags.items()
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the table to this file")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the trials")
    parser.add_argument("--redo", action="store_true", help="forget what is kept")
    parser.add_argument("--only", nargs="+", default=[], help="names of faults")
    parser.add_argument("--results", type=Path, default=KEPT, help="folder of what is kept")
    args = parser.parse_args()
    if args.redo and args.quick and args.results.resolve() == KEPT:
        parser.error("--redo --quick would replace the kept counts: name another --results")
    return args


if __name__ == "__main__":
    main()
