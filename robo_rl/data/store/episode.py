"""Checks an episode against the schema and lays it out in rows.

Shapes: L steps of an episode.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue, ValidationError

from robo_rl.core.errors import DataError, SpecError
from robo_rl.core.labels import as_label
from robo_rl.core.spec import TensorSpec
from robo_rl.data.store.commits import EpisodeRecord
from robo_rl.data.store.schema import StoreSchema, align_up

_SAID_OF_IT = {"success", "seed", "meta"}


class CheckedEpisode(NamedTuple):
    """A checked episode: key → (L, …) for every array of the schema, and its labels."""

    rows: dict[str, NDArray[Any]]
    success: bool
    seed: int | None
    meta: dict[str, JsonValue]

    @property
    def length(self) -> int:
        """Number of steps L."""
        return len(self.rows["act"])


def check_episode(schema: StoreSchema, episode: Mapping[str, Any]) -> CheckedEpisode:
    """Check an episode and convert it to rows.

    Args:
        schema: Schema of the target store.
        episode: As in ``ZarrStore.extend``; arrays or tensors.

    Raises:
        DataError: It does not fit the schema, is empty, has a non-finite value, ends before its
            last row, or its success is not a boolean.
    """
    rows = _columns(schema, episode)
    length = len(rows["act"]) if rows["act"].ndim else 0
    if not length:
        raise DataError("episode has no steps", where="act", expected="(L, A) with L > 0")
    for key, spec in schema.arrays.items():
        _check_column(key, rows[key], spec, length)
    if (end := first_early_end(rows)) is not None:
        key, row = end
        hint = "cut the episode there, and begin another one behind it"
        raise DataError(f"'{key}' before the last row", where=f"row {row}", hint=hint)
    seed, meta = episode.get("seed"), dict(episode.get("meta") or {})
    return CheckedEpisode(
        rows, _success(episode["success"]), None if seed is None else int(seed), meta
    )


def lay_out(blocks: Sequence[CheckedEpisode], start: int, chunk_rows: int) -> list[EpisodeRecord]:
    """Assign rows to each episode from ``start`` on, each at a chunk boundary."""
    records: list[EpisodeRecord] = []
    for block in blocks:
        start = align_up(start, chunk_rows)
        records.append(_record(block, start))
        start += block.length
    return records


def pad_to_chunks(rows: Sequence[NDArray[Any]], chunk_rows: int) -> NDArray[Any]:
    """Concatenate parts to whole chunks; each begins at a chunk boundary after zero padding."""
    padded = [align_up(len(part), chunk_rows) for part in rows]
    out = np.zeros((sum(padded), *rows[0].shape[1:]), rows[0].dtype)
    start = 0
    for part, size in zip(rows, padded, strict=True):
        out[start : start + len(part)] = part
        start += size
    return out


def hash_rows(rows: Mapping[str, NDArray[Any]]) -> str:
    """Return the SHA-256 of the rows of an episode, array by array."""
    content = hashlib.sha256()
    for key in sorted(rows):
        content.update(key.encode() + b"\0")
        content.update(np.ascontiguousarray(rows[key]).data)
    return content.hexdigest()


def _record(block: CheckedEpisode, start: int) -> EpisodeRecord:
    try:
        return EpisodeRecord(
            start=start,
            length=block.length,
            success=block.success,
            seed=block.seed,
            meta=block.meta,
            sha256=hash_rows(block.rows),
        )
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise DataError(f"cannot be recorded: {first['msg']}", where=field) from None


def _columns(schema: StoreSchema, episode: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    fields = {key: value for key, value in episode.items() if key not in {"obs", *_SAID_OF_IT}}
    obs: Mapping[str, Any] = episode.get("obs", {})
    fields |= {f"obs.{name}": value for name, value in obs.items()}
    wanted = {*schema.arrays, "success"}
    found = set(fields) | ({"success"} & set(episode))
    if found != wanted:
        raise DataError(
            "fields of the episode differ from the schema",
            where=", ".join(sorted(found ^ wanted)),
            expected=sorted(wanted),
            found=sorted(found),
        )
    return {key: _as_array(value) for key, value in fields.items()}


def _check_column(key: str, rows: NDArray[Any], spec: TensorSpec, length: int) -> None:
    try:
        spec.validate_array(key, rows)
    except SpecError as error:
        raise DataError(
            f"'{key}' does not fit the schema", expected=error.expected, found=error.found
        ) from None
    if len(rows) != length:
        raise DataError(f"'{key}' differs in length", expected=f"{length} rows", found=len(rows))
    if (row := first_not_finite(rows)) is not None:
        raise DataError(f"'{key}' is not finite", where=f"row {row}", found=rows[row].tolist())


def first_early_end(rows: Mapping[str, NDArray[Any]]) -> tuple[str, int] | None:
    """Return the flag that is set before the last row, and its row; None without one."""
    for key in ("terminated", "truncated"):
        if rows[key][:-1].any():
            return key, int(np.argmax(rows[key]))
    return None


def first_not_finite(rows: NDArray[Any]) -> int | None:
    """Return the first row with a NaN or infinity; None without one."""
    if not np.issubdtype(rows.dtype, np.floating):
        return None
    good = np.isfinite(rows).reshape(len(rows), -1).all(axis=1)
    return None if good.all() else int(np.argmin(good))


def _success(value: Any) -> bool:
    try:
        return as_label(value)
    except ValueError as error:
        raise DataError(f"success of an episode: {error}", expected="True or False") from None


def _as_array(value: Any) -> NDArray[Any]:
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
