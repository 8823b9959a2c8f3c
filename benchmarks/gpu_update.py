"""Time of a PPO update on a GPU and on the processor: the actor's and the critic's share.

The decisions are made up (``_ppo_updates``), the settings the demo's: a joint ratio over four denoising
steps, two networks, blocks of 8 decisions an env. ``waits`` is how often the host waits for the
GPU, of a minibatch of the actor and of the critic, by torch's own count; ``waited_at`` names the
lines. On the processor a smaller block stands for the large ones, since time grows with them.

    python benchmarks/gpu_update.py [--json FILE] [--envs 256 4096 16384] [--repeats 5]
        [--device cuda] [--cpu-envs 256]

Without a GPU it ends with status 2; ``--device cpu --envs 8`` shows that it runs.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

import _bare_tree

_bare_tree.use_source_tree()

import torch  # noqa: E402
from _gpu import demanded, milliseconds, waits_counted  # noqa: E402
from _ppo_updates import BLOCK, UpdateSetting, prepared  # noqa: E402

NETS = {
    "demo": {"name": "mlp"},
    "3x512": {"name": "mlp", "width": 512, "depth": 3},
}
MINIBATCHES, EPOCHS = 8, 4
COLUMNS = ("actor_ms", "critic_ms", "update_ms", "actor_waits", "critic_waits")


def main() -> None:
    args = _arguments()
    device = demanded(args.device)
    results: dict[str, Any] = {"versions": _bare_tree.versions(), "rows": []}
    print(" ".join(f"{name}={value}" for name, value in results["versions"].items()))
    print(f"{'net':8}{'device':>8}{'envs':>8}" + "".join(f"{name:>14}" for name in COLUMNS))
    places = [(device, args.envs)]
    if device.type != "cpu" and args.cpu_envs:
        places.append((torch.device("cpu"), args.cpu_envs))
    for net in NETS:
        for where, sizes in places:
            for num_envs in sizes:
                row = measured(net, where, num_envs, args.repeats)
                results["rows"].append(row)
                cells = "".join(f"{row[name]:14.2f}" for name in COLUMNS)
                print(f"{net:8}{where.type:>8}{num_envs:8}{cells}", flush=True)
                if args.json:
                    args.json.write_text(json.dumps(results, indent=2) + "\n")


def measured(net: str, device: torch.device, num_envs: int, repeats: int) -> dict[str, Any]:
    """One network and block: milliseconds of each part, waits of a minibatch of each."""
    setting = UpdateSetting("joint", "flow", "flow_noise", num_steps=4, scored_steps=4)
    setting = setting._replace(num_envs=num_envs, net=NETS[net], device=str(device))
    minibatch = max(num_envs * BLOCK // MINIBATCHES, 1)
    made = prepared(setting, minibatch, EPOCHS)
    credit = made.ppo.advantage_estimator.compute_advantages(made.rollout)
    judge = partial(made.ppo.advantage_estimator.compute_advantages, made.rollout)
    act = partial(made.ppo.actor.update, credit.rollout, credit.adv)
    number = MINIBATCHES * EPOCHS
    found = {
        "net": net,
        "device": device.type,
        "envs": num_envs,
        "minibatch": minibatch,
        "minibatches": number,
    }
    for part, run in (("actor", act), ("critic", judge)):
        found[f"{part}_ms"] = milliseconds(run, device, repeats)
        with waits_counted(device) as waits:
            run()
        found[f"{part}_waits"] = sum(waits.values()) / number
        found[f"{part}_waited_at"] = waits
    return found | {"update_ms": milliseconds(made.run, device, repeats)}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file, row by row")
    parser.add_argument("--envs", type=int, nargs="+", default=[256, 4096, 16384])
    parser.add_argument("--cpu-envs", type=int, nargs="*", default=[256])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", default="auto", help="auto, cuda, cuda:1 or cpu")
    return parser.parse_args()


if __name__ == "__main__":
    main()
