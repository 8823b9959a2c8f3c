"""Folders of small vision transformers with random weights, written by transformers itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

SIZES: dict[str, Any] = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "image_size": 32,
    "patch_size": 8,
}


def save_vit(folder: Path, kind: str = "dinov2") -> Path:
    """Write a DINOv2 or a SigLIP with text beside it, and how its pixels are normalised."""
    import transformers

    torch.manual_seed(0)
    if kind == "dinov2":
        model = transformers.Dinov2Model(transformers.Dinov2Config(**SIZES))
    else:
        text = {key: SIZES[key] for key in SIZES if key not in ("image_size", "patch_size")}
        config = transformers.SiglipConfig(
            text_config={**text, "vocab_size": 32}, vision_config=SIZES
        )
        model = transformers.SiglipModel(config)
    model.save_pretrained(folder)
    scales = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4]}
    (folder / "preprocessor_config.json").write_text(json.dumps(scales))
    return folder
