"""Converts nested state to flat tensors and JSON, and back, exactly.

Plain JSON values stand for themselves. Other values are objects with one key that begins with
``$``:

    {"$tensor": "policy/net.weight"}   a tensor, by its name
    {"$array": "rng/keys"}             a numpy array, by the name of its tensor
    {"$tuple": [...]}                  a tuple
    {"$items": [[key, value], ...]}    a dict with other keys than strings, or with a ``$`` key
    {"$float": "nan"}                  a float that JSON cannot represent
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from robo_rl.core.errors import CheckpointError


def flatten(tree: Any) -> tuple[dict[str, Tensor], Any]:
    """Split nested state into tensors and JSON.

    Args:
        tree: Dicts, lists and plain tuples of tensors, numpy arrays, numbers, strings, booleans
            and None.

    Returns:
        Tensors by their path, and JSON that refers to them.

    Raises:
        CheckpointError: It contains another type; the message names its path.
    """
    tensors: dict[str, Tensor] = {}
    return tensors, _encode(tree, "", tensors)


def unflatten(tensors: Mapping[str, Tensor], doc: Any) -> Any:
    """Rebuild the state that ``flatten`` split.

    Raises:
        CheckpointError: A tensor is missing, or the JSON is malformed.
    """
    try:
        return _decode(tensors, doc)
    except (TypeError, ValueError, RecursionError) as error:
        raise CheckpointError("the saved state is malformed", found=error) from None


def unshared(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return contiguous CPU tensors without shared memory, as safetensors requires."""
    out: dict[str, Tensor] = {}
    taken: set[int] = set()
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        storage = tensor.untyped_storage()
        if storage.data_ptr() in taken or storage.nbytes() != tensor.nbytes:
            tensor = tensor.clone()
        taken.add(tensor.untyped_storage().data_ptr())
        out[name] = tensor
    return out


def _encode(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        return {"$tensor": _keep(value, path, tensors)}
    if isinstance(value, np.ndarray):
        return {"$array": _keep(_from_numpy(value, path), path, tensors)}
    if isinstance(value, Mapping):
        return _encode_dict(cast("Mapping[Any, Any]", value), path, tensors)
    if isinstance(value, (list, tuple)):
        values = cast("list[Any] | tuple[Any, ...]", value)
        items = [_encode(item, f"{path}/{i}", tensors) for i, item in enumerate(values)]
        return items if isinstance(value, list) else {"$tuple": items}
    return _encode_scalar(value, path)


def _encode_dict(value: Mapping[Any, Any], path: str, tensors: dict[str, Tensor]) -> Any:
    items = [(key, _encode(item, f"{path}/{key}", tensors)) for key, item in value.items()]
    if all(isinstance(key, str) and not key.startswith("$") for key, _ in items):
        return dict(items)
    return {"$items": [[_encode_scalar(key, path), item] for key, item in items]}


def _encode_scalar(value: Any, path: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": repr(value)}
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise CheckpointError(
        "cannot be kept in a checkpoint",
        where=path.lstrip("/") or "state",
        expected="tensors, numpy arrays, numbers, strings, None, in dicts, lists and tuples",
        found=type(value).__name__,
    )


def _keep(tensor: Tensor, path: str, tensors: dict[str, Tensor]) -> str:
    name = path.lstrip("/") or "state"
    while name in tensors:  # {1: …, "1": …}
        name += "'"
    tensors[name] = tensor
    return name


def _from_numpy(array: np.ndarray[Any, Any], path: str) -> Tensor:
    try:
        return torch.from_numpy(np.ascontiguousarray(array).reshape(array.shape).copy())
    except TypeError:
        raise CheckpointError(
            "numpy array of a type that tensors do not have",
            where=path.lstrip("/"),
            found=array.dtype,
        ) from None


def _decode(tensors: Mapping[str, Tensor], doc: Any) -> Any:
    if isinstance(doc, list):
        return [_decode(tensors, value) for value in cast("list[Any]", doc)]
    if not isinstance(doc, dict):
        return doc
    values = cast("dict[str, Any]", doc)
    if len(values) == 1 and (tag := next(iter(values))).startswith("$"):
        return _decode_marked(tensors, tag, values[tag])
    return {key: _decode(tensors, value) for key, value in values.items()}


def _decode_marked(tensors: Mapping[str, Tensor], tag: str, value: Any) -> Any:
    if tag in ("$tensor", "$array"):
        if value not in tensors:
            raise CheckpointError("tensor is missing", where=value, found=f"{len(tensors)} others")
        return tensors[value] if tag == "$tensor" else tensors[value].numpy()
    if tag == "$tuple":
        return tuple(_decode(tensors, item) for item in value)
    if tag == "$items":
        return {_decode(tensors, key): _decode(tensors, item) for key, item in value}
    if tag == "$float":
        return float(value)
    raise CheckpointError("unknown mark in the saved state", where=tag)
