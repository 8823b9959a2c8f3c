"""Typed user errors: place, problem, expected and found values, and a hint.

The command line prints ``str(error)`` and exits with 2; a traceback is shown only with ``--debug``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from pydantic import ValidationError


class RoboRlError(Exception):
    """Base of every error that a user can cause and can fix.

    Args:
        problem: One clause that states the problem.
        where: File, ``file:line``, array or field concerned.
        expected: The valid value or range.
        found: The actual value.
        hint: How to fix the problem.
    """

    status: ClassVar[int] = 2
    """Exit status of the command line for this error."""

    def __init__(
        self,
        problem: str,
        *,
        where: object = None,
        expected: object = None,
        found: object = None,
        hint: str | None = None,
    ) -> None:
        self.problem, self.where, self.expected = problem, where, expected
        self.found, self.hint = found, hint
        super().__init__(self._sentence())

    def place_within(self, whole: str) -> None:
        """Put the name of what the place is part of, such as a stage, before the place."""
        self.where = whole if self.where is None else f"{whole}: {self.where}"
        self.args = (self._sentence(),)

    def _sentence(self) -> str:
        text = self.problem if self.where is None else f"{self.where}: {self.problem}"
        if self.expected is not None:
            text += f"; expected {self.expected}"
        if self.found is not None:
            text += f"{',' if self.expected is not None else ';'} found {self.found}"
        return text if self.hint is None else f"{text}; {self.hint}"


class ConfigError(RoboRlError):
    """A configuration file or override is invalid."""


class SpecError(RoboRlError):
    """A tensor does not fit its declared name, shape, dtype or limits."""


class PluginError(RoboRlError):
    """No entry point provides a name, or a plugin fails to load or to conform."""


class DataError(RoboRlError):
    """A dataset is missing, damaged or of another schema."""


class CheckpointError(RoboRlError):
    """A checkpoint is missing, damaged, or could not be written."""


class BundleError(RoboRlError):
    """An export bundle is damaged, or its contract does not match."""


class GateError(RoboRlError):
    """The result of a stage did not pass the gate that the next stage requires."""


class ParallelError(RoboRlError):
    """Processes of a parallel run disagree."""


class LostProcessError(ParallelError):
    """Another process of a parallel run is gone; that process reports the cause."""

    status = 4


class DeviceError(RoboRlError):
    """A required device, extra or system library is missing."""


class Notice(UserWarning):
    """Information that needs no action of the user; the command line prints it in one line."""


def first_problem(error: ValidationError, whole: str) -> str:
    """Return the first problem of a validation as "field: problem".

    Args:
        error: The validation's error.
        whole: Name of what was validated, for a problem of no single field.
    """
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or whole}: {first['msg']}"
