"""Moves the tensors of steps and mappings to another device in one transfer."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, cast

import torch
from torch import Tensor

from robo_rl.api.env import Step

_ALIGNED = 8
"""Alignment of the tensors in a transfer, in bytes."""


def sent(tree: Any, device: torch.device) -> Any:
    """Return steps, mappings and lists with their tensors on a device, in one transfer.

    An object that occurs twice stays one object. Tensors that are there already stay as they are.
    """
    every: dict[int, Tensor] = {}
    _gather(tree, every)
    found = {key: tensor for key, tensor in every.items() if tensor.device != device}
    moved = zip(found, _transfer(list(found.values()), device), strict=True)
    return _rebuilt(tree, {**every, **dict(moved)})


def _gather(tree: Any, found: dict[int, Tensor]) -> None:
    if isinstance(tree, Tensor):
        found[id(tree)] = tree
    elif isinstance(tree, Mapping):
        _gather(list(cast(Mapping[str, Any], tree).values()), found)
    elif isinstance(tree, (list, tuple)):
        for each in cast("list[Any]", tree):
            _gather(each, found)


def _rebuilt(tree: Any, there: Mapping[int, Tensor], made: dict[int, Any] | None = None) -> Any:
    made = {} if made is None else made
    if isinstance(tree, Tensor):
        return there[id(tree)]
    if isinstance(tree, Step):
        return Step(*(_rebuilt(each, there, made) for each in tree))
    if isinstance(tree, Mapping):
        items = cast(Mapping[str, Any], tree).items()
        new = {name: _rebuilt(each, there, made) for name, each in items}
        return made.setdefault(id(tree), new)
    if isinstance(tree, list):
        return [_rebuilt(each, there, made) for each in cast("list[Any]", tree)]
    return tree


def _transfer(tensors: list[Tensor], device: torch.device) -> list[Tensor]:
    """Move tensors as the bytes of one buffer."""
    pieces = [_padded(tensor) for tensor in tensors]
    if not pieces:
        return []
    on_the_way = device.type != "cpu"  # the CPU would read before they arrive
    buffer, out, start = torch.cat(pieces).to(device, non_blocking=on_the_way), list[Tensor](), 0
    for tensor, piece in zip(tensors, pieces, strict=True):
        end = start + prod(tensor.shape) * tensor.element_size()
        out.append(buffer[start:end].view(tensor.dtype).view(tensor.shape))
        start += len(piece)
    return out


def _padded(tensor: Tensor) -> Tensor:
    data = tensor.contiguous().reshape(-1).view(torch.uint8)
    return torch.nn.functional.pad(data, (0, -len(data) % _ALIGNED))
