"""Encoders of vision-language-action policies: from images, words and state to a prefix.

Configs hold the whole architecture, so that a checkpoint or a bundle is rebuilt without the folder
that the weights came from.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from robo_rl.core.errors import SpecError
from robo_rl.core.images import channels_first
from robo_rl.core.spec import ObsSpec
from robo_rl.nets.encoders.base import ObsEncoder, ObsFeatures
from robo_rl.nets.lora import add_adapters
from robo_rl.nets.vla.pi0 import PaliGemmaPrefix
from robo_rl.nets.vla.prefix import Prefix, pad_last
from robo_rl.nets.vla.sizes import VlaConfig
from robo_rl.nets.vla.smolvla import SmolVlaPrefix
from robo_rl.nets.vla.text_tower import check_vocabulary

WHERE = "policy.encoder"
VOCABULARY = f"{WHERE}.vlm.text_config.vocab_size"


class VlaEncoder(ObsEncoder):
    """Encodes the latest images, instruction and state by a vision-language model.

    Args:
        cfg: See Config.
        obs_spec: Observation of one step, with one text.
        obs_horizon: To; the model reads the latest step.

    Raises:
        DeviceError: The extra ``pretrained`` is not installed.
        SpecError: The text has ids beyond the backbone's vocabulary.
    """

    class Config(VlaConfig):
        """Sizes, the backbone, the order of the cameras, and what is trained."""

        vlm: dict[str, Any]
        """Config of the backbone, as ``transformers`` writes it."""
        cameras: tuple[str, ...] = ()
        """Images in the order in which the model reads them; empty for that of the observation."""
        freeze_vlm: bool = Field(default=False)
        """Whether the backbone keeps its weights; the projection of the state is trained."""

        @model_validator(mode="after")
        def _adapters_are_trained(self) -> Self:
            if self.lora is not None and self.freeze_vlm:
                raise ValueError(
                    "freeze_vlm: with lora the backbone keeps its weights; leave it out"
                )
            return self

    latest: Tensor
    reads_images: ClassVar[bool] = True
    reads_words: ClassVar[bool] = True
    compresses: ClassVar[bool] = False  # LeRobot does not

    def __init__(self, cfg: Config, obs_spec: ObsSpec, obs_horizon: int) -> None:
        super().__init__()
        self.register_buffer("latest", latest_columns(obs_spec, obs_horizon), persistent=False)
        self.cameras = cfg.cameras or obs_spec.image_names
        self.is_channels_first = {
            name: channels_first(obs_spec.items[name].shape) for name in self.cameras
        }
        (self.text,) = obs_spec.word_names
        self.prefix = self.make_prefix(cfg)
        self.prefix.gradient_checkpointing = cfg.gradient_checkpointing
        if cfg.lora is not None:
            add_adapters(self.prefix, cfg.lora, f"{WHERE}.lora")
        if cfg.freeze_vlm:
            self.backbone.requires_grad_(False)
        text = self.backbone.config.text_config
        check_vocabulary(obs_spec.items[self.text], text.vocab_size, VOCABULARY)
        self.num_features: int = text.hidden_size

    @classmethod
    def check_obs(cls, cfg: Config, obs_spec: ObsSpec) -> None:
        """Check that there are images in colour, one text, and a state that fits.

        Raises:
            SpecError: An item is missing, an image is grey, or the state is too wide.
        """
        super().check_obs(cfg, obs_spec)
        if cfg.cameras:
            obs_spec.select(cfg.cameras, f"{WHERE}.cameras")
        for name in cfg.cameras or obs_spec.image_names:
            shape = obs_spec.items[name].shape
            if shape[0 if channels_first(shape) else 2] != 3:
                expected = "three channels"
                raise SpecError(f"image '{name}'", where=WHERE, expected=expected, found=shape)
        texts = obs_spec.word_names
        if len(texts) != 1:
            raise SpecError(
                "a vision-language-action policy reads one text",
                where="policy.sees",
                expected="one item of unit 'token', such as instruction",
                found=", ".join(texts) or f"none among {', '.join(obs_spec.items)}",
            )
        if (known := cfg.vlm.get("text_config", {}).get("vocab_size")) is not None:
            check_vocabulary(obs_spec.items[texts[0]], known, VOCABULARY)
        width = sum(obs_spec.items[name].size for name in obs_spec.vector_names)
        if not 0 < width <= cfg.max_state_dim:
            raise SpecError(
                "the state does not fit the network",
                where="policy.sees",
                expected=f"vectors with 1 to {cfg.max_state_dim} elements",
                found=f"{', '.join(obs_spec.vector_names) or 'none'} with {width}",
                hint="name the items of the state in policy.sees",
            )

    @abstractmethod
    def make_prefix(self, cfg: Any) -> SmolVlaPrefix | PaliGemmaPrefix:
        """Return the model in front of the expert."""

    @property
    @abstractmethod
    def backbone(self) -> Any:
        """The vision-language model."""

    def forward(self, features: ObsFeatures) -> Prefix:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Map an observation to a prefix."""
        words = features.words[self.text][:, -1]
        images = [self._image(name, features) for name in self.cameras]
        return self.prefix(images, words.clamp(min=0), words >= 0, self._state(features.vectors))

    def _state(self, vectors: Tensor) -> Tensor:
        """Return the vectors of the latest step, one after the other."""
        return vectors[:, self.latest]

    def _image(self, name: str, features: ObsFeatures) -> Tensor:
        """Return the latest images (B, 3, h, w) in [0, 1]."""
        latest = features.images[name][:, -1]
        if not self.is_channels_first[name]:
            latest = latest.permute(0, 3, 1, 2)
        return latest.to(features.vectors) / 255.0


