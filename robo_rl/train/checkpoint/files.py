"""Atomic checkpoints of safetensors and sealed JSON, without pickle.

    ckpt/000123/tensors.safetensors   all tensors
    ckpt/000123/meta.json             sealed: schema version, SHA-256 of the tensors, other data

A checkpoint is written to a temporary directory, flushed, read back and compared. Then it is
renamed (``core/atomic_files.py``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from robo_rl.core.atomic_files import find_directory, staged_directory
from robo_rl.core.checksummed_json import seal, unseal
from robo_rl.core.errors import CheckpointError
from robo_rl.train.checkpoint.pytree import unshared

SCHEMA_VERSION = 1
TENSORS_FILE = "tensors.safetensors"
META_FILE = "meta.json"


class Checkpoint(NamedTuple):
    """Tensors by name, on the CPU, and the JSON that was saved with them."""

    tensors: dict[str, Tensor]
    meta: dict[str, Any]


def save(path: Path, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> Path:
    """Write a checkpoint durably and read it back.

    Args:
        path: Its directory; an existing checkpoint is replaced atomically.
        tensors: Tensors by name, on any device.
        meta: JSON values to save with them.

    Raises:
        CheckpointError: It cannot be written, or reads back different. The old checkpoint remains.
    """
    path = Path(path)
    try:
        with staged_directory(path) as stage:
            _write(stage, tensors, meta)
            load(stage)
    except CheckpointError as error:
        raise CheckpointError(f"could not be saved: {error}", where=path, hint=_KEPT) from error
    except OSError as error:
        problem = f"could not be saved: {error.strerror or error}"
        raise CheckpointError(problem, where=error.filename or path, hint=_KEPT) from error
    return path


def load(path: Path) -> Checkpoint:
    """Read a checkpoint and verify every byte.

    Raises:
        CheckpointError: It is missing, damaged, of a newer schema, or not a checkpoint. The message
            names the file.
    """
    path = find_directory(Path(path))
    doc = _read_meta(path / META_FILE)
    tensors = _read_tensors(path / TENSORS_FILE, doc)
    return Checkpoint(tensors, doc["meta"])


_KEPT = "nothing was replaced, the checkpoint before is still good; free space or check permissions"


def _write(stage: Path, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> None:
    try:
        data = safetensors.torch.save(unshared(tensors))
        doc = {
            "schema": SCHEMA_VERSION,
            "tensors": {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)},
            "meta": meta,
        }
        sealed = seal(doc, indent=1)
    except (SafetensorError, TypeError, ValueError, KeyError) as error:
        raise CheckpointError(f"cannot be stored: {error}") from error
    (stage / TENSORS_FILE).write_bytes(data)
    (stage / META_FILE).write_bytes(sealed)


def _read_meta(file: Path) -> dict[str, Any]:
    if not file.is_file():
        there = file.parent.exists()
        raise CheckpointError(
            "is no checkpoint" if there else "does not exist",
            where=file.parent,
            expected=f"a directory with {META_FILE} and {TENSORS_FILE}",
            found=f"no {META_FILE}" if there else "nothing",
        )
    try:
        doc = unseal(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"unreadable: {error}", where=file, hint=_GO_BACK) from None
    if doc.get("schema") != SCHEMA_VERSION:
        raise CheckpointError(
            "is of another schema",
            where=file,
            expected=f"version {SCHEMA_VERSION}",
            found=doc.get("schema"),
            hint="a newer robo-rl wrote it: update this one",
        )
    if not isinstance(doc.get("tensors"), dict) or not isinstance(doc.get("meta"), dict):
        raise CheckpointError("lacks fields", where=file, expected="tensors, meta", found=list(doc))
    return doc


def _read_tensors(file: Path, doc: Mapping[str, Any]) -> dict[str, Tensor]:
    try:
        size, expected = file.stat().st_size, doc["tensors"].get("bytes")
        if size != expected:
            raise CheckpointError(
                "is truncated or was changed",
                where=file,
                expected=f"{expected} bytes",
                found=f"{size} bytes",
                hint=_GO_BACK,
            )
        data = file.read_bytes()
    except OSError as error:
        raise CheckpointError(
            f"cannot be read: {error.strerror}", where=file, hint=_GO_BACK
        ) from None
    digest = hashlib.sha256(data).hexdigest()
    if digest != doc["tensors"].get("sha256"):
        raise CheckpointError(
            "is damaged: its SHA-256 is not the one that was saved", where=file, hint=_GO_BACK
        )
    try:
        return safetensors.torch.load(data)
    except (SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise CheckpointError(f"is no safetensors file: {error}", where=file) from None


_GO_BACK = "use an earlier checkpoint, or take it from a copy"
