"""Memory and operations of a gradient, counted on torch's meta device, which holds no numbers."""

from __future__ import annotations

from typing import Any

import torch
from _ppo_updates import ACT
from _vla_policies import Model, Training, features, networks
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

GIB, TERA = 2.0**30, 1e12
ROWS = 2
"""Decisions that are counted; what is kept for them is proportional."""


def estimate(model: Model, training: Training) -> dict[str, float]:
    """Return parameters, GiB of float32 that training keeps, and 10¹² operations of a decision.

    ``kept_gib`` is what the backward pass of one decision and one denoising step needs.
    ``encoder_tflop`` and ``step_tflop`` are forward passes, ``backward_tflop`` is that of both.
    """
    with torch.device("meta"):
        encoder, net = networks(model, training)
        if training.algo.get("freeze_encoder"):
            encoder.requires_grad_(False)
        weights = [*encoder.parameters(), *net.parameters()]
        total = sum(weight.numel() for weight in weights)
        trained = sum(weight.numel() for weight in weights if weight.requires_grad)
        counts, kept = _gradient(model, encoder, net)
    return {
        "parameters": float(total),
        "trained": float(trained),
        "weights_gib": 4 * total / GIB,
        "optimizer_gib": 3 * 4 * trained / GIB,
        "kept_gib": kept / ROWS / GIB,
        **{name: count / ROWS / TERA for name, count in counts.items()},
    }


def _gradient(model: Model, encoder: nn.Module, net: nn.Module) -> tuple[dict[str, float], float]:
    """Return the operations of each part, and the bytes that its backward pass needs."""
    seen = features(model, ROWS, "meta")
    x = torch.zeros(ROWS, model.horizon, ACT.size)
    weights = {_storage(each) for each in (*encoder.parameters(), *net.parameters())}
    kept = dict[int, tuple[Tensor, int]]()

    def keep(tensor: Tensor) -> Tensor:
        if (own := _storage(tensor)) not in weights:
            kept[own] = tensor, tensor.untyped_storage().nbytes()
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        prefix, encoder_flops = _counted(lambda: encoder(seen))
        found, step_flops = _counted(lambda: net(x, torch.zeros(ROWS), prefix))
    _, backward = _counted(lambda: found.sum().backward())
    parts = {"encoder_tflop": encoder_flops, "step_tflop": step_flops, "backward_tflop": backward}
    return parts, float(sum(size for _, size in kept.values()))


def _counted(run: Any) -> tuple[Any, float]:
    with FlopCounterMode(display=False) as counter:
        found = run()
    return found, float(counter.get_total_flops())


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata
