"""Collects the problems of a task, one line each: method, place, expected, found, hint.

Shapes: n tried worlds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from robo_rl.config.plugin_fault import display_path, fault_of, format_exception_line, package_of
from robo_rl.core.errors import PluginError, RoboRlError


class Problems:
    """The lines, in the order of discovery.

    Args:
        task: The object given as the task.
    """

    def __init__(self, task: Any) -> None:
        self.task, self.lines = task, list[str]()

    def add_problem(
        self,
        method: str,
        problem: str,
        expected: object = None,
        found: object = None,
        hint: str | None = None,
    ) -> None:
        """Add a line about a method or an attribute."""
        where = self._where(method)
        line = PluginError(problem, where=where, expected=expected, found=found, hint=hint)
        self.lines.append(str(line))

    def call(self, method: str, *args: Any) -> Any:
        """Return the result of a method; if it raises, add a line and return None."""
        try:
            given = getattr(self.task, method)(*args)
        except RoboRlError:
            raise
        except Exception as error:
            self.add_problem(method, f"raises {format_exception_line(error)}{self._place(error)}")
            return None
        if given is None:
            self.add_problem(method, "returns nothing", hint="is a return statement missing?")
        return given

    def finite(self, method: str, what: str, value: Tensor) -> bool:
        """Return whether all of value is finite; add a line if not."""
        bad = int((~torch.isfinite(value)).sum())
        if bad:
            self.add_problem(
                method, what, "finite numbers", f"{bad} of {value.numel()} that are not"
            )
        return not bad

    def report(self) -> None:
        """Raise an error that lists all problems.

        Raises:
            PluginError: There is at least one problem.
        """
        if self.lines:
            raise PluginError("\n".join(dict.fromkeys(self.lines)))

    def _where(self, method: str) -> str:
        kind = self.task if isinstance(self.task, type) else type(self.task)
        where, function = f"task {kind.__name__}, {method}", getattr(self.task, method, None)
        code: Any = getattr(inspect.unwrap(function), "__code__", None) if function else None
        return (
            f"{where} ({display_path(code.co_filename)}:{code.co_firstlineno})" if code else where
        )

    def _place(self, error: Exception) -> str:
        """Return the line that raised, in the task's package if it has a frame."""
        fault = fault_of(error, {package_of(type(self.task))})
        return f" at {fault.place}" if fault else ""


class RowChecks:
    """Checks of a method's results for n worlds.

    Args:
        problems: Collects the lines.
        num: n.
        device: Expected device of tensors.
        other: A second allowed device.
    """

    def __init__(
        self,
        problems: Problems,
        num: int,
        device: torch.device,
        other: torch.device | None = None,
    ) -> None:
        self.problems, self.num, self.device = problems, num, device
        self._devices = {each for each in (device, other) if each is not None}

    def floating(self, method: str, what: str, value: Any, *size: int) -> None:
        """Check that value is finite floating point, (n, *size)."""
        self._demand(method, what, value, size, "floating point", Tensor.is_floating_point)

    def boolean(self, method: str, value: Any) -> None:
        """Check that value is (n,) bool."""
        self._demand(method, "", value, (), "bool", lambda given: given.dtype == torch.bool)

    def fits(self, method: str, what: str, value: Any, size: Sequence[int]) -> None:
        """Check that value is finite and real, (n, *size)."""
        self._demand(method, what, value, size, "numbers", lambda given: not given.is_complex())

    def leading(self, method: str, what: str, value: Any) -> None:
        """Check that value has n rows."""
        if not isinstance(value, Tensor) or value.shape[:1] != (self.num,):
            expected = f"a tensor (B, …) with B = {self.num}"
            self.problems.add_problem(method, _unfit(what), expected, self.describe(value))

    def describe(self, value: Any) -> str:
        """Return shape, dtype and device of a tensor; the type of anything else."""
        if isinstance(value, tuple | list):
            return f"({', '.join(map(self.describe, value))})"
        if not isinstance(value, Tensor):
            return type(value).__name__
        away = "" if value.device in self._devices else f" on {value.device}"
        return f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}{away}"

    def _demand(
        self,
        method: str,
        what: str,
        value: Any,
        size: Sequence[int],
        kind: str,
        right: Callable[[Tensor], bool],
    ) -> None:
        given = value if isinstance(value, Tensor) else None
        if given is None or tuple(given.shape) != (self.num, *size) or not right(given):
            axes = ", ".join(map(str, ("B", *size))) + ("" if size else ",")
            expected = f"({axes}) {kind} with B = {self.num}"
            self.problems.add_problem(method, _unfit(what), expected, self.describe(value))
        elif given.device not in self._devices:
            self.problems.add_problem(
                method, _unfit(what), f"on {self.device}", self.describe(value)
            )
        else:
            self.problems.finite(method, _unfit(what), given)


def _unfit(what: str) -> str:
    return f"{what} does not fit".strip()
