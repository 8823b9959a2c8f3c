"""A bundle on a simulated robot in another process, over DDS: success, ticks, latency.

``robo-rl sim-robot`` runs in its own process and the node in this one, as on a robot; nothing
leaves the machine. Episodes run one after the other. ``success`` is the success rate of the
deployed policy, including the limits and delays of a deployment, with its 95 % interval. The
success rate at export is reported beside it. A bundle that sees has the robot's cameras on.
``latency`` is the time from the arrival of the oldest reading to the command, ``query_ms`` that of
the policy's graph, both p50 and p99. With ``prefix.period_s`` among the settings, a bundle of two
graphs also has ``refresh_ms``, of the graph of images and words. Then the node holds the robot
still for ``--minutes`` and counts missed periods.

Run it on an otherwise idle machine. The default bundle is the demo's.

    python benchmarks/deploy_latency.py [BUNDLE] [--json FILE] [--episodes 100] [--minutes 10]
        [--settings deploy/panda_coloured_table] [--simulated deploy/sim_coloured_table]
        [KEY=VALUE …]
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from _simulated_robot import simulated_robot

from robo_rl.bundle.bundle import Bundle
from robo_rl.core.errors import RoboRlError
from robo_rl.stats.intervals import wilson
from robo_rl_sim2real.cli.deploy import read_settings
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.node.node import Node
from robo_rl_sim2real.transport.base import COMMAND, LATCHED

PATIENCE_S = 30.0
DEMO = Path("runs/demo/04-export/bundle")


def main() -> None:
    args = _arguments()
    if args.bundle == DEMO and not DEMO.exists():
        print(f"left out: there is no {DEMO}; make demo makes it")
        return
    bundle = Bundle.load(args.bundle)
    contract = bundle.manifest.contract
    seen = [name.removesuffix("_rgb") for name in contract.obs.image_names]
    words = [
        "--task",
        contract.task,
        "--domain",
        str(args.domain),
        f"sensor_delay.latency_s={args.latency}",
        *(
            ["--settings", args.simulated]
            if args.simulated
            else [f"cameras.names=[{', '.join(seen)}]"]
        ),
    ]
    with simulated_robot(words), _running_node(bundle, bool(seen), args) as node:
        found = episodes(node, args.episodes)
        graphs = _graphs(node)
        idle = {} if not args.minutes else still(node, 60.0 * args.minutes)
    low, high = wilson(sum(found), len(found))
    results: dict[str, Any] = {
        "success": {"value": float(np.mean(found)), "low": low, "high": high, "n": len(found)},
        "exported": bundle.manifest.closed_loop.success,
        "latency_ms": [1e3 * value for value in node.health.latency_s],
        "tick_ms": [1e3 * value for value in node.health.tick_s],
        **graphs,
        "settings": args.overrides,
        "missed": node.health.missed,
        "ticks": node.health.ticks,
        "still": idle,
        "added_latency_s": args.latency,
    }
    print(json.dumps(results, indent=2))
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


@contextmanager
def _running_node(bundle: Bundle, sees: bool, args: argparse.Namespace) -> Generator[Node]:
    """Run a bundle's node in a thread, for the duration of a context."""
    overrides = [
        f"transport.domain={args.domain}",
        "lifecycle.ramp_s=0.1",
        "lifecycle.final_hold_s=0.3",
        *(["cameras.frozen_timeout_s=0"] if sees else []),
        *args.overrides,
    ]
    settings = read_settings(args.settings, bundle.manifest.contract, overrides)
    node = Node(settings, bundle, settings.transport.build("robo_rl"))
    loop = threading.Thread(target=node.run, daemon=True)
    loop.start()
    try:
        yield node
    finally:
        node.stop()
        loop.join()
        node.close()


def _graphs(node: Node) -> dict[str, list[float]]:
    """Return p50 and p99 of the graphs in ms."""
    prefix = node.runtime.parts.policy.prefix
    times = {"query_ms": node.inference.percentiles()}
    if prefix is not None:
        times["refresh_ms"] = prefix.refreshes.percentiles()
    return {name: [1e3 * value for value in pair] for name, pair in times.items()}


def episodes(node: Node, number: int) -> list[bool]:
    """Return the success of that many episodes, run one after the other."""
    told: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    say = node.transport.create_publisher("/sim/control", MsgType.TEXT, COMMAND)
    node.transport.subscribe(
        "/sim/episode", MsgType.TEXT, lambda r: told.put(json.loads(str(r.fields["data"]))), LATCHED
    )
    found: list[bool] = []
    told.get(timeout=PATIENCE_S)
    while len(found) < number:
        begin(node)
        outcome = _until(told, over=True)
        found.append(bool(outcome["success"]))
        end(node)
        say.send(Reading({"data": np.asarray("reset")}, (), 0.0))
        _until(told, over=False)
        print(f"\r{len(found)} episodes, {sum(found)} succeeded", end="", file=sys.stderr)
    print(file=sys.stderr)
    return found


def begin(node: Node) -> None:
    """Activate the node once readings are fresh."""
    _wait(node, lambda: node.runtime.state.moves, "activate")


def end(node: Node) -> None:
    """Bring the node to rest, without further commands."""
    what = "reset" if node.runtime.state is State.FAULTED else "deactivate"
    if node.runtime.state is not State.INACTIVE:
        _wait(node, lambda: node.runtime.state is State.INACTIVE, what)
    while not node.record.silent:
        time.sleep(node.ticks.dt_s)


def still(node: Node, seconds: float) -> dict[str, float]:
    """Return the periods that an inactive node misses."""
    before = node.health
    time.sleep(seconds)
    after = node.health
    return {
        "seconds": seconds,
        "ticks": after.ticks - before.ticks,
        "missed": after.missed - before.missed,
    }


def _wait(node: Node, done: Any, what: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not done():
        node.request(what)
        time.sleep(0.1)
        if time.monotonic() > until:
            raise SystemExit(f"'{what}' was not granted: {node.health.problem}")


def _until(told: queue.SimpleQueue[dict[str, Any]], *, over: bool) -> dict[str, Any]:
    while True:
        outcome = told.get(timeout=PATIENCE_S)
        if outcome["over"] is over:
            return outcome


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("bundle", type=Path, nargs="?", default=DEMO)
    parser.add_argument("overrides", nargs="*", help="settings of the node")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--settings", default="", help="of the node, as of deploy")
    parser.add_argument("--simulated", default="", help="settings of the simulated robot")
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=10.0, help="of counting missed periods")
    parser.add_argument("--latency", type=float, default=0.0, help="on every reading, in s")
    parser.add_argument("--domain", type=int, default=200 + os.getpid() % 30)
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except RoboRlError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
