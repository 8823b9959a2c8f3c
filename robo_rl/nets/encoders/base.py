"""The interface of observation encoders, and what all encoders of images share.

Shapes: B rows, To observations of history, O elements of all vectors of a history, F features, N
images, (C, h, w) an image. Vectors arrive in network units, images as uint8.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from robo_rl.core.errors import ConfigError, SpecError
from robo_rl.core.images import channels_first
from robo_rl.core.spec import ObsSpec
from robo_rl.nets.embedding import Embedding

FRAMES_AT_ONCE = 1024
"""Frames that are encoded at once without a gradient."""


class ObsFeatures(NamedTuple):
    """An observation as an encoder reads it.

    Args:
        vectors: (B, O), all vectors of the history in network units.
        images: Name → (B, To, *shape of the image) uint8.
        words: Name → (B, To, L) int64, token ids of a text; −1 is padding.
    """

    vectors: Tensor
    images: dict[str, Tensor]
    words: Mapping[str, Tensor] = MappingProxyType({})


class ObsEncoder(nn.Module, ABC):
    """Maps observations to features; runs once per chain, as a part of the policy's network.

    Build with ``Encoder(cfg, obs_spec, obs_horizon)``. ``num_features`` is F.
    """

    reads_images: ClassVar[bool]
    """Whether the encoder reads images; an encoder of vectors alone refuses them."""
    reads_words: ClassVar[bool] = False
    """Whether the encoder reads texts."""
    compresses: ClassVar[bool] = True
    """Whether vectors far beyond the data are compressed before they reach the encoder."""
    caches: ClassVar[bool] = False
    """Whether the encoder keeps results from one call to the next, which no CUDA graph can."""
    splits: ClassVar[bool] = False
    """Whether ``encode_prefix`` and ``join`` are defined, and ``forward`` is the one after the
    other: a robot may then encode images and texts less often than it acts."""
    num_features: int

    @classmethod
    def check_obs(cls, cfg: Any, obs_spec: ObsSpec) -> None:
        """Check that the encoder reads these observations.

        Raises:
            SpecError: The encoder does not read images or texts and there are some, or it needs
                images.
        """
        del cfg
        if obs_spec.word_names and not cls.reads_words:
            raise SpecError(
                "a text to an encoder that reads none",
                where="policy.encoder",
                expected="an encoder of texts, such as mini_vla",
                found=", ".join(obs_spec.word_names),
                hint="set env.text_encoder=sentence for a vector, or leave the text out of "
                "policy.sees",
            )
        images = {name: obs_spec.items[name].shape for name in obs_spec.image_names}
        if images and not cls.reads_images:
            raise SpecError(
                "images to an encoder that reads vectors alone",
                where="policy.encoder",
                expected="an encoder of images, such as conv",
                found=", ".join(f"{name} {shape}" for name, shape in images.items()),
                hint="set policy.encoder=conv, or leave the images out of policy.sees",
            )
        if not images and cls.reads_images:
            raise SpecError(
                "an encoder of images, and no image among the observations",
                where="policy.encoder",
                expected="an image in env.cameras, and in policy.sees if it names items",
                found=", ".join(obs_spec.items),
                hint="name a camera, or set policy.encoder=state",
            )

    @abstractmethod
    def forward(self, features: ObsFeatures) -> Tensor:
        """Map an observation to features (B, F)."""

    def encode_prefix(self, features: ObsFeatures) -> Embedding:
        """Map images and texts to a part of the features; vectors may say where to look."""
        raise NotImplementedError

    def join(self, prefix: Embedding, vectors: Tensor) -> Any:
        """Return the features of a prefix, which may be older, and the latest vectors (B, O)."""
        raise NotImplementedError


class ImageEncoder(ObsEncoder):
    """Encodes every frame of every camera by a backbone, beside the vectors.

    The features are the vectors, then those of each camera and frame. A subclass gives the
    backbone.

    Args:
        cfg: Settings of the subclass, with ``shared``: whether one backbone serves all cameras.
        obs_spec: Observation of one step.
        obs_horizon: To.
        trunk: Maps the frames of all cameras (N, C, h, w) uint8 to what the backbones read;
            None scales them to [-1, 1].

    Raises:
        SpecError: An item is no image of one or three channels.
        ConfigError: Cameras of different sizes share a backbone.
    """

    reads_images: ClassVar[bool] = True
    splits: ClassVar[bool] = True

    def __init__(
        self, cfg: Any, obs_spec: ObsSpec, obs_horizon: int, trunk: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.trunk = trunk or ScalePixels()
        self.cameras = obs_spec.image_names
        shapes = {name: image_shape(obs_spec.items[name].shape, name) for name in self.cameras}
        self.is_channels_first = {
            name: channels_first(obs_spec.items[name].shape) for name in self.cameras
        }
        self.shared = bool(cfg.shared)
        if self.shared and len(set(shapes.values())) > 1:
            raise ConfigError(
                "cameras of different sizes share a backbone",
                where="policy.encoder.shared",
                expected="one size, or shared: false",
                found=shapes,
            )
        owners = self.cameras[:1] if self.shared else self.cameras
        self.backbones = nn.ModuleDict({name: self.backbone(cfg, shapes[name]) for name in owners})
        vectors = sum(s.size for n, s in obs_spec.items.items() if n not in self.cameras)
        with torch.no_grad():
            widths = [self._width(name, shapes[name]) for name in self.cameras]
        self.num_features = obs_horizon * (vectors + sum(widths))

    @abstractmethod
    def backbone(self, cfg: Any, shape: tuple[int, int, int]) -> nn.Module:
        """Return a module from the trunk's output for images (C, h, w) to (N, width)."""

    def forward(self, features: ObsFeatures) -> Tensor:
        """Map an observation to features (B, F)."""
        return self.join(self.encode_prefix(features), features.vectors)

    def encode_prefix(self, features: ObsFeatures) -> Tensor:
        """Return the features of all cameras, (B, F − O)."""
        parts = [self._camera(name, features.images[name], features) for name in self.cameras]
        return torch.cat(parts, dim=-1)

    def join(self, prefix: Tensor, vectors: Tensor) -> Tensor:
        """See ``ObsEncoder``."""
        return torch.cat([vectors, prefix], dim=-1)

    def _camera(self, name: str, images: Tensor, features: ObsFeatures) -> Tensor:
        frames = images.flatten(0, 1)
        if not self.is_channels_first[name]:
            frames = frames.permute(0, 3, 1, 2)
        found = torch.cat([self._encode(name, part, features) for part in _parts(frames)])
        width = images.shape[1] * found.shape[-1]
        return found.to(features.vectors).reshape(images.shape[0], width)

    def _encode(self, name: str, frames: Tensor, features: ObsFeatures) -> Tensor:
        """Map frames (N, C, h, w) uint8 to (N, width)."""
        return self._backbone_of(name)(self.trunk(frames, features.vectors.dtype))

    def _backbone_of(self, name: str) -> nn.Module:
        return self.backbones[self.cameras[0] if self.shared else name]

    def _width(self, name: str, shape: tuple[int, int, int]) -> int:
        black = torch.zeros(1, *shape, dtype=torch.uint8)
        return self._backbone_of(name)(self.trunk(black, torch.get_default_dtype())).shape[-1]


