"""An item of numbers of a mapping: elements of a column, their units, and limits.

A robot's own convention may be degrees, or percent of a gripper's range. A change of a share of a
range is the share times the length of the range; a value has the start of the range added.

Shapes: L rows of an episode.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import DataError
from robo_rl.core.spec import TensorSpec
from robo_rl.core.suggestions import did_you_mean
from robo_rl.data.columns.feature import Feature
from robo_rl.data.columns.units import RANGES, SI_UNITS, UNITS

_ANGLE = "rad"

Index = Annotated[int, Field(ge=0)]
Limit = Annotated[float, Field(allow_inf_nan=True)]


class Vector(ConfigModel):
    """An item that is a part of a column of numbers."""

    source: str
    """Column, such as ``observation.state``."""
    elements: tuple[Index, ...] = ()
    """Elements of the column; empty for all."""
    units: tuple[str, ...] = Field(min_length=1)
    """Unit of each element in the file, or one for all: a key of ``UNITS`` or of ``RANGES``."""
    range_of: dict[str, tuple[float, float]] = Field(default_factory=dict)
    """Name of an element in a unit of ``RANGES`` → its SI values at the ends of the range."""
    range_unit: str = _ANGLE
    """SI unit of these elements."""
    names: tuple[str, ...] | None = None
    """New names of the elements, empty for none; null takes those of the file."""
    unit: str = ""
    """SI unit of the item as its spec writes it; empty derives it from ``units``. An element whose
    unit in the file is ``1`` takes any."""
    shape: tuple[Index, ...] | None = None
    """Shape of the item, empty for a single number; null for a vector."""
    frame: str = ""
    """Reference frame of the item."""
    low: tuple[Limit, ...] = ()
    """Lower limits in SI units, ``-.inf`` for an element without; empty for none."""
    high: tuple[Limit, ...] = ()
    """Upper limits in SI units, ``.inf`` for an element without; empty for none."""

    @model_validator(mode="after")
    def _units_exist(self) -> Self:
        for unit in self.units:
            if unit not in (*UNITS, *RANGES):
                hint = did_you_mean(unit, (*UNITS, *RANGES))
                raise ValueError(f"units: no unit '{unit}'; {hint}")
        if self.range_unit not in SI_UNITS:
            hint = did_you_mean(self.range_unit, SI_UNITS)
            raise ValueError(f"range_unit: no SI unit '{self.range_unit}'; {hint}")
        return self

    @model_validator(mode="after")
    def _ranges_are_used(self) -> Self:
        for name, (begin, end) in self.range_of.items():
            if begin == end:
                raise ValueError(f"range_of: both ends of '{name}' are {begin:g}")
        if not set(self.units) & set(RANGES):
            for field, is_set in (
                ("range_of", bool(self.range_of)),
                ("range_unit", self.range_unit != _ANGLE),
            ):
                if is_set:
                    raise ValueError(f"{field}: no unit is {' or '.join(RANGES)}; remove it")
        return self

    @model_validator(mode="after")
    def _limits_are_ordered(self) -> Self:
        for field in ("low", "high"):
            if any(map(math.isnan, getattr(self, field))):
                raise ValueError(f"{field}: expected numbers, found nan")
        for index, (low, high) in enumerate(zip(self.low, self.high, strict=False)):
            if low > high:
                raise ValueError(f"low: {low:g} of element {index} is above its high, {high:g}")
        return self

    def spec(self, feature: Feature) -> TensorSpec:
        """Return the spec of the item.

        Raises:
            DataError: Names, units, ranges, limits or shape do not fit the column.
        """
        file_units = self._units(feature)
        self._demand_ranges(file_units, feature)
        units = [self.range_unit if u in RANGES else UNITS[u][1] for u in file_units]
        shape = self._shape(len(units))
        if math.prod(shape) != len(units) or not units:
            raise self._unfit(f"shape {list(shape)} of {len(units)} elements")
        names = self.names or () if len(shape) > 1 else self._named(feature)
        try:
            return TensorSpec(
                shape=shape,
                unit=self._unit(units, shape),
                frame=self.frame,
                names=names,
                low=self.low,
                high=self.high,
            )
        except ValidationError as error:
            raise self._unfit(error.errors()[0]["msg"]) from None

    def convert(
        self, values: NDArray[Any], feature: Feature, is_delta: Sequence[bool] = (False,)
    ) -> NDArray[np.float32]:
        """Convert rows (L, size of the column) to SI units (L, *shape).

        Args:
            values: Rows of the column.
            feature: The column.
            is_delta: Whether elements of the last axis are changes; one for all, or one of each.

        Raises:
            DataError: An element that is a share of a range has no range.
        """
        chosen = values.reshape(len(values), -1)[:, list(self._elements(feature))]
        units = self._units(feature)
        self._demand_ranges(units, feature)
        changes = tuple(is_delta) * (len(units) // len(is_delta))
        parts = zip(self._element_names(feature), units, changes, strict=True)
        maps = [self._affine(*part) for part in parts]
        shape = len(values), *self._shape(len(maps))
        if chosen.dtype == np.float32 and set(maps) == {(1.0, 0.0)}:
            return chosen.reshape(shape)
        factors, shifts = np.array(maps).T
        return (chosen.astype(np.float64) * factors + shifts).astype(np.float32).reshape(shape)

    def _affine(self, name: str, unit: str, is_change: bool) -> tuple[float, float]:
        """Return factor and shift of an element; a change has no shift."""
        if unit in UNITS:
            return UNITS[unit][0], 0.0
        (low, high), (begin, end) = self.range_of[name], RANGES[unit]
        factor = (high - low) / (end - begin)
        return factor, 0.0 if is_change else low - factor * begin

    def _demand_ranges(self, units: Sequence[str], feature: Feature) -> None:
        """Check that the elements in shares of a range, and no others, have a range."""
        named = zip(self._element_names(feature), units, strict=True)
        shares = [name for name, unit in named if unit in RANGES]
        where = f"mapping: {self.source}"
        for name in shares:
            if name not in self.range_of:
                raise DataError(
                    f"element '{name}' is a share of an unknown range",
                    where=where,
                    hint=f"set range_of: {{{name}: [SI value at one end, SI value at the other]}}",
                )
        for name in self.range_of:
            if name not in shares:
                problem = f"range_of: '{name}' is no element in {' or '.join(RANGES)}"
                raise DataError(problem, where=where, hint=did_you_mean(name, shares))

    def _unit(self, units: list[str], shape: tuple[int, ...]) -> str:
        """Return the unit of the item: one for all elements, or one of each of the last axis."""
        last = shape[-1] if shape else 1
        one = self.unit or (units[0] if len(set(units)) == 1 else ",".join(units[:last]))
        words = one.split(",")
        if len(words) not in (1, last):
            raise self._unfit(f"unit '{one}' for a last axis of {last}")
        told = words * (len(units) // len(words))
        for index, (word, unit) in enumerate(zip(told, units, strict=True)):
            if unit not in ("1", word):
                raise self._unfit(f"unit '{word}' of element {index} in {unit}")
        return one

    def _shape(self, count: int) -> tuple[int, ...]:
        return (count,) if self.shape is None else self.shape

    def _elements(self, feature: Feature) -> tuple[int, ...]:
        return self.elements or tuple(range(feature.size))

    def _element_names(self, feature: Feature) -> list[str]:
        """Return the file's names of the elements, or their numbers."""
        names = feature.element_names
        return [names[i] if names else str(i) for i in self._elements(feature)]

    def _units(self, feature: Feature) -> tuple[str, ...]:
        count = len(self._elements(feature))
        units = self.units * count if len(self.units) == 1 else self.units
        if len(units) != count:
            expected = f"one, or {count}"
            where = f"mapping: {self.source}"
            raise DataError("units", where=where, expected=expected, found=len(units))
        return units

    def _named(self, feature: Feature) -> tuple[str, ...]:
        if self.names is not None:
            return self.names
        names = feature.element_names
        return tuple(names[i] for i in self._elements(feature) if names)

    def _unfit(self, reason: str) -> DataError:
        return DataError(f"does not fit: {reason}", where=f"mapping: {self.source}")
