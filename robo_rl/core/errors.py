"""The typed errors a user can meet: the place, what was expected and found, and what to do.

The command line prints ``str(error)`` and exits with 2; a traceback is shown only with ``--debug``.
"""

from __future__ import annotations

from typing import ClassVar


class RoboRlError(Exception):
    """Base of every error that a user can cause and can mend.

    Args:
        problem: One clause: what is wrong.
        where: File, ``file:line``, array or field that it is about.
        expected: What would have been right.
        found: What was there instead.
        hint: What to do about it.
    """

    status: ClassVar[int] = 2
    """Exit status of a command line that it ends."""

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

    def _sentence(self) -> str:
        text = self.problem if self.where is None else f"{self.where}: {self.problem}"
        if self.expected is not None:
            text += f"; expected {self.expected}"
        if self.found is not None:
            text += f"{',' if self.expected is not None else ';'} found {self.found}"
        return text if self.hint is None else f"{text}; {self.hint}"


class ConfigError(RoboRlError):
    """A configuration file or override that cannot be used."""


class SpecError(RoboRlError):
    """A tensor that does not fit its declared name, shape, dtype or limits."""


class PluginError(RoboRlError):
    """A name that no entry point provides, or a plugin that fails to load or to conform."""


class DataError(RoboRlError):
    """A dataset that is missing, damaged or of another schema."""


class CheckpointError(RoboRlError):
    """A checkpoint that is missing, damaged, or that could not be written."""


class BundleError(RoboRlError):
    """An export bundle that is damaged or whose contract does not match."""


class GateError(RoboRlError):
    """A stage whose result did not pass the gate that the next stage requires."""


class ParallelError(RoboRlError):
    """Processes that do not do the same."""


class LostProcessError(ParallelError):
    """Another process of a run is gone; what ended that one is said there."""

    status = 4


class DeviceError(RoboRlError):
    """A device, extra or system library that is needed and not there."""


class Notice(UserWarning):
    """What a user should know and need not mend; the command line says it in one line."""
