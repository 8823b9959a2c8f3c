"""Exchanges nested state between processes as tensor bytes and JSON, without pickle."""

from __future__ import annotations

import json
from typing import Any

import safetensors.torch
import torch

from robo_rl.distributed.process_group import all_gather_rows, rank_info
from robo_rl.train.checkpoint.pytree import flatten, unflatten, unshared


def all_gather_state(states: list[Any]) -> list[Any]:
    """Return the states of all processes in rank order; nesting as in ``pytree``."""
    if rank_info().world_size == 1:
        return states
    tensors, doc = flatten(states)
    parts = [safetensors.torch.save(unshared(tensors)), json.dumps(doc).encode()]
    sizes = all_gather_rows(torch.tensor([[len(part) for part in parts]])).flatten().tolist()
    data = all_gather_rows(torch.frombuffer(bytearray(b"".join(parts)), dtype=torch.uint8))
    pieces = [bytes(piece.numpy()) for piece in data.split(sizes)]
    found = list[Any]()
    for body, text in zip(pieces[::2], pieces[1::2], strict=True):
        found += unflatten(safetensors.torch.load(body), json.loads(text))
    return found
