"""Tensor specs: name, shape, dtype, unit, frame, limits.

Specs are shared by tasks, datasets, policies, bundles and the robot node, so this module imports
numpy alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, model_validator

from robo_rl.core.errors import SpecError
from robo_rl.core.suggestions import did_you_mean


class TensorSpec(BaseModel):
    """One named tensor, without its batch axis.

    Args:
        shape: Sizes of the axes after the batch axis.
        dtype: numpy's name of the element type.
        unit: SI unit of the elements (``"rad"``, ``"m"``, ``"1"`` for none).
        frame: Reference frame (``"world"``, ``"base"``), empty where none applies.
        names: One name per element of the last axis (joint names); empty where none applies.
        low: Lower limit of each element of the last axis; empty for unlimited.
        high: Upper limit of each element of the last axis; empty for unlimited.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    shape: tuple[int, ...]
    dtype: str = "float32"
    unit: str = "1"
    frame: str = ""
    names: tuple[str, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()

    @model_validator(mode="after")
    def _words_are_ids(self) -> TensorSpec:
        if self.unit == "token" and (self.dtype != "int64" or len(self.shape) != 1):
            raise ValueError(f"a text has one axis of int64, not {self.shape} {self.dtype}")
        return self

    @model_validator(mode="after")
    def _last_axis_agrees(self) -> TensorSpec:
        last = self.shape[-1] if self.shape else 1
        for field in ("names", "low", "high"):
            given = len(getattr(self, field))
            if given not in (0, last):
                raise ValueError(f"{field} has {given} entries for a last axis of {last}")
        return self

    @property
    def size(self) -> int:
        """Return the number of elements without the batch axis."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def num_bytes(self) -> int:
        """Return the size of one array in memory."""
        return self.size * np.dtype(self.dtype).itemsize

    def element(self, index: int) -> str:
        """Return the name of an element of the last axis, or its number."""
        return self.names[index] if self.names else f"element {index}"

    def unit_of(self, index: int) -> str:
        """Return the unit of an element of the last axis after a space; empty for none."""
        units = self.unit.split(",")
        unit = units[index] if len(units) == (self.shape or (1,))[-1] else self.unit
        return "" if unit == "1" else f" {unit}"

    def validate_array(self, name: str, array: Any, *, batch_axes: int = 1) -> None:
        """Check an array or tensor against this spec.

        Args:
            name: Name of the array in the error.
            array: Anything with ``shape`` and ``dtype``; ``batch_axes`` leading axes are free.
            batch_axes: Number of leading axes that the spec does not describe.

        Raises:
            SpecError: Shape or dtype differ.
        """
        shape = tuple(array.shape)
        dtype = str(array.dtype).removeprefix("torch.")
        if shape[batch_axes:] == self.shape and len(shape) >= batch_axes and dtype == self.dtype:
            return
        axes = ", ".join(["B", "T", "…"][:batch_axes] + [str(n) for n in self.shape])
        raise SpecError(
            f"'{name}' does not fit its spec",
            expected=f"({axes}) {self.dtype}",
            found=f"{shape} {dtype}",
        )


class ActSpec(TensorSpec):
    """The action of one env step; the env clips it to ``low`` and ``high``.

    Args:
        reference: ``"absolute"`` targets, or ``"delta"`` from the last command; one word for all
            elements, or one word per element, separated by commas. The three ``"delta"`` angles
            of an end effector are a rotation vector in the base frame.
        rate_hz: Rate at which actions are consumed, in Hz.
    """

    reference: str = "absolute"
    rate_hz: float

    @model_validator(mode="after")
    def _reference_of_each_element(self) -> ActSpec:
        words, last = len(self.reference.split(",")), self.shape[-1] if self.shape else 1
        if words not in (1, last):
            raise ValueError(f"reference has {words} words for a last axis of {last}")
        return self

    @property
    def references(self) -> tuple[str, ...]:
        """Return the reference of each element of the last axis."""
        words, last = self.reference.split(","), self.shape[-1] if self.shape else 1
        return tuple(words * last if len(words) == 1 else words)

    @property
    def is_delta(self) -> tuple[bool, ...]:
        """Return for each element of the last axis whether it is a change of the last command."""
        return tuple(word == "delta" for word in self.references)


TOKEN = "token"
"""Unit of the elements of a text: ids of a tokenizer's words."""


class ObsSpec(BaseModel):
    """The observation: a dict of named tensors, in the order in which networks concatenate them.

    Args:
        items: Name → spec of one tensor.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    items: dict[str, TensorSpec]

    @property
    def size(self) -> int:
        """Return the number of elements of all tensors together."""
        return sum(spec.size for spec in self.items.values())

    @property
    def num_bytes(self) -> int:
        """Return the size of one step's observation in memory."""
        return sum(spec.num_bytes for spec in self.items.values())

    @property
    def image_bytes(self) -> int:
        """Return the size of one step's images."""
        return sum(self.items[name].size for name in self.image_names)

    @property
    def image_names(self) -> tuple[str, ...]:
        """Return the names of the image items: uint8 with three axes."""
        items = self.items.items()
        return tuple(n for n, spec in items if spec.dtype == "uint8" and len(spec.shape) == 3)

    @property
    def word_names(self) -> tuple[str, ...]:
        """Return the names of the texts: items (L,) int64 of unit "token", where -1 is padding."""
        return tuple(name for name, spec in self.items.items() if spec.unit == TOKEN)

    @property
    def vector_names(self) -> tuple[str, ...]:
        """Return the names of all other items."""
        others = {*self.image_names, *self.word_names}
        return tuple(name for name in self.items if name not in others)

    def select(self, names: Iterable[str], where: str) -> ObsSpec:
        """Return the spec of some items, in the order of this spec.

        Args:
            names: Names of the items.
            where: Setting that names them, for the error.

        Raises:
            SpecError: There is no such item.
        """
        wanted = set(names)
        if unknown := sorted(wanted - set(self.items)):
            hint = did_you_mean(unknown[0], self.items)
            raise SpecError(f"no item '{unknown[0]}' in the observation", where=where, hint=hint)
        return ObsSpec(items={name: s for name, s in self.items.items() if name in wanted})

    def validate_obs(self, obs: Mapping[str, Any], *, batch_axes: int = 1) -> None:
        """Check a dict of arrays against the spec.

        Args:
            obs: Name → array with ``batch_axes`` leading free axes.
            batch_axes: See ``TensorSpec.validate_array``.

        Raises:
            SpecError: A key is missing or unknown, or a tensor does not fit.
        """
        if set(obs) != set(self.items):
            raise SpecError(
                "observation keys differ", expected=sorted(self.items), found=sorted(obs)
            )
        for name, spec in self.items.items():
            spec.validate_array(f"obs '{name}'", obs[name], batch_axes=batch_axes)
