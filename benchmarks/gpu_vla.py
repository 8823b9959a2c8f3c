"""Memory and time of PPO on a vision-language-action policy of SmolVLA's size, by what is trained.

``all`` trains every weight, ``expert`` keeps the encoder and encodes each observation once an
update, ``lora`` trains adapters of rank 16 in backbone and expert beside their projections, and
``lora_checkpoints`` computes layers again in the backward pass. Weights and decisions are random
(``_vla_policies``, ``_ppo_updates``).

``--estimate`` needs neither a GPU nor memory: networks are on torch's meta device. It counts the
bytes of weights, gradients and Adam's moments, the bytes that a float32 gradient of one decision
keeps, and the operations of a forward and a backward pass of the encoder and of one denoising step.

Otherwise it measures on a GPU, for each precision: ``ms`` of a decision in one epoch of the actor,
by the ratio of one denoising step and by that of all K, and the peak of allocated memory. It also
times a chain whose prefix is encoded once beside one whose prefix is encoded in every step.

    python benchmarks/gpu_vla.py [--json FILE] [--model smolvla] [--minibatch 16] [--repeats 3]
        [--trainings all expert lora] [--precisions fp32 bf16] [--device cuda]
    python benchmarks/gpu_vla.py --estimate

Without a GPU it ends with status 2; ``--device cpu`` measures the small policy ``mini_vla``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import _bare_tree

_bare_tree.use_source_tree()

import torch  # noqa: E402
from _gpu import demanded, milliseconds  # noqa: E402
from _ppo_updates import ACT, BLOCK, UpdateSetting, make_policy, observation, prepared  # noqa: E402
from _vla_estimate import estimate  # noqa: E402
from _vla_policies import MODELS, TRAININGS, Model, trainings  # noqa: E402

from robo_rl.optim.precision import Precision, autocast  # noqa: E402

RATIOS = {"single_step": "flow_sde", "joint": "flow_noise"}
"""Ratio → the sampler of its published method."""
MINIBATCHES = 4
CHAINS = 1, 16
"""Rows of the chains that are timed."""
GIB = 2.0**30


def main() -> None:
    args = _arguments()
    results: dict[str, Any] = {"model": args.model, "versions": _bare_tree.versions(), "rows": []}
    print(" ".join(f"{name}={value}" for name, value in results["versions"].items()))
    for row in rows(args):
        results["rows"].append(row)
        print(" ".join(f"{name}={_shown(value)}" for name, value in row.items()), flush=True)
        if args.json:
            args.json.write_text(json.dumps(results, indent=2) + "\n")


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Return the estimates, or what is measured, row by row."""
    model = MODELS[args.model]
    if args.estimate:
        for name in args.trainings:
            yield {"training": name, **estimate(model, TRAININGS[name])}
        return
    device = demanded(args.device)
    for precision in args.precisions:
        yield from chains(model, precision, device, args.repeats)
        for name in args.trainings:
            for ratio in RATIOS:
                found = update(args, name, ratio, precision, device)
                yield {"training": name, "ratio": ratio, "precision": precision, **found}


def update(
    args: argparse.Namespace, name: str, ratio: str, precision: str, device: torch.device
) -> dict[str, float | None]:
    """Return the time of a decision in an epoch of the actor, and the peak of memory.

    What a GPU without enough memory does not give is None.
    """
    whole = args.minibatch * MINIBATCHES
    setting = _setting(MODELS[args.model], ratio, precision, device)._replace(
        num_envs=max(whole // BLOCK, 1), **_trained(MODELS[args.model], name)
    )
    try:
        made = prepared(setting, args.minibatch)
        credit = made.ppo.advantage_estimator.compute_advantages(made.rollout)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        run = partial(made.ppo.actor.update, credit.rollout, credit.adv)
        spent = milliseconds(run, device, args.repeats) / setting.decisions
    except torch.OutOfMemoryError:
        return {"ms": None, "peak_gib": None}
    params = [p.numel() for p in made.ppo.actor.policy.parameters() if p.requires_grad]
    return {"ms": spent, "peak_gib": _peak(device), "trained": float(sum(params))}


@torch.no_grad()
def chains(
    model: Model, precision: str, device: torch.device, repeats: int
) -> list[dict[str, Any]]:
    """Return ms of the encoder, of a chain, and of one that encodes in every step, by rows."""
    setting = _setting(model, "single_step", precision, device)._replace(**_trained(model, "all"))
    policy = make_policy(setting).eval()
    generator = torch.Generator(device).manual_seed(0)
    found = list[dict[str, Any]]()
    for number in CHAINS:
        obs = observation(setting._replace(num_envs=number), generator)
        noise = torch.randn(number, model.horizon, ACT.size, generator=generator, device=device)

        def encoded(obs: dict[str, torch.Tensor] = obs) -> None:
            policy.encode(obs)

        def cached(obs: dict[str, torch.Tensor] = obs, noise: torch.Tensor = noise) -> None:
            policy.decode_normalized(obs, noise)

        def again(obs: dict[str, torch.Tensor] = obs, noise: torch.Tensor = noise) -> None:
            x, t = noise, torch.zeros(len(noise), device=device)
            for _ in range(model.num_steps):
                x = x + policy.net(x, t, policy.encode(obs)) / model.num_steps

        with autocast(Precision(precision), policy):
            sides = {"encode_ms": encoded, "cached_ms": cached, "recomputed_ms": again}
            times = {side: milliseconds(run, device, 5 * repeats) for side, run in sides.items()}
        ratio = times["recomputed_ms"] / times["cached_ms"]
        found.append({"precision": precision, "chains": number, **times, "ratio": ratio})
    return found


def _setting(model: Model, ratio: str, precision: str, device: torch.device) -> UpdateSetting:
    return UpdateSetting(
        ratio=ratio,
        policy="flow",
        sampler=RATIOS[ratio],
        num_steps=model.num_steps,
        scored_steps=model.num_steps if ratio == "joint" else 1,
        chunk=model.horizon,
        precision=precision,
        device=str(device),
        reads=model.obs_spec,
    )


def _trained(model: Model, name: str) -> dict[str, Any]:
    training = TRAININGS[name]
    return {
        "encoder": {**model.encoder, **training.encoder},
        "net": {**model.net, **training.net},
        "algo": training.algo,
    }


def _peak(device: torch.device) -> float | None:
    return torch.cuda.max_memory_allocated() / GIB if device.type == "cuda" else None


def _shown(value: Any) -> Any:
    return f"{value:.4g}" if isinstance(value, float) else value


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file, row by row")
    parser.add_argument("--model", choices=sorted(MODELS), help="on a CPU mini_vla, else smolvla")
    parser.add_argument("--estimate", action="store_true", help="count on the meta device")
    parser.add_argument("--trainings", nargs="+", default=None, choices=list(TRAININGS))
    parser.add_argument(
        "--precisions", nargs="+", default=["fp32", "bf16"], choices=[p.value for p in Precision]
    )
    parser.add_argument("--minibatch", type=_positive, default=16, help="decisions of a minibatch")
    parser.add_argument("--repeats", type=_positive, default=3)
    parser.add_argument("--device", default="auto", help="auto, cuda, cuda:1 or cpu")
    args = parser.parse_args()
    small = args.device == "cpu" and not args.estimate
    args.model = args.model or ("mini_vla" if small else "smolvla")
    args.trainings = args.trainings or trainings(args.model)
    return args


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


if __name__ == "__main__":
    main()
