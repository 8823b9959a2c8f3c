"""One line of what was found, and what to do about it."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Severity(str, Enum):
    """How much it matters; what failed would keep the policy from running, or the robot safe."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class CheckResult(NamedTuple):
    """What was found.

    Args:
        severity: How much it matters.
        subject: What it is about: a topic, ``policy``, ``clock`` …
        text: What was found.
        remedy: What to do about it, empty where nothing is to be done.
    """

    severity: Severity
    subject: str
    text: str
    remedy: str = ""


def ok(subject: str, text: str) -> CheckResult:
    """As it should be."""
    return CheckResult(Severity.OK, subject, text)


def warning(subject: str, text: str, remedy: str) -> CheckResult:
    """It may run, but not as well, or not as meant."""
    return CheckResult(Severity.WARNING, subject, text, remedy)


def failed(subject: str, text: str, remedy: str) -> CheckResult:
    """It must not run like this."""
    return CheckResult(Severity.FAILED, subject, text, remedy)
