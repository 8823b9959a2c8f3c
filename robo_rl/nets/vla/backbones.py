"""Configs of the published backbones, for folders that name them without holding them.

LeRobot's folders name a backbone and keep its weights, not its sizes. The figures are those of the
models' public configs: SmolVLM2-500M (Marafioti et al. 2025, arXiv 2504.05299), PaliGemma with
Gemma 2B and SigLIP So400m (Beyer et al. 2024, arXiv 2407.07726), Gemma 300M of π0 (arXiv
2410.24164, appendix B).
"""

from __future__ import annotations

from typing import Any

GEMMA: dict[str, dict[str, int]] = {
    "gemma_300m": {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 18},
    "gemma_2b": {"hidden_size": 2048, "intermediate_size": 16384, "num_hidden_layers": 18},
}
"""Variant of Gemma → its sizes; all have eight heads of 256 and one head of keys."""

_HEADS = {"num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256}
_WORDS = 257_152

SMOLVLM2: dict[str, dict[str, Any]] = {
    "HuggingFaceTB/SmolVLM2-500M-Video-Instruct": {
        "text_config": {
            "model_type": "llama",
            "hidden_size": 960,
            "intermediate_size": 2560,
            "num_hidden_layers": 32,
            "num_attention_heads": 15,
            "num_key_value_heads": 5,
            "head_dim": 64,
            "vocab_size": 49_280,
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": False,
        },
        "vision_config": {
            "model_type": "smolvlm_vision",
            "hidden_size": 768,
            "intermediate_size": 3072,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "image_size": 512,
            "patch_size": 16,
        },
        "scale_factor": 4,
        "tie_word_embeddings": False,
    }
}
"""Name of a SmolVLM2 → its config."""


def paligemma(variant: str, image_side: int) -> dict[str, Any]:
    """Return the config of a PaliGemma with this Gemma, for images of this side in pixels."""
    text = {
        "model_type": "gemma",
        **GEMMA[variant],
        **_HEADS,
        "vocab_size": _WORDS,
        "hidden_activation": "gelu_pytorch_tanh",
    }
    vision = {
        "model_type": "siglip_vision_model",
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_hidden_layers": 27,
        "num_attention_heads": 16,
        "patch_size": 14,
        "image_size": image_side,
        "projection_dim": GEMMA[variant]["hidden_size"],
        "vision_use_head": False,
    }
    return {
        "text_config": text,
        "vision_config": vision,
        "projection_dim": GEMMA[variant]["hidden_size"],
        "image_token_index": _WORDS,
    }


def gemma_expert(variant: str) -> dict[str, Any]:
    """Return the config of an action expert of this size."""
    return {
        **GEMMA[variant],
        **_HEADS,
        "vocab_size": _WORDS,
        "hidden_activation": "gelu_pytorch_tanh",
    }
