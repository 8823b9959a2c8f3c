"""Finds tensors of an ONNX graph whose values are stored outside its file.

ONNX Runtime reads such values from a file that no manifest covers, relative to the working
directory of the process, or from an address in memory. The scan reads the protocol buffer itself,
because a robot's computer lacks the package ``onnx``. Sub-graphs, functions, sparse tensors and
attributes of nodes are covered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_NAME, _EXTERNAL_DATA, _DATA_LOCATION = 8, 13, 14
"""Fields of a TensorProto."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""Types of a field's encoding."""
_SIZES = {_FIXED64: 8, _FIXED32: 4}
_MESSAGES: dict[str, dict[int, str]] = {
    "Model": {7: "Graph", 20: "Training", 25: "Function"},
    "Training": {1: "Graph", 2: "Graph"},
    "Graph": {1: "Node", 5: "Tensor", 15: "SparseTensor"},
    "Function": {7: "Node", 11: "Attribute"},
    "Node": {5: "Attribute"},
    "Attribute": {
        **{5: "Tensor", 10: "Tensor", 6: "Graph", 11: "Graph"},
        **{22: "SparseTensor", 23: "SparseTensor"},
    },
    "SparseTensor": {1: "Tensor", 2: "Tensor"},
}
"""Message → field number → message in it, of ``onnx.proto``; only those that lead to tensors."""


class _Field(NamedTuple):
    number: int
    value: int | memoryview


def external_tensors(model: bytes) -> list[str]:
    """Return the names of the tensors whose values are outside the graph, as bytes of a file.

    Raises:
        ValueError: The bytes are no protocol buffer.
    """
    found: list[str] = []
    pending = [("Model", memoryview(model))]
    while pending:
        message, data = pending.pop()
        if message == "Tensor":
            found += _name_if_external(data)
            continue
        kinds = _MESSAGES[message]
        for number, value in _fields(data):
            if number in kinds and isinstance(value, memoryview):
                pending.append((kinds[number], value))
    return sorted(found)


def _name_if_external(tensor: memoryview) -> list[str]:
    name, external = "", False
    for number, value in _fields(tensor):
        if number == _NAME and isinstance(value, memoryview):
            name = bytes(value).decode(errors="replace")
        external |= number == _EXTERNAL_DATA or (number == _DATA_LOCATION and value != 0)
    return [name] if external else []


def _fields(data: memoryview) -> Iterator[_Field]:
    """Yield the fields of a message."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        kind, number = key & 7, (key & 0xFFFFFFFF) >> 3
        if kind == _VARINT:
            value, place = _varint(data, place)
            yield _Field(number, value)
            continue
        if kind != _BYTES and kind not in _SIZES:
            raise ValueError(f"a field of the unknown type {kind}")
        size, place = _varint(data, place) if kind == _BYTES else (_SIZES[kind], place)
        if place + size > len(data):
            raise ValueError("a field is cut")
        yield _Field(number, data[place : place + size])
        place += size


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    """Return the number at a place, of 7 bits a byte, and the place behind it."""
    value = 0
    for count, byte in enumerate(data[place : place + 10]):
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, place + count + 1
    raise ValueError("a number is cut")
