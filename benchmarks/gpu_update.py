"""Time of a PPO update on a GPU and on the processor: the actor's and the critic's share.

The decisions are made up (``_ppo_updates``), with the settings of the demo: a joint ratio over four
denoising steps, two networks, blocks of 8 decisions an env. ``waits`` counts how often the CPU
waits for the GPU in a minibatch of the actor and of the critic, by torch's own count;
``waited_at`` names the lines. ``ratio_error`` is the mean |ratio − 1| of the first minibatch,
before the policy changes; that minibatch is smaller than the batch that acted. With an encoder the
policy reads an image of 64 × 64 pixels beside the state; ``tf32`` rows allow TF32 in convolutions,
and ``graphs`` rows run minibatches as CUDA graphs.
On the CPU a smaller block stands for the large ones, since time grows with the block.

    python benchmarks/gpu_update.py [--json FILE] [--envs 256 4096 16384] [--repeats 5]
        [--sizes-seen 256 1024] [--device cuda] [--cpu-envs 256]

Without a GPU it ends with status 2; ``--device cpu --envs 8`` shows that it runs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import _bare_tree

_bare_tree.use_source_tree()

import torch  # noqa: E402
from _gpu import demanded, milliseconds, waits_counted  # noqa: E402
from _ppo_updates import UpdateSetting, prepared  # noqa: E402

NETS = {
    "demo": {"name": "mlp"},
    "3x512": {"name": "mlp", "width": 512, "depth": 3},
}
UPDATE = UpdateSetting("joint", "flow", "flow_noise", num_steps=4, scored_steps=4)
MINIBATCHES, EPOCHS = 8, 4
ENCODERS = ("conv", "resnet18", "vit")
COLUMNS = ("actor_ms", "critic_ms", "update_ms", "actor_waits", "critic_waits", "ratio_error")


def main() -> None:
    args = _arguments()
    device = demanded(args.device)
    results: dict[str, Any] = {"versions": _bare_tree.versions(), "rows": []}
    print(" ".join(f"{name}={value}" for name, value in results["versions"].items()))
    print(f"{'net':14}{'device':>8}{'envs':>8}" + "".join(f"{name:>14}" for name in COLUMNS))
    for row in rows(args, device):
        results["rows"].append(row)
        cells = "".join(f"{row[name]:14.2e}" for name in COLUMNS)
        print(f"{row['net']:14}{row['device']:>8}{row['envs']:8}{cells}", flush=True)
        if args.json:
            args.json.write_text(json.dumps(results, indent=2) + "\n")


def rows(args: argparse.Namespace, device: torch.device) -> Iterator[dict[str, Any]]:
    """Networks of states on the device and on the processor, then encoders on the device."""
    places = [(device, args.envs)]
    if device.type != "cpu" and args.cpu_envs:
        places.append((torch.device("cpu"), args.cpu_envs))
    for net, cfg in NETS.items():
        for where, sizes in places:
            ways = (False, True) if where.type != "cpu" else (False,)
            for num_envs, graphs in product(sizes, ways):
                setting = UPDATE._replace(
                    num_envs=num_envs, net=cfg, device=str(where), graphs=graphs
                )
                yield {"net": net + " graphs" * graphs, **measured(setting, args.repeats)}
    for encoder in ENCODERS:
        for tf32, num_envs in product((False, True), args.sizes_seen):
            setting = UPDATE._replace(num_envs=num_envs, encoder=encoder, device=str(device))
            with torch.backends.cudnn.flags(allow_tf32=tf32):
                yield {"net": encoder + " tf32" * tf32, **measured(setting, args.repeats)}


def measured(setting: UpdateSetting, repeats: int) -> dict[str, Any]:
    """One network and block: milliseconds of each part, waits of a minibatch of each."""
    device = torch.device(setting.device)
    minibatch = max(setting.decisions // MINIBATCHES, 1)
    made = prepared(setting, minibatch, EPOCHS)
    credit = made.ppo.advantage_estimator.compute_advantages(made.rollout)
    judge = partial(made.ppo.advantage_estimator.compute_advantages, made.rollout)
    act = partial(made.ppo.actor.update, credit.rollout, credit.adv)
    number = MINIBATCHES * EPOCHS
    found: dict[str, Any] = {
        "device": device.type,
        "envs": setting.num_envs,
        "minibatch": minibatch,
        "minibatches": number,
        "ratio_error": _ratio_error(setting, max(minibatch // 3, 1)),
    }
    for part, run in (("actor", act), ("critic", judge)):
        found[f"{part}_ms"] = milliseconds(run, device, repeats)
        with waits_counted(device) as waits:
            run()
        found[f"{part}_waits"] = sum(waits.values()) / number
        found[f"{part}_waited_at"] = waits
    return found | {"update_ms": milliseconds(made.run, device, repeats)}


def _ratio_error(setting: UpdateSetting, minibatch: int) -> float:
    """The mean |ratio − 1| of a minibatch of another size than the policy acted on."""
    made = prepared(setting, minibatch)
    credit = made.ppo.advantage_estimator.compute_advantages(made.rollout)
    return made.ppo.actor.update(credit.rollout, credit.adv)["ratio_error"]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file, row by row")
    parser.add_argument("--envs", type=int, nargs="+", default=[256, 4096, 16384])
    parser.add_argument("--sizes-seen", type=int, nargs="*", default=[256, 1024])
    parser.add_argument("--cpu-envs", type=int, nargs="*", default=[256])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", default="auto", help="auto, cuda, cuda:1 or cpu")
    return parser.parse_args()


if __name__ == "__main__":
    main()
