"""How often the host waits for the GPU in each part of training, from states and from images.

    python benchmarks/host_waits.py [--json FILE]

The pretended GPU of the tests counts, so that no GPU is needed. It computes on the processor and
logs every read of a value. ``gpu_update.py`` counts on a real GPU.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import _wait_counts as counts

PARTS: dict[str, Callable[..., float]] = {
    "control step in a chunk": counts.control_step,
    "decision": counts.decision,
    "actor minibatch": counts.actor_minibatch,
    "actor minibatch, per_step": partial(counts.actor_minibatch, ratio="per_step", minibatch=64),
    "critic minibatch": counts.critic_minibatch,
    "cloning step": counts.cloning_step,
    "SAC step": partial(counts.off_policy_step, "sac"),
    "TD3 step": partial(counts.off_policy_step, "td3"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    found = {
        name: {"states": count(sees=False), "images": count(sees=True)}
        for name, count in PARTS.items()
    }
    print(f"{'waits of the host':28}{'states':>8}{'images':>8}")
    for name, waits in found.items():
        print(f"{name:28}{waits['states']:8.2f}{waits['images']:8.2f}")
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
