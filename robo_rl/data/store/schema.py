"""Schema of a demonstration store, and its files on disk.

    demos.zarr/zarr.json            root group; its attributes are the ``StoreSchema``
    demos.zarr/obs/<name>/          one array per observation: zarr.json, c.0.0, c.1.0, …
    demos.zarr/{act,rew,terminated,truncated,<column>}/
    demos.zarr/commits.jsonl        one sealed line per episode; other rows do not count
    demos.zarr/commits.quarantine.jsonl   episodes that ``repair`` removed, with the reason

Every ``zarr.json`` holds sealed JSON in its attributes, so that a changed byte is detected.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from robo_rl.core.checksummed_json import unseal
from robo_rl.core.errors import DataError, first_problem
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.core.suggestions import is_array_name

FORMAT = "robo-rl/episodes"
VERSION = 1
METADATA_FILE = "zarr.json"

_DTYPES = {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"}
_MAX_CHUNK_BYTES = 1 << 30


class StoreSchema(BaseModel):
    """All properties of a store that never change.

    Args:
        obs_spec: Observation of one step.
        act_spec: Action of one step.
        columns: Further per-step columns by name.
        chunk_rows: Rows per chunk; every episode begins a new chunk.
        meta: Task, robot and origin of the data, without clock times, since it is part of the
            digest.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: str = FORMAT
    version: int = VERSION
    obs_spec: ObsSpec
    act_spec: ActSpec
    columns: dict[str, TensorSpec] = {}
    chunk_rows: int = Field(default=128, ge=1, le=1 << 20)
    meta: dict[str, JsonValue] = {}

    @property
    def arrays(self) -> dict[str, TensorSpec]:
        """Key → spec of every array; the key of observation ``name`` is ``obs.name``."""
        flag = TensorSpec(shape=(), dtype="bool")
        obs = {f"obs.{name}": spec for name, spec in self.obs_spec.items.items()}
        fixed = {"act": self.act_spec, "rew": TensorSpec(shape=())}
        return {**obs, **fixed, "terminated": flag, "truncated": flag, **self.columns}

    @model_validator(mode="after")
    def _names_and_sizes_are_sane(self) -> StoreSchema:
        for name in [*self.obs_spec.items, *self.columns]:
            if not is_array_name(name):
                raise ValueError(f"{name!r} cannot name an array: letters, digits, _ and - only")
        reserved = {"obs", "act", "rew", "terminated", "truncated", "success", "seed", "meta"}
        if taken := reserved & set(self.columns):
            raise ValueError(f"column names {sorted(taken)} are taken")
        for key, spec in self.arrays.items():
            _check_size(key, spec, self.chunk_rows)
        return self


def array_path(root: Path, key: str) -> Path:
    """Return the directory of an array."""
    return root / "obs" / key[len("obs.") :] if key.startswith("obs.") else root / key


def refuse_link(path: Path) -> None:
    """Check that a path of a store is no link, which could lead a writer to files elsewhere.

    Raises:
        DataError: It is one.
    """
    if path.is_symlink():
        hint = "put a file or folder of the store itself in its place"
        raise DataError("is a link", where=path, expected="no link in a store", hint=hint)


def align_up(rows: int, chunk_rows: int) -> int:
    """Return the first chunk boundary at or after ``rows``."""
    return -(-rows // chunk_rows) * chunk_rows


def read_schema(root: Path) -> StoreSchema:
    """Read and check the schema of a store.

    Raises:
        DataError: It is not a store, is damaged, or has a newer version.
    """
    file = root / METADATA_FILE
    attributes = _attributes(file, root)
    _check_version(attributes, file)
    try:
        return StoreSchema.model_validate(attributes)
    except ValidationError as error:
        problem = first_problem(error, "schema")
        raise DataError(f"unusable schema: {problem}", where=file) from None


def read_metadata(file: Path) -> dict[str, Any]:
    """Read a sealed ``zarr.json``.

    Raises:
        DataError: It is missing or damaged.
    """
    try:
        return unseal(file.read_bytes(), within="attributes")
    except FileNotFoundError:
        raise DataError("file is missing", where=file, hint=REPAIR_HINT) from None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"unreadable: {error}", where=file, hint=REPAIR_HINT) from None


REPAIR_HINT = "run `robo-rl data verify` on the store to see all damage, `data repair` to mend it"


def _attributes(file: Path, root: Path) -> Mapping[str, Any]:
    if not file.is_file():
        raise DataError(
            "is not a demonstration store",
            where=root,
            expected=f"a directory with {METADATA_FILE} and commits.jsonl",
            found="no such directory" if not root.exists() else f"no {METADATA_FILE}",
            hint="collect one with `robo-rl collect`",
        )
    try:
        return unseal(file.read_bytes(), within="attributes")["attributes"]
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(
            f"the root metadata of the store is unreadable: {error}",
            where=file,
            expected="a group written by robo-rl",
            hint="the schema lives in this file alone: take it from a copy of the store",
        ) from None


def _check_version(attributes: Mapping[str, Any], file: Path) -> None:
    if attributes.get("format") != FORMAT:
        found = attributes.get("format", "no format")
        raise DataError("is of another format", where=file, expected=FORMAT, found=found)
    version = attributes.get("version")
    if version != VERSION:
        newer = isinstance(version, int) and version > VERSION
        raise DataError(
            "is of a newer schema" if newer else "is of an unknown schema",
            where=file,
            expected=f"version {VERSION}",
            found=version,
            hint="update robo-rl" if newer else None,
        )


def _check_size(key: str, spec: TensorSpec, chunk_rows: int) -> None:
    if spec.dtype not in _DTYPES:
        raise ValueError(f"{key}: dtype {spec.dtype!r} is none of {sorted(_DTYPES)}")
    if any(n < 1 for n in spec.shape) or len(spec.shape) > 8:
        raise ValueError(f"{key}: shape {spec.shape} is not usable")
    elements = chunk_rows
    for n in spec.shape:
        elements *= n
    if elements * np.dtype(spec.dtype).itemsize > _MAX_CHUNK_BYTES:
        raise ValueError(f"{key}: a chunk of {(chunk_rows, *spec.shape)} is over 1 GiB")