def latest_columns(obs_spec: ObsSpec, obs_horizon: int) -> Tensor:
    """Return the columns of the latest step (D,) among vectors with their history (To · D,).

    The vectors are those of ``Normalizer.features``: each item with all of its steps.
    """
    sizes = [obs_spec.items[name].size for name in obs_spec.vector_names]
    stops = torch.tensor(sizes).cumsum(0) * obs_horizon
    parts = [
        torch.arange(stop - size, stop) for stop, size in zip(stops.tolist(), sizes, strict=True)
    ]
    return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.int64)


class SmolVlaEncoder(VlaEncoder):
    """Encodes by SmolVLM2 (see ``SmolVlaPrefix``)."""

    def make_prefix(self, cfg: VlaEncoder.Config) -> SmolVlaPrefix:
        """See ``VlaEncoder``."""
        from transformers import SmolVLMConfig

        return SmolVlaPrefix(cfg, SmolVLMConfig.from_dict(cfg.vlm))

    @property
    def backbone(self) -> Any:
        """See ``VlaEncoder``."""
        return self.prefix.vlm


class PaliGemmaEncoder(VlaEncoder):
    """Encodes by PaliGemma (see ``PaliGemmaPrefix``), apart from the state."""

    splits: ClassVar[bool] = True

    def encode_prefix(self, features: ObsFeatures) -> Prefix:
        """Return the cache of images and words, with the state of its time."""
        return self(features)

    def join(self, prefix: Prefix, vectors: Tensor) -> Prefix:
        """Return the prefix with the latest state."""
        return prefix._replace(state=pad_last(self._state(vectors), prefix.state.shape[-1]))

    def make_prefix(self, cfg: VlaEncoder.Config) -> PaliGemmaPrefix:
        """See ``VlaEncoder``."""
        from transformers import PaliGemmaConfig

        return PaliGemmaPrefix(cfg, PaliGemmaConfig.from_dict(cfg.vlm))

    @property
    def backbone(self) -> Any:
        """See ``VlaEncoder``."""
        return self.prefix.paligemma
