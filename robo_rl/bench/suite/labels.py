"""Labels of tasks and methods, and checks of the labels that a suite refers to."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Annotated

from pydantic import Field

from robo_rl.core.suggestions import did_you_mean

Label = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
"""Label of a task or method, and the name of its folder."""


def unknown_label(where: str, kind: str, name: str, known: Collection[str]) -> Iterator[str]:
    """Yield the problem of a label that is not known."""
    if name not in known:
        yield f"{where}: no {kind} '{name}'; {did_you_mean(name, known)}"
