"""Reads ``manifest.json``: its seal, its schema, and the files that it names."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from robo_rl.bundle.manifest import (
    EXPERT_FILE,
    MANIFEST_FILE,
    MODEL_FILE,
    PREFIX_FILE,
    SCHEMA_VERSION,
    Manifest,
)
from robo_rl.core.checksummed_json import unseal
from robo_rl.core.errors import BundleError

EXPORT_AGAIN = "export the policy again, or copy the bundle again from where it was made"

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MAX_MANIFEST_BYTES = 64 << 20


def read_manifest(file: Path) -> bytes:
    """Return the bytes of a manifest.

    Raises:
        BundleError: There is none, or it is too large.
    """
    if not file.is_file():
        raise BundleError(
            "no manifest", where=file, hint="is this the directory of an export bundle?"
        )
    if (size := file.stat().st_size) > _MAX_MANIFEST_BYTES:
        raise BundleError(
            "too large", where=file, expected=f"≤ {_MAX_MANIFEST_BYTES} bytes", found=size
        )
    return file.read_bytes()


def parse_manifest(data: bytes, file: Path) -> Manifest:
    """Return the manifest of these bytes.

    Raises:
        BundleError: They were altered, are of a newer schema, or do not fit the schema; the error
            lists all problems.
    """
    tree = _unseal(data, file)
    version = tree.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise BundleError(
            "written by a newer robo-rl",
            where=f"{file}: schema_version",
            expected=f"at most {SCHEMA_VERSION}",
            found=version,
            hint="update robo-rl on this machine",
        )
    try:
        return Manifest.model_validate(tree)
    except ValidationError as error:
        problems = "".join(map(_problem, error.errors()))
        raise BundleError(
            f"does not fit the schema:{problems}", where=file, hint=f"\n{EXPORT_AGAIN}"
        ) from None


def check_names(names: Collection[str], where: Path) -> None:
    """Check the names of a bundle's files.

    Raises:
        BundleError: A name is not plain, or there is no graph.
    """
    for name in names:
        if name == MANIFEST_FILE or not _PLAIN_NAME.fullmatch(name):
            raise BundleError(
                "files: a file name that is not plain",
                where=where,
                expected="name.ext",
                found=repr(name),
            )
    if MODEL_FILE not in names:
        raise BundleError(
            "files: has no graph", where=where, expected=MODEL_FILE, found=list(names)
        )


def check_split(names: Collection[str], where: Path) -> None:
    """Check that a bundle has both graphs of a split policy, or neither.

    Raises:
        BundleError: It has one of them.
    """
    if len(absent := {PREFIX_FILE, EXPERT_FILE} - {*names}) == 1:
        raise BundleError(
            "files: has one of the two graphs of a split policy",
            where=where,
            expected=f"{PREFIX_FILE} and {EXPERT_FILE}",
            found=f"no {absent.pop()}",
            hint=EXPORT_AGAIN,
        )


def _unseal(data: bytes, file: Path) -> dict[str, Any]:
    try:
        return unseal(data)
    except (ValueError, RecursionError) as error:
        raise BundleError(
            f"was altered after it was written ({error})", where=file, hint=EXPORT_AGAIN
        ) from None


def _problem(item: ErrorDetails) -> str:
    """Return a line about a field: its name, what is expected, and a number that is found."""
    text, found = item["msg"].lower().removeprefix("value error, "), item["input"]
    number = isinstance(found, (int, float)) and "found" not in text
    return f"\n  {'.'.join(map(str, item['loc']))}: {text}{f', found {found}' if number else ''}"
