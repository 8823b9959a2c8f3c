"""The result of one check, with its remedy."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Severity(str, Enum):
    """Severity of a result; ``failed`` means that the policy could not run, or not safely."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class CheckResult(NamedTuple):
    """The result of a check.

    Args:
        severity: Severity.
        subject: Subject of the check: a topic, ``policy``, ``clock`` …
        text: Finding.
        remedy: What to do about it; empty if nothing is to be done.
    """

    severity: Severity
    subject: str
    text: str
    remedy: str = ""


def ok(subject: str, text: str) -> CheckResult:
    """Return a result without a problem."""
    return CheckResult(Severity.OK, subject, text)


def warning(subject: str, text: str, remedy: str) -> CheckResult:
    """Return a warning: the policy can run, but worse than intended."""
    return CheckResult(Severity.WARNING, subject, text, remedy)


def failed(subject: str, text: str, remedy: str) -> CheckResult:
    """Return a failure: the policy must not run."""
    return CheckResult(Severity.FAILED, subject, text, remedy)