class ScalePixels(nn.Module):
    """Scales uint8 frames to [-1, 1]."""

    def forward(self, frames: Tensor, dtype: torch.dtype) -> Tensor:
        """Scale frames (N, C, h, w)."""
        return frames.to(dtype) * (2.0 / 255.0) - 1.0


def _parts(frames: Tensor) -> Sequence[Tensor]:
    """Return frames in parts whose activations fit the memory; a gradient needs them all at once.

    An exported graph has any number of rows, and takes them at once.
    """
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        return [frames]
    return frames.split(FRAMES_AT_ONCE)


def demand_side(shape: tuple[int, int, int], smallest: int, encoder: str) -> None:
    """Check that no side of images (C, h, w) is below ``smallest``.

    Raises:
        ConfigError: One is.
    """
    if min(shape[1:]) < smallest:
        raise ConfigError(
            f"images are too small for the encoder '{encoder}'",
            where="env.cameras",
            expected=f"sides of at least {smallest} pixels",
            found=f"{shape[2]} × {shape[1]}",
        )


def image_shape(shape: tuple[int, ...], name: str) -> tuple[int, int, int]:
    """Return the shape of an item as (C, h, w).

    Raises:
        SpecError: It is no image of one or three channels.
    """
    try:
        first = channels_first(shape)
    except SpecError as error:
        raise SpecError(
            f"obs '{name}' is no image that a policy reads",
            expected="(C, h, w) or (h, w, C) with C 1 or 3",
            found=shape,
            hint="convert it to grey or colour, or leave it out of policy.sees",
        ) from error
    c, h, w = shape if first else (shape[2], shape[0], shape[1])
    return c, h, w
