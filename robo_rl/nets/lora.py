"""Low-rank adapters (LoRA) on linear layers of a network, by ``peft``.

Source: Hu et al. 2021, arXiv 2106.09685, equation 3: W x + (alpha / r) B A x, where W stays, and B
begins at 0.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field
from torch import Tensor, nn

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import ConfigError
from robo_rl.core.suggestions import did_you_mean

_LAYER, _ADAPTER = ".base_layer.", ".lora_"


class LoraConfig(ConfigModel):
    """Size of the adapters, and the layers that have one."""

    rank: int = Field(default=16, ge=1)
    """Rank r of an adapter."""
    alpha: int = Field(default=32, ge=1)
    """The adapter's output is multiplied by alpha / rank."""
    targets: tuple[str, ...] = Field(default=("q_proj", "v_proj"), min_length=1)
    """Ends of the names of linear layers."""


def add_adapters(module: nn.Module, cfg: LoraConfig, where: str) -> None:
    """Give layers of a module adapters, in place; its other weights stay as they are.

    The adapters and the module's own linear layers, such as projections of states and actions, are
    trained. Its networks are not. The module computes what it computed before.

    Args:
        module: A module that holds networks.
        cfg: See ``LoraConfig``.
        where: Key of the settings, for errors.

    Raises:
        ConfigError: No layer has such a name.
    """
    import peft

    targets = list(cfg.targets)
    settings = peft.LoraConfig(r=cfg.rank, lora_alpha=cfg.alpha, target_modules=targets)
    layers = [name for name, each in module.named_modules() if isinstance(each, nn.Linear)]
    for target in cfg.targets:
        if not any(f".{name}".endswith(f".{target}") for name in layers):
            ends = {name.rpartition(".")[2] for name in layers}
            raise ConfigError(
                "no linear layer has such a name",
                where=f"{where}.targets",
                found=target,
                hint=did_you_mean(target, ends),
            )
    peft.inject_adapter_in_model(settings, module)
    for layer in module.children():
        if isinstance(layer, nn.Linear):
            layer.requires_grad_(True)


def merge_adapters(module: nn.Module) -> None:
    """Add the adapters of all layers to the layers' weights, and remove them, in place."""
    for parent in list(module.modules()):
        for name, layer in list(parent.named_children()):
            adapted: Any = layer
            if isinstance(base := getattr(adapted, "base_layer", None), nn.Linear):
                adapted.merge(safe_merge=True)
                base.requires_grad_(True)
                setattr(parent, name, base)


def base_weights(module: nn.Module) -> dict[str, Tensor]:
    """Return name → weight of a module without its adapters, by the names that it has without."""
    return {
        name.replace(_LAYER, "."): weight
        for name, weight in module.state_dict().items()
        if _ADAPTER not in name
    }
