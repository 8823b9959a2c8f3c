"""Latency of K denoising steps and of one on a robot: at 50 Hz, over DDS, one query per period.

Untrained policies hold an arm about its home: a small MLP or U-Net, on states or also on a 128×128
image, with one step or with ``--steps``. The robot is another process, as in ``deploy_latency``.
``query`` is the policy alone, on one thread. ``command`` is the time from the arrival of the oldest
reading in use to the command. Readings arrive at 100 Hz and images at 50 Hz, so that half of their
period is included for any policy. ``ratio`` is that of the median queries. Then the cheapest policy
runs for ``--minutes``, to count the missed periods. ``at standstill`` are those missed during a
stall of the machine itself, as virtual machines have: see ``_standstill.py``.

It requires an otherwise idle machine.

    python benchmarks/deploy_inference.py [--json FILE] [--seconds 30] [--minutes 10] [--steps 10]
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import tempfile
import threading
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from _missed import MissedPeriodListener
from _paced_panda import CAMERA, as_component, panda_at_rate, simulated
from _standstill import watched
from _untrained_bundles import PICTURE, still_bundle

from robo_rl.api.robot import Robot
from robo_rl.bundle.bundle import Bundle
from robo_rl.config.models import validate_strict
from robo_rl_sim2real.core.clock import freeze_garbage_collector
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.node.node import Node
from robo_rl_sim2real.node.settings import DeploySettings

HZ = 50.0
NETS = ("mlp", "unet1d")
PATIENCE_S = 60.0
HEADER = f"{'policy':28}{'query ms':>16}{'command ms':>16}{'missed':>14}{'at standstill':>15}"


class InferenceCase(NamedTuple):
    """A policy: network, denoising steps, inputs."""

    net: str
    picture: bool
    num_steps: int

    def __str__(self) -> str:
        return f"{self.net}, {'picture' if self.picture else 'state'}, K = {self.num_steps}"


def main() -> None:
    args = _arguments()
    cases = {
        net: [InferenceCase(net, picture, k) for picture, k in _kinds(args.steps)] for net in NETS
    }
    found: dict[str, dict[str, Any]] = {}
    print(HEADER)
    for case in itertools.chain.from_iterable(cases.values()):
        found[str(case)] = run(case, args.seconds, args.domain)
        print(row(str(case), found[str(case)]), flush=True)
    results: dict[str, Any] = {"hz": HZ, "cases": found, "ratio": ratios(cases.values(), found)}
    for name, ratio in results["ratio"].items():
        print(f"{name}: {ratio:.1f} times the query of one step")
    if args.minutes:
        results["long"] = run(cases[NETS[0]][0], 60.0 * args.minutes, args.domain)
        print(row(f"{cases[NETS[0]][0]}, {args.minutes:g} min", results["long"]))
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


def run(case: InferenceCase, seconds: float, domain: int) -> dict[str, Any]:
    """Return medians and 99th percentiles of the last 1,000 periods, and all missed periods."""
    robot, missed = panda_at_rate(HZ), MissedPeriodListener()
    with (
        watched() as standstills,
        tempfile.TemporaryDirectory() as folder,
        simulated(HZ, domain, camera=case.picture),
        active(_bundle(case, robot, Path(folder)), robot, domain) as node,
    ):
        node.listeners.add(missed)
        time.sleep(seconds)
        health = node.health
        if not node.runtime.state.moves:
            raise SystemExit(f"{case}: came to rest: {health.reason} {health.problem}")
        return {
            "query_ms": [1e3 * value for value in node.inference.percentiles()],
            "command_ms": [1e3 * value for value in health.latency_s],
            **missed.figures(standstills),
        }


@contextmanager
def active(bundle: Bundle, robot: Robot, domain: int) -> Generator[Node]:
    """Run a node that follows its policy, in a thread, within the block."""
    settings = _settings(bundle, robot, domain)
    node = Node(settings, bundle, settings.transport.build("robo_rl"))
    freeze_garbage_collector()  # export made garbage, which a robot's process lacks
    loop = threading.Thread(target=node.run, daemon=True)
    loop.start()
    try:
        until = time.monotonic() + PATIENCE_S
        while not node.health.latency_s[0]:
            node.request("activate")
            time.sleep(0.5)
            if time.monotonic() > until:
                raise SystemExit(f"the policy is not followed: {node.health}")
        yield node
    finally:
        node.stop()
        loop.join()
        node.close()


def ratios(
    nets: Iterable[list[InferenceCase]], found: dict[str, dict[str, Any]]
) -> dict[str, float]:
    """Return the ratios of the slow to the fast policy's median query."""
    pairs = [pair for cases in nets for pair in zip(cases[::2], cases[1::2], strict=True)]
    return {
        str(slow): found[str(slow)]["query_ms"][0] / found[str(quick)]["query_ms"][0]
        for quick, slow in pairs
    }


def row(name: str, found: dict[str, Any]) -> str:
    """Return a row of the table."""
    query, command = (
        " / ".join(f"{ms:.2f}" for ms in found[key]) for key in ("query_ms", "command_ms")
    )
    missed = f"{found['missed']} of {found['ticks']}"
    return f"{name:28}{query:>16}{command:>16}{missed:>14}{found['missed_at_standstill']:>15}"


def _bundle(case: InferenceCase, robot: Robot, folder: Path) -> Bundle:
    return still_bundle(folder, robot, case.net, case.num_steps, picture=case.picture)


def _kinds(num_steps: int) -> list[tuple[bool, int]]:
    return list(itertools.product((False, True), (1, num_steps)))


def _settings(bundle: Bundle, robot: Robot, domain: int) -> DeploySettings:
    state = {"topic": robot.topics.joint_states}
    observe: dict[str, Any] = {
        "joint_pos": {**state, "field": "position"},
        "joint_vel": {**state, "field": "velocity"},
        PICTURE: {"topic": robot.topics.images[CAMERA], "kind": MsgType.IMAGE.value},
    }
    items = bundle.manifest.contract.obs.items
    fields: dict[str, Any] = {
        "robot": robot.name,
        "observe": {name: observe[name] for name in items},
        "transport": {"name": "dds", "domain": domain},
        "lifecycle": {"ramp_s": 0.0, "start_tolerance_rad": 10.0},
        "cameras": {"frozen_timeout_s": 0.0},
    }
    return validate_strict(fields, DeploySettings).model_copy(update={"robot": as_component(robot)})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each policy")
    parser.add_argument("--minutes", type=float, default=10.0, help="of counting missed periods")
    parser.add_argument("--steps", type=int, default=10, help="K of the slow ones")
    parser.add_argument("--domain", type=int, default=200 + os.getpid() % 30)
    return parser.parse_args()


if __name__ == "__main__":
    main()
