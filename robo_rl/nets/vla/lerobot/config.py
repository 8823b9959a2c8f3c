"""LeRobot's ``config.json`` of SmolVLA, π0 and π0.5, and the configs of their backbones.

Facts are those of LeRobot 0.6.1. Keys that the networks do not need are kept for writing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from robo_rl.core.errors import ConfigError
from robo_rl.core.suggestions import did_you_mean
from robo_rl.nets.vla.backbones import GEMMA, SMOLVLM2, gemma_expert, paligemma
from robo_rl.nets.vla.sizes import VlaSizes

CONFIG, VLM, EXPERT = "config.json", "vlm_config.json", "expert_config.json"
"""Config of the policy; and of backbones that LeRobot does not know by name."""

Kind = Literal["smolvla", "pi0", "pi05"]


class Feature(BaseModel):
    """An input or output of the policy: ``STATE``, ``VISUAL`` or ``ACTION``, and its shape."""

    type: str
    shape: tuple[int, ...]


class LeRobotVlaConfig(BaseModel):
    """What the networks need of ``config.json``; its other keys are not read."""

    model_config = ConfigDict(frozen=True)

    type: Kind
    input_features: dict[str, Feature]
    output_features: dict[str, Feature]
    chunk_size: int = Field(ge=1)
    max_state_dim: int = Field(ge=1)
    max_action_dim: int = Field(ge=1)
    min_period: float = Field(gt=0.0)
    max_period: float = Field(gt=0.0)
    tokenizer_max_length: int = Field(ge=1)
    num_steps: int | None = None
    num_inference_steps: int | None = None
    image_resolution: tuple[int, int] | None = None
    resize_imgs_with_padding: tuple[int, int] | None = None
    normalization_mapping: dict[str, str]
    vlm_model_name: str = ""
    paligemma_variant: str = ""
    action_expert_variant: str = ""
    num_vlm_layers: int = 16
    num_expert_layers: int = -1
    self_attn_every_n_layers: int = 2
    expert_width_multiplier: float = 0.75
    attention_mode: str = "cross_attn"
    add_image_special_tokens: bool = False
    empty_cameras: int = 0
    adapt_to_pi_aloha: bool = False

    @property
    def denoising_steps(self) -> int:
        """K, the number of Euler steps of inference."""
        return self.num_steps or self.num_inference_steps or 10

    @property
    def cameras(self) -> tuple[str, ...]:
        """Keys of the images, in the order in which the network reads them."""
        return tuple(k for k, each in self.input_features.items() if each.type == "VISUAL")


class Described(NamedTuple):
    """A folder's config, typed and as it is in the file."""

    config: LeRobotVlaConfig
    raw: dict[str, Any]


def read_config(folder: Path) -> Described:
    """Read the config of a folder.

    Raises:
        ConfigError: The file is missing or damaged, or describes a policy that is not supported.
    """
    raw = read_json(folder / CONFIG)
    try:
        config = LeRobotVlaConfig.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        where = f"{folder / CONFIG} {'.'.join(map(str, first['loc']))}"
        raise ConfigError(
            "is no config of a policy that is read",
            where=where,
            expected="smolvla, pi0 or pi05, as LeRobot 0.6 saves them",
            found=f"{first['input']!r:.60}: {first['msg']}",
        ) from error
    _demand_supported(folder / CONFIG, config)
    return Described(config, raw)


def sizes_of(config: LeRobotVlaConfig, *, scale_tokens: bool = True) -> VlaSizes:
    """Return the sizes of the networks.

    Args:
        config: The folder's config.
        scale_tokens: See ``VlaSizes``.
    """
    names = VlaSizes.model_fields.keys() & LeRobotVlaConfig.model_fields.keys()
    fields: dict[str, Any] = {name: getattr(config, name) for name in names}
    side = config.resize_imgs_with_padding or config.image_resolution
    if side is not None:  # SmolVLA's field is width, height
        fields["image_size"] = side[::-1] if config.type == "smolvla" else side
    return VlaSizes(**fields, scale_tokens=scale_tokens)


class Backbones(NamedTuple):
    """Configs of ``transformers``: the vision-language model, and the expert of π0 and π0.5."""

    vlm: dict[str, Any]
    gemma: dict[str, Any] | None


def read_backbones(folder: Path, config: LeRobotVlaConfig) -> Backbones:
    """Return the configs of the backbones of a folder.

    They are those of ``vlm_config.json`` and ``expert_config.json`` if the folder has them, else
    the published ones of the names in ``config.json``.

    Raises:
        ConfigError: A backbone is unknown, or its config is damaged.
    """
    if config.type == "smolvla":
        named = SMOLVLM2.get(config.vlm_model_name)
        vlm = _backbone(folder / VLM, named, "vlm_model_name", config.vlm_model_name, SMOLVLM2)
        return Backbones(vlm, None)
    side, variant = sizes_of(config).image_size[0], config.paligemma_variant
    named = paligemma(variant, side) if variant in GEMMA else None
    vlm = _backbone(folder / VLM, named, "paligemma_variant", variant, GEMMA)
    size = config.action_expert_variant
    known = gemma_expert(size) if size in GEMMA else None
    return Backbones(vlm, _backbone(folder / EXPERT, known, "action_expert_variant", size, GEMMA))


def _backbone(
    path: Path, named: dict[str, Any] | None, key: str, name: str, known: Mapping[str, Any]
) -> dict[str, Any]:
    if path.is_file():
        return read_json(path)
    if named is not None:
        return named
    raise ConfigError(
        "names a backbone whose sizes are not known",
        where=f"{path.parent / CONFIG} {key}",
        expected=f"one of {', '.join(known)}, or its config as {path.name} beside it",
        found=name,
        hint=did_you_mean(name, known),
    )


def _demand_supported(path: Path, config: LeRobotVlaConfig) -> None:
    usual = {
        "attention_mode": "cross_attn",
        "num_expert_layers": (-1, 0, config.num_vlm_layers),
        "add_image_special_tokens": False,
        "adapt_to_pi_aloha": False,
        "empty_cameras": 0,
    }
    for key, expected in usual.items():
        found = getattr(config, key)
        if found != expected and not (isinstance(expected, tuple) and found in expected):
            raise ConfigError(
                "is not supported", where=f"{path} {key}", expected=expected, found=found
            )
    if not config.cameras:
        raise ConfigError("names no image", where=f"{path} input_features")
    smolvla = config.type == "smolvla"
    for key, fits, expected in (
        ("num_vlm_layers", config.num_vlm_layers > 0, "a number of layers above 0"),
        ("self_attn_every_n_layers", config.self_attn_every_n_layers > 0, "above 0"),
        ("resize_imgs_with_padding", config.resize_imgs_with_padding is not None, "two sides"),
    ):
        if smolvla and not fits:
            found = getattr(config, key)
            raise ConfigError(
                "is not supported", where=f"{path} {key}", expected=expected, found=found
            )


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file.

    Raises:
        ConfigError: The file is missing or damaged, or holds no object.
    """
    if not path.is_file():
        problem = "is not in the folder" if path.parent.is_dir() else "is in no folder that exists"
        expected = "a folder that LeRobot's save_pretrained wrote; nothing is downloaded"
        raise ConfigError(problem, where=path, expected=expected)
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(
            "cannot be read as JSON",
            where=path,
            expected="a folder that LeRobot's save_pretrained wrote",
            found=f"{type(error).__name__}: {error}",
        ) from error
    if not isinstance(found, dict):
        raise ConfigError("is no JSON object", where=path, found=type(found).__name__)
    return cast("dict[str, Any]", found)
