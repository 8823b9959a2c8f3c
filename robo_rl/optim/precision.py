"""Numerical precision of networks during an update."""

from __future__ import annotations

import platform
from enum import StrEnum

import torch
from torch import nn

from robo_rl.config.models import ConfigModel


class Precision(StrEnum):
    """float32, or matrix products in bfloat16 (Micikevicius et al. 2018, 1710.03740).

    Weights, optimiser, kernels, ratios and losses stay float32. bfloat16 has the range of float32,
    so losses need no scaling.
    """

    FP32 = "fp32"
    BF16 = "bf16"


class PrecisionConfig(ConfigModel):
    """Precision of the networks in an update, forward and backward.

    Actions are sampled and evaluated in float32 in both cases. An update of RL by likelihood ratios
    recomputes the acting log-probabilities in bfloat16. The ratio of equal weights is then 1.
    """

    precision: Precision = Precision.FP32
    """Precision of the networks in an update."""


def autocast(precision: Precision, module: nn.Module) -> torch.autocast:
    """Return a context that runs the module in this precision on its device."""
    device = next(module.parameters()).device.type
    return torch.autocast(device, torch.bfloat16, enabled=precision is Precision.BF16)


def cpu_emulates_bf16() -> bool:
    """Whether products in bfloat16 are emulated on this CPU, at many times the time of float32.

    x86 computes them with AVX512-BF16 or AMX, about as fast as float32 with AVX-512 alone, and
    emulates them below that (oneDNN's guide, "Data Types"; ``benchmarks/update_precision.py``).
    """
    is_x86 = platform.machine() in ("x86_64", "AMD64")
    return is_x86 and "AVX512" not in torch.backends.cpu.get_cpu_capability()
