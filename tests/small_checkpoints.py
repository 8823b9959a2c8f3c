"""A checkpoint of a few tensors of every kind, and a way to spoil it."""

from __future__ import annotations

import torch

META = {"step": 3, "note": "ü", "low": float("-inf"), "nested": {"list": [1, 2.5, None]}}


def make_tensors():
    generator = torch.Generator().manual_seed(0)
    return {
        "weight": torch.randn(5, 3, generator=generator),
        "bf16": torch.randn(4, generator=generator).bfloat16(),
        "count": torch.tensor(7),
        "mask": torch.tensor([True, False]),
        "state": generator.get_state(),
        "empty": torch.zeros(0, 2),
    }


def names(path):
    return sorted(entry.name for entry in path.iterdir())


def flip(path, name="tensors.safetensors"):
    file = path / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
