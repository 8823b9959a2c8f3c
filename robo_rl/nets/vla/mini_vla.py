"""A small encoder of images and an instruction that trains from scratch on a CPU.

The instruction scales and shifts the channels of the image features, and asks for places in the
image: each head attends to the feature map and returns where it looks and what it sees there.

Sources: feature-wise modulation, Perez et al. 2018, "FiLM", arXiv 1709.07871, equation 2;
expected places, Levine et al. 2016, arXiv 1504.00702, section 5.2; attention, Vaswani et al. 2017,
arXiv 1706.03762, equation 1.

Shapes: B rows, S features of the sentence, V of the vectors, C channels, h × w places, M heads, D
features of a head.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import SpecError
from robo_rl.core.images import channels_first
from robo_rl.core.spec import ObsSpec
from robo_rl.nets.encoders.base import ObsEncoder, ObsFeatures, demand_side, image_shape
from robo_rl.nets.encoders.spatial_softmax import place_grid
from robo_rl.nets.vla.text_tower import TextTower, check_vocabulary

SMALLEST = 32
"""Side of the smallest image, in pixels."""


class MiniVlaEncoder(ObsEncoder):
    """Encodes the latest images by what the instruction asks for, beside vectors and sentence.

    Args:
        cfg: See Config.
        obs_spec: Observation of one step, with images and one text.
        obs_horizon: To; the latest images and the latest instruction are read.

    Raises:
        ConfigError: An image has a side below ``SMALLEST``.
    """

    class Config(ConfigModel):
        """Sizes of the text tower, of the feature maps, and of the heads."""

        vocabulary: int = Field(default=256, ge=2)
        """Number of ids of the text encoder; 256 bytes."""
        text_width: int = Field(default=128, ge=8, multiple_of=2)
        """S."""
        channels: tuple[int, int] = (32, 32)
        """Channels of the two convolutions."""
        heads: int = Field(default=8, ge=1)
        """M, for each camera."""
        head_width: int = Field(default=32, ge=1)
        """D; all heads share keys and values (Shazeer 2019, arXiv 1911.02150)."""

    reads_images: ClassVar[bool] = True
    reads_words: ClassVar[bool] = True
    splits: ClassVar[bool] = True

    def __init__(self, cfg: Config, obs_spec: ObsSpec, obs_horizon: int) -> None:
        super().__init__()
        self.cameras = obs_spec.image_names
        (self.text,) = obs_spec.word_names
        self.is_channels_first = {
            name: channels_first(obs_spec.items[name].shape) for name in self.cameras
        }
        vectors = obs_horizon * sum(obs_spec.items[name].size for name in obs_spec.vector_names)
        self.tower = TextTower(cfg.vocabulary, cfg.text_width)
        shapes = {name: image_shape(obs_spec.items[name].shape, name) for name in self.cameras}
        self.looks = nn.ModuleDict(
            {name: InstructedLook(cfg, shape, vectors) for name, shape in shapes.items()}
        )
        seen = len(self.cameras) * cfg.heads * (cfg.head_width + 2)
        self.num_features = vectors + cfg.text_width + seen

    @classmethod
    def check_obs(cls, cfg: Config, obs_spec: ObsSpec) -> None:
        """Check that there are images and one text, whose ids are in the vocabulary.

        Raises:
            SpecError: An item is missing, or the vocabulary is too small.
        """
        super().check_obs(cfg, obs_spec)
        if len(obs_spec.word_names) != 1:
            raise SpecError(
                "the encoder 'mini_vla' reads one text",
                where="policy.sees",
                expected="the item instruction, from env.text_encoder=bytes",
                found=", ".join(obs_spec.word_names) or f"none among {', '.join(obs_spec.items)}",
            )

        text = obs_spec.items[obs_spec.word_names[0]]
        check_vocabulary(text, cfg.vocabulary, "policy.encoder.vocabulary")

    def forward(self, features: ObsFeatures) -> Tensor:
        """Map an observation to features (B, F)."""
        return self.join(self.encode_prefix(features), features.vectors)

    def encode_prefix(self, features: ObsFeatures) -> Tensor:
        """Return the features of the sentence, and of the images where it asks to look."""
        sentence = self.tower(features.words[self.text][:, -1])
        asked = torch.cat([sentence, features.vectors], dim=-1)
        seen = [self.looks[name](self._latest(name, features), asked) for name in self.cameras]
        return torch.cat([sentence, *seen], dim=-1)

    def join(self, prefix: Tensor, vectors: Tensor) -> Tensor:
        """See ``ObsEncoder``."""
        return torch.cat([vectors, prefix], dim=-1)

    def _latest(self, name: str, features: ObsFeatures) -> Tensor:
        """Return the latest images (B, C, h, w) in [-1, 1]."""
        latest = features.images[name][:, -1]
        if not self.is_channels_first[name]:
            latest = latest.permute(0, 3, 1, 2)
        return latest.to(features.vectors) * (2.0 / 255.0) - 1.0


class InstructedLook(nn.Module):
    """Looks at one camera's images, as the instruction asks.

    Args:
        cfg: See ``MiniVlaEncoder.Config``.
        shape: Of an image, (C, h, w).
        vectors: V.
    """

    x: Tensor
    y: Tensor

    def __init__(
        self, cfg: MiniVlaEncoder.Config, shape: tuple[int, int, int], vectors: int
    ) -> None:
        super().__init__()
        demand_side(shape, SMALLEST, "mini_vla")
        self.heads, self.width, (thin, wide) = cfg.heads, cfg.head_width, cfg.channels
        self.patches = nn.Conv2d(shape[0], thin, 8, 4, padding=2)
        self.around = nn.Conv2d(thin, wide, 3, 1, padding=1)
        self.film = nn.Linear(cfg.text_width, 2 * wide)
        self.keys_and_values = nn.Conv2d(wide, 2 * cfg.head_width, 1)
        self.query = nn.Linear(cfg.text_width + vectors, cfg.heads * cfg.head_width)
        self.text_width = cfg.text_width
        height, width = self.patches(torch.zeros(1, *shape)).shape[2:]
        x, y = place_grid(height, width)
        self.register_buffer("x", x, persistent=False)
        self.register_buffer("y", y, persistent=False)

    def forward(self, images: Tensor, asked: Tensor) -> Tensor:
        """Return where the heads look and what they see, (B, M · (D + 2)).

        Args:
            images: (B, C, h, w) in [-1, 1].
            asked: (B, S + V).
        """
        scale, shift = self.film(asked[:, : self.text_width])[:, :, None, None].chunk(2, dim=1)
        maps = self.around(nn.functional.silu(self.patches(images)))
        maps = nn.functional.silu(maps * (1 + scale) + shift)
        keys, values = self.keys_and_values(maps).flatten(2).chunk(2, dim=1)
        query = self.query(asked).unflatten(1, (self.heads, self.width))
        weight = (query @ keys * self.width**-0.5).softmax(dim=-1)
        at = torch.stack([(weight * self.x).sum(-1), (weight * self.y).sum(-1)], -1)
        what = weight @ values.transpose(1, 2)
        return torch.cat([at, what], dim=-1).flatten(1)
