"""The export bundle that a command line names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from robo_rl.bundle.bundle import Bundle, bundles_below
from robo_rl.bundle.manifest import MANIFEST_FILE
from robo_rl.core.errors import BundleError
from robo_rl.core.suggestions import nearest

BundlePath = Annotated[Path, typer.Argument(help="An export bundle.")]

_SECOND_WORDS = ("check", "latency")
"""Second words of the verbs that begin with ``deploy``."""


def load_bundle(path: Path) -> Bundle:
    """Load the bundle at a path; the error for another path names what was likely meant.

    Raises:
        BundleError: The path is no bundle, or the bundle is damaged.
    """
    try:
        return Bundle.load(path)
    except BundleError as error:
        found = " or ".join(map(str, bundles_below(path)))
        hint = f"name {found}" if found else _verb_like(path)
        if (path / MANIFEST_FILE).exists() or not hint:
            raise
        raise BundleError("is no export bundle", where=path, hint=hint) from error


def _verb_like(path: Path) -> str:
    """Return a hint for a mistyped second word of a verb; empty for any other path."""
    near = nearest(str(path), _SECOND_WORDS) if not path.exists() else None
    return f"did you mean `robo-rl deploy {near}`?" if near else ""
