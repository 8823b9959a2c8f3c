"""One line of what was found, and what to do about it."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Mark(str, Enum):
    """How much it matters; what failed would keep the policy from running, or the robot safe."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class Finding(NamedTuple):
    """What was found.

    Args:
        mark: How much it matters.
        subject: What it is about: a topic, ``policy``, ``clock`` …
        text: What was found.
        remedy: What to do about it, empty where nothing is to be done.
    """

    mark: Mark
    subject: str
    text: str
    remedy: str = ""


def ok(subject: str, text: str) -> Finding:
    """As it should be."""
    return Finding(Mark.OK, subject, text)


def warning(subject: str, text: str, remedy: str) -> Finding:
    """It may run, but not as well, or not as meant."""
    return Finding(Mark.WARNING, subject, text, remedy)


def failed(subject: str, text: str, remedy: str) -> Finding:
    """It must not run like this."""
    return Finding(Mark.FAILED, subject, text, remedy)
