"""In which numbers networks are computed while an update differentiates them."""

from __future__ import annotations

from enum import StrEnum

import torch
from torch import nn

from robo_rl.config.models import ConfigModel


class Precision(StrEnum):
    """float32 throughout, or matrix products in bfloat16 (Micikevicius et al. 2018, 1710.03740).

    Weights, optimiser and all that comes after the network (kernels, ratios, losses) stay float32;
    bfloat16 has float32's range, so that no loss needs scaling.
    """

    FP32 = "fp32"
    BF16 = "bf16"


class PrecisionConfig(ConfigModel):
    """``precision`` of networks in an update, forwards and backwards.

    Actions are drawn and evaluated in float32 either way. With ``bf16`` the acting policy's
    log-probabilities are computed anew as the trained one's are, so that a ratio of the same
    weights is 1.
    """

    precision: Precision = Precision.FP32
    """Precision of networks in an update."""


def autocast(precision: Precision, module: nn.Module) -> torch.autocast:
    """A context in which the module runs in that precision, on the device where it is."""
    device = next(module.parameters()).device.type
    return torch.autocast(device, torch.bfloat16, enabled=precision is Precision.BF16)
