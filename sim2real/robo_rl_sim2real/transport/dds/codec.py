"""ROS 2 messages for Cyclone DDS: types from rosbags' definitions, bytes from its numpy codec.

Cyclone's own codec turns an image into a Python list element by element; rosbags' codec keeps
arrays. The types below therefore only describe their IDL to DDS. They carry a message that rosbags
writes and reads as ROS's CDR.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any

from cyclonedds.idl import IdlStruct, make_idl_struct, types
from rosbags.interfaces import Nodetype

from robo_rl_sim2real.messages.rosbags_types import message_factory, type_store

GID_BYTES = {"humble": 24, "jazzy": 16, "kilted": 16}
"""ROS 2 distribution → length of an endpoint's identifier in the ROS graph."""

_BASE: dict[str, Any] = {
    "bool": bool,
    "byte": types.uint8,
    "char": types.uint8,
    "string": str,
    **{
        name: getattr(types, name)
        for name in (
            *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
            *("float32", "float64"),
        )
    },
}


_HEAD = 4
"""Length of the CDR encapsulation header in bytes."""
_WHO, _WHO_BIG = struct.Struct("<Qq"), struct.Struct(">Qq")


class Codec:
    """The interfaces of one distribution.

    Args:
        distro: Name of the distribution.

    Raises:
        ConfigError: The distribution is unknown.
    """

    def __init__(self, distro: str) -> None:
        self.distro, self.store = distro, type_store(distro)
        self.dialect = message_factory(self.store)
        self._idl = lru_cache(maxsize=None)(self._make_idl)
        self.framed = lru_cache(maxsize=None)(self._make_framed)

    def type_hash(self, name: str) -> str:
        """Return the interface's type hash (REP 2016), ``RIHS01_…``."""
        return self.store.hash_rihs01(name)

    def wire_type(self, name: str) -> type[IdlStruct]:
        """Return an interface's type for topics, readers and writers; ``wrap`` makes samples."""
        return self._idl(name)

    def wrap(self, name: str, message: Any) -> IdlStruct:
        """Return a sample of a message."""
        return _sample(self.wire_type(name), message)

    def _make_idl(self, name: str) -> type[IdlStruct]:
        cls, store = self._described(name), self.store

        def serialize(self: Any, *args: Any, **kwargs: Any) -> bytes:
            del args, kwargs
            return bytes(store.serialize_cdr(self.message, name))

        def deserialize(data: bytes, *args: Any, **kwargs: Any) -> IdlStruct:
            del args, kwargs
            return _sample(cls, store.deserialize_cdr(data, name), bytes(data))

        cls.serialize, cls.deserialize = serialize, staticmethod(deserialize)
        return cls

    def _make_framed(self, name: str) -> type[IdlStruct]:
        """Return the type of a service's request or response, with guid, seq and message.

        As in rmw_cyclonedds, the client's guid and the request's sequence number precede the
        message. They take 16 bytes, so the alignment of the message stays the same.
        """
        who: dict[str, Any] = {"guid": types.uint64, "seq": types.int64}
        cls, store = self._described(name, who), self.store

        def serialize(self: Any, *args: Any, **kwargs: Any) -> bytes:
            del args, kwargs
            rest = bytes(store.serialize_cdr(self.message, name))
            return rest[:_HEAD] + _WHO.pack(self.guid, self.seq) + rest[_HEAD:]

        def deserialize(data: bytes, *args: Any, **kwargs: Any) -> IdlStruct:
            del args, kwargs
            rest = bytes(data[:_HEAD]) + bytes(data[_HEAD + _WHO.size :])
            sample: Any = _sample(cls, store.deserialize_cdr(rest, name))
            who = _WHO if data[1] & 1 else _WHO_BIG
            sample.guid, sample.seq = who.unpack_from(data, _HEAD)
            return sample

        cls.serialize, cls.deserialize = serialize, staticmethod(deserialize)
        return cls

    def frame(self, name: str, guid: int, seq: int, message: Any) -> IdlStruct:
        """Return a sample of a service's request or response."""
        sample: Any = _sample(self.framed(name), message)
        sample.guid, sample.seq = guid, seq
        return sample

    def _described(self, name: str, first: dict[str, Any] | None = None) -> Any:
        package, group, kind = name.split("/")
        fields = {field: self._field(node) for field, node in self.store.fielddefs[name][1]}
        typename = f"{package}::{group}::dds_::{kind}_"
        return make_idl_struct(f"{kind}_", typename, (first or {}) | fields)

    def _field(self, node: Any) -> Any:
        """Return a field's IDL type: plain, another interface, or a sequence or array of either."""
        kind, detail = node
        if kind == Nodetype.NAME:
            return self._idl(detail)
        if kind == Nodetype.BASE:
            base, bound = detail
            return types.bounded_str[bound] if base == "string" and bound else _BASE[base]
        inner, size = detail
        element = self._field(inner)
        if kind == Nodetype.ARRAY:
            return types.array[element, size]
        return types.sequence[element, size] if size else types.sequence[element]


def _sample(cls: type[IdlStruct], message: Any, wire: bytes = b"") -> IdlStruct:
    """Return a sample with a message and its bytes, without the fields of the class."""
    sample: Any = cls.__new__(cls)
    sample.message, sample.wire = message, wire
    return sample
