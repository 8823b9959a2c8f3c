"""Blank messages that compile a type's serialisation code before the control loop starts.

rosbags generates the code that packs a type when the type is first packed. That takes from 0.1 s to
1.5 s. Packing and reading a blank message, which is never sent, moves this cost to start-up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from rosbags.interfaces import Nodetype
from rosbags.typesys.store import Typestore


def warm_up_type(store: Typestore, name: str) -> None:
    """Pack and read a blank message of that type; nothing is sent."""
    store.deserialize_cdr(store.serialize_cdr(blank_message(store, name), name), name)


def blank_message(store: Typestore, name: str) -> Any:
    """Return a message of zeros, empty strings and empty sequences."""
    fields = {field: _value(store, node) for field, node in store.fielddefs[name][1]}
    return store.types[name](**fields)


def _value(store: Typestore, node: Any) -> Any:
    kind, detail = node
    if kind == Nodetype.NAME:
        return blank_message(store, detail)
    if kind == Nodetype.BASE:
        return {"string": "", "bool": False}.get(detail[0], 0)
    inner, size = detail
    number = size if kind == Nodetype.ARRAY else 0
    if inner[0] == Nodetype.NAME or inner[1][0] == "string":
        return [_value(store, inner) for _ in range(number)]
    return np.zeros(number, _DTYPES.get(inner[1][0], inner[1][0]))


_DTYPES = {"byte": "uint8", "char": "uint8", "octet": "uint8"}
