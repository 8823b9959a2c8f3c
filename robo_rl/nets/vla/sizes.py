"""Settings of a vision-language-action network: its sizes, what is trained, and how."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from robo_rl.config.models import ConfigModel, OmitsDefaults
from robo_rl.nets.lora import LoraConfig


class VlaSizes(ConfigModel):
    """Sizes of what the network reads and writes, as LeRobot's ``config.json`` states them.

    States and actions are padded with zeros to the widths of the network.
    """

    max_state_dim: int = Field(default=32, ge=1)
    """Width of the padded state."""
    max_action_dim: int = Field(default=32, ge=1)
    """Width of the padded action."""
    image_size: tuple[int, int] = (224, 224)
    """Height and width that images are resized to, in pixels."""
    min_period: float = Field(default=4e-3, gt=0.0)
    """Shortest period of the time features."""
    max_period: float = Field(default=4.0, gt=0.0)
    """Longest period of the time features."""
    self_attn_every_n_layers: int = Field(default=2, ge=1)
    """SmolVLA: layers of the expert with this distance see its own tokens too."""
    expert_width_multiplier: float = Field(default=0.75, gt=0.0)
    """SmolVLA: width of the expert, as a share of the language model's."""
    num_vlm_layers: int = Field(default=16, ge=1)
    """SmolVLA: layers of the language model that are used."""
    scale_tokens: bool = True
    """π0 and π0.5: whether embeddings of words are multiplied by the root of their width."""

    @property
    def periods(self) -> tuple[float, float]:
        """Shortest and longest period of the time features."""
        return self.min_period, self.max_period


class VlaConfig(VlaSizes, OmitsDefaults):
    """Sizes of a network, what of it is trained, and what a gradient keeps in memory."""

    omitted: ClassVar[tuple[str, ...]] = ("lora", "gradient_checkpointing")

    lora: LoraConfig | None = None
    """Low-rank adapters; with them the network's own weights stay. None trains all weights."""
    gradient_checkpointing: bool = False
    """Whether the backward pass computes the layers again, which saves memory and takes time."""
