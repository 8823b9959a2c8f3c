"""Folders of LeRobot, in and out: what is written is what was read, and nothing fits by luck."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_vla import FOLDERS, KINDS, tiny_vla
from torch import Tensor

from robo_rl.core.errors import CheckpointError, ConfigError
from robo_rl.nets.vla.lerobot.config import read_config
from robo_rl.nets.vla.lerobot.folder import WEIGHTS, read_networks, write_networks
from robo_rl.nets.vla.lerobot.networks import build_networks


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_is_written_as_it_was_read(kind: str, tmp_path: Path):
    vla = tiny_vla(kind)
    write_networks(
        tmp_path / "out", vla.networks.kind, vla.networks.state_dict(), vla.described.raw
    )
    before, after = (load_file(place / WEIGHTS) for place in (FOLDERS / kind, tmp_path / "out"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config == json.loads((FOLDERS / kind / "config.json").read_text())


Weights = dict[str, Tensor]
LEFT_OUT = "model.action_out_proj.bias"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda w: w.pop(LEFT_OUT), f"'{LEFT_OUT}' is missing"),
        (lambda w: w.update({"model.other.bias": torch.zeros(1)}), "other.bias' is unexpected"),
        (lambda w: w.update({LEFT_OUT: torch.zeros(9)}), r"is \(9,\), expected \(8,\)"),
        (lambda w: w.update({LEFT_OUT: torch.full((8,), torch.nan)}), "not finite"),
        (lambda w: w.update({LEFT_OUT: torch.zeros(8, dtype=torch.int64)}), "floating point"),
        (lambda w: w.update({"action_out_proj.bias": w.pop(LEFT_OUT)}), "there is 'action_out"),
    ],
)
def test_weights_that_do_not_fit_are_refused(
    kind: str, change: Callable[[Weights], Any], told: str, tmp_path: Path
):
    folder = copied(kind, tmp_path)
    weights = load_file(folder / WEIGHTS)
    change(weights)
    save_file(weights, folder / WEIGHTS)
    with pytest.raises(CheckpointError, match=told) as refusal:
        read_networks(folder)
    assert str(folder / WEIGHTS) in str(refusal.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"type": "act"}, "config.json type"),
        ({"chunk_size": 0}, "config.json chunk_size"),
        ({"empty_cameras": 1}, "config.json empty_cameras: is not supported"),
        ({"input_features": {}}, "names no image"),
    ],
)
def test_a_config_of_another_policy_is_refused(change: dict[str, Any], told: str, tmp_path: Path):
    folder = copied("pi0", tmp_path)
    changed(folder / "config.json", change)
    with pytest.raises(ConfigError, match=told):
        read_networks(folder)


def test_a_truncated_file_is_refused(tmp_path: Path):
    folder = copied("smolvla", tmp_path)
    content = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(content[: len(content) // 2])
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_networks(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(ConfigError, match="cannot be read as JSON"):
        read_networks(folder)


@pytest.mark.parametrize(
    ("kind", "change", "low", "high"),
    [
        ("smolvla", {"vlm_model_name": "HuggingFaceTB/SmolVLM2-500M-Video-Instruct"}, 445, 455),
        ("pi0", {}, 3_200, 3_600),
    ],
)
def test_published_backbones_need_no_config_of_their_own(
    kind: str, change: dict[str, Any], low: float, high: float, tmp_path: Path
):
    """On the meta device: the 450 M parameters of SmolVLA, and the 3.3 billion of π0."""
    folder = copied(kind, tmp_path)
    for name in ("vlm_config.json", "expert_config.json"):
        (folder / name).unlink(missing_ok=True)
    usual = {"resize_imgs_with_padding": [512, 512], "num_vlm_layers": 16}
    changed(folder / "config.json", {**usual, "image_resolution": [224, 224], **change})
    with torch.device("meta"):
        networks = build_networks(folder, read_config(folder).config)
    assert low < sum(param.numel() for param in networks.parameters()) / 1e6 < high


def test_an_unknown_backbone_is_named(tmp_path: Path):
    folder = copied("smolvla", tmp_path)
    (folder / "vlm_config.json").unlink()
    with pytest.raises(ConfigError, match=r"vlm_model_name: names a backbone .* found tiny"):
        read_networks(folder)


def copied(kind: str, tmp_path: Path) -> Path:
    """A copy of a tiny folder."""
    return Path(shutil.copytree(FOLDERS / kind, tmp_path / kind))


def changed(path: Path, change: dict[str, Any]) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
