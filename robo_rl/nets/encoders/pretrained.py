"""A vision transformer from a local folder, and how its files are read.

The folder has the layout of Hugging Face's ``transformers``: ``config.json``,
``preprocessor_config.json`` and ``model.safetensors``. Nothing is fetched, no code of the folder
runs, and no pickle is read.

Shapes: N frames, g places a side, D channels of a token.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from robo_rl.config.registry import missing_extra
from robo_rl.core.errors import ConfigError
from robo_rl.nets.encoders.feature_cache import FeatureCache

WHERE = "policy.encoder.folder"
FRAMES_AT_ONCE = 64
"""Frames that the transformer maps at once."""


class Preprocessing(NamedTuple):
    """Mean and standard deviation of each channel, on pixels in [0, 1]."""

    mean: tuple[float, float, float]
    std: tuple[float, float, float]


class PretrainedVit(nn.Module):
    """Maps frames (N, C, h, w) uint8 to (N, D · g · g), without a gradient, rounded to float16.

    A frame is resized to a square, and the tokens of its patches are averaged over g × g places.

    Args:
        folder: Folder of the model.
        side: Side of the square in pixels; None takes that of the model.
        grid: g.
        cached_frames: Frames whose features stay in memory.

    Raises:
        ConfigError: The folder is no vision transformer, its weights do not fit it, or the square
            does not fit the patches.
        DeviceError: The extra ``pretrained`` is not installed.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, folder: Path, side: int | None, grid: int, cached_frames: int) -> None:
        super().__init__()
        scales = read_preprocessing(folder)
        self.model = read_model(folder).requires_grad_(False).eval()
        self.register_buffer("mean", torch.tensor(scales.mean).reshape(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(scales.std).reshape(1, 3, 1, 1))
        config: Any = self.model.config
        trained, patch = (getattr(config, name, None) for name in ("image_size", "patch_size"))
        if not isinstance(trained, int) or not isinstance(patch, int):
            raise _no_vit(folder, self.model, "no image_size or no patch_size in config.json")
        self.side, self.grid = side or trained, grid
        self.places = _places(self.side, patch, grid)
        self.cache = FeatureCache(cached_frames)
        self.keywords = {} if self.side == trained else _resized(config.model_type)
        self._try_out(folder)

    def forward(self, frames: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the features of frames in a dtype."""
        with torch.no_grad():
            if torch.compiler.is_compiling():
                return self._features(frames).to(dtype)
            with torch.autocast(frames.device.type, enabled=False):  # rows are of one precision
                return self.cache.find(frames, self._in_parts).to(dtype)

    def train(self, mode: bool = True) -> PretrainedVit:
        """Stay in evaluation: dropout would change what is cached."""
        del mode
        return super().train(False)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self.cache = FeatureCache(self.cache.frames)
        super()._load_from_state_dict(*args, **kwargs)

    def _in_parts(self, frames: Tensor) -> Tensor:
        return torch.cat([self._features(part) for part in frames.split(FRAMES_AT_ONCE)])

    def _features(self, frames: Tensor) -> Tensor:
        size = (self.side, self.side)
        colour = frames.expand(-1, 3, -1, -1).to(self.mean.dtype) / 255.0
        square = F.interpolate(colour, size, mode="bilinear", align_corners=False)
        tokens = self.model((square - self.mean) / self.std, **self.keywords).last_hidden_state
        patches = tokens[:, -(self.places**2) :]
        image = patches.transpose(1, 2).unflatten(2, (self.places, self.places))
        return F.avg_pool2d(image, self.places // self.grid).flatten(1).half()

    def _try_out(self, folder: Path) -> None:
        """Map one black frame, so that a model that does not fit is known at once."""
        black = torch.zeros(1, 3, self.side, self.side, dtype=torch.uint8)
        try:
            with torch.no_grad():
                found = self._features(black)
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            raise _no_vit(folder, self.model, str(error).splitlines()[0]) from error
        if not bool(found.isfinite().all()):
            raise ConfigError(
                "the model's features of a black image are not finite", where=WHERE, found=folder
            )


def _no_vit(folder: Path, model: nn.Module, why: str) -> ConfigError:
    return ConfigError(
        "the model does not map images to tokens of patches",
        where=WHERE,
        expected="a vision transformer, such as DINOv2 or SigLIP",
        found=f"{folder}: {type(model).__name__}: {why}",
    )


def _places(side: int, patch: int, grid: int) -> int:
    """Return how many patches lie along a side."""
    if side % (patch * grid):
        raise ConfigError(
            "the image is cut into whole patches, and these are averaged over whole places",
            where="policy.encoder.side",
            expected=f"a multiple of {patch} × grid = {patch * grid} pixels",
            found=side,
        )
    return side // patch


def _resized(model_type: str) -> dict[str, bool]:
    """Return the argument by which a model interpolates its patches' places, if any."""
    return {} if model_type.startswith("dino") else {"interpolate_pos_encoding": True}


def read_preprocessing(folder: Path) -> Preprocessing:
    """Read how pixels are normalised.

    Raises:
        ConfigError: The file is missing or damaged, or names no three positive deviations.
    """
    if not folder.is_dir():
        raise ConfigError("no such folder", where=WHERE, found=folder)
    path = folder / "preprocessor_config.json"
    try:
        content = json.loads(path.read_text())
        mean, std = (tuple(map(float, content[key])) for key in ("image_mean", "image_std"))
        if len(mean) != 3 or len(std) != 3 or min(std) <= 0.0:
            raise ValueError(f"image_mean {mean}, image_std {std}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            "the folder does not say how pixels are normalised",
            where=WHERE,
            expected=f"{path} with image_mean and image_std of three channels",
            found=f"{type(error).__name__}: {error}",
        ) from error
    return Preprocessing(mean, std)


def read_model(folder: Path) -> nn.Module:
    """Read the part of a model that sees.

    Raises:
        ConfigError: Files are missing or damaged, or weights are missing.
        DeviceError: The extra ``pretrained`` is not installed.
    """
    transformers = _transformers()
    try:
        model, info = transformers.AutoModel.from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=torch.float32,
            output_loading_info=True,
        )
    except Exception as error:
        raise ConfigError(
            "the folder is no model that transformers reads",
            where=WHERE,
            expected="config.json and model.safetensors of a vision transformer",
            found=f"{folder}: {type(error).__name__}: {str(error).splitlines()[0]}",
        ) from error
    absent = [*info["missing_keys"], *info.get("mismatched_keys", ())]
    if absent:
        raise ConfigError(
            "weights of the model are missing", where=WHERE, found=f"{folder}: {absent[:3]}"
        )
    return getattr(model, "vision_model", model)


def _transformers() -> Any:
    try:
        import transformers
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from error
    transformers.utils.logging.disable_progress_bar()
    return transformers
