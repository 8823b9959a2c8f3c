"""JSON with damage detection: a document that carries the SHA-256 of its own bytes.

The seal stands at the front, so that any changed byte — white space and the seal itself included —
is found without parsing an untrusted document. It guards against damage, not against forgery.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Any, cast

_BLANK = b"0" * 64
_AT_FRONT = r'\A\{{\s*{within}"seal": "([0-9a-f]{{64}})"'


def seal(doc: Mapping[str, Any], *, within: str = "", indent: int | None = None) -> bytes:
    """Write a document as sealed JSON.

    JSON has no infinite numbers and no NaN: they become the strings ``"inf"``, ``"-inf"`` and
    ``"nan"``, which ``float`` and pydantic read back.

    Args:
        doc: JSON-able mapping without a key ``"seal"``.
        within: Name of a mapping in ``doc`` that takes the seal, for formats that allow no
            additional keys at the top; empty for the top itself.
        indent: As in ``json.dumps``; None keeps it on one line.

    Returns:
        UTF-8 bytes without a final newline.

    Raises:
        TypeError: A value is not JSON-able.
    """
    mark = {"seal": _BLANK.decode()}
    sealed = (
        {within: {**mark, **doc[within]}, **_without(doc, within)} if within else {**mark, **doc}
    )
    data = json.dumps(_finite(sealed), indent=indent, allow_nan=False, ensure_ascii=False).encode()
    return data.replace(_BLANK, hashlib.sha256(data).hexdigest().encode(), 1)


def unseal(data: bytes, *, within: str = "") -> dict[str, Any]:
    """Read the output of ``seal``, without the seal.

    Raises:
        ValueError: The seal is missing, or a byte has changed.
    """
    front = rf'"{re.escape(within)}": \{{\s*' if within else ""
    found = re.match(_AT_FRONT.format(within=front).encode(), data)
    if found is None:
        raise ValueError("no seal at the front of it" if data else "it is empty")
    blank = data[: found.start(1)] + _BLANK + data[found.end(1) :]
    if hashlib.sha256(blank).hexdigest().encode() != found[1]:
        raise ValueError("its content does not match its seal")
    doc: dict[str, Any] = json.loads(data)
    del (doc[within] if within else doc)["seal"]
    return doc


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in cast("list[Any]", value)]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _without(doc: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in doc.items() if name != key}
