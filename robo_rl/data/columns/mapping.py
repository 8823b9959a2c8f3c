"""What columns of other software mean: units, names and cameras, said by a short YAML file.

Files of LeRobot and robomimic hold numbers without units. A robot's own convention may be degrees,
or percent of a gripper's range. Nothing is guessed: a mapping names the unit of every element.

Shapes: L rows, n elements of an item.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from robo_rl.config.compose import compose
from robo_rl.config.models import ConfigModel, validate
from robo_rl.core.errors import DataError
from robo_rl.core.images import Crop
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.core.suggestions import did_you_mean
from robo_rl.data.columns.feature import Columns, Feature

UNITS = {
    "rad": (1.0, "rad"),
    "deg": (math.pi / 180.0, "rad"),
    "m": (1.0, "m"),
    "cm": (0.01, "m"),
    "mm": (0.001, "m"),
    "1": (1.0, "1"),
}
"""Unit of a file → (factor to SI, SI unit); ``percent`` needs a range."""

PERCENT = "percent"


class Vector(ConfigModel):
    """An item that is a part of a column of numbers."""

    source: str
    """Column, such as ``observation.state``."""
    elements: tuple[int, ...] = ()
    """Elements of the column; empty for all."""
    units: tuple[str, ...] = Field(min_length=1)
    """Unit of each element in the file, or one for all: rad, deg, m, cm, mm, 1, percent."""
    percent_of: dict[str, tuple[float, float]] = Field(default_factory=dict)
    """Name of an element in percent → its values at 0 and at 100 %, in SI units."""
    percent_unit: str = "rad"
    """SI unit of the elements in percent."""
    names: tuple[str, ...] = ()
    """New names of the elements; empty for those of the file."""

    @model_validator(mode="after")
    def _units_exist(self) -> Self:
        for unit in self.units:
            if unit not in (*UNITS, PERCENT):
                raise ValueError(f"units: {did_you_mean(unit, (*UNITS, PERCENT))}")
        return self

    def spec(self, feature: Feature) -> TensorSpec:
        """Return the spec of the item."""
        units = [self.percent_unit if u == PERCENT else UNITS[u][1] for u in self._units(feature)]
        one = units[0] if len(set(units)) == 1 else ",".join(units)
        return TensorSpec(shape=(len(units),), unit=one, names=self._named(feature))

    def convert(self, values: NDArray[Any], feature: Feature) -> NDArray[np.float32]:
        """Convert rows (L, size of the column) to SI units (L, n).

        Raises:
            DataError: An element in percent has no range.
        """
        chosen = values.reshape(len(values), -1)[:, list(self._elements(feature))]
        out = chosen.astype(np.float64)
        for column, unit in enumerate(self._units(feature)):
            factor, shift = self._affine(column, unit, feature)
            out[:, column] = out[:, column] * factor + shift
        exact = chosen.dtype == np.float32 and set(self.units) <= {"rad", "m", "1"}
        return chosen if exact else out.astype(np.float32)

    def _affine(self, column: int, unit: str, feature: Feature) -> tuple[float, float]:
        if unit != PERCENT:
            return UNITS[unit][0], 0.0
        names = tuple(feature.element_names)
        index = self._elements(feature)[column]
        name = names[index] if names else str(index)
        if name not in self.percent_of:
            raise DataError(
                f"element '{name}' is in percent, of an unknown range",
                where=f"mapping: {self.source}",
                hint=f"set percent_of: {{{name}: [value at 0 %, value at 100 %]}}",
            )
        low, high = self.percent_of[name]
        return (high - low) / 100.0, low

    def _elements(self, feature: Feature) -> tuple[int, ...]:
        return self.elements or tuple(range(feature.size))

    def _units(self, feature: Feature) -> tuple[str, ...]:
        count = len(self._elements(feature))
        units = self.units * count if len(self.units) == 1 else self.units
        if len(units) != count:
            raise DataError(
                "units",
                where=f"mapping: {self.source}",
                expected=f"one, or {count}",
                found=len(units),
            )
        return units

    def _named(self, feature: Feature) -> tuple[str, ...]:
        names = feature.element_names
        return self.names or tuple(names[i] for i in self._elements(feature) if names)


class Picture(ConfigModel):
    """An item that is a camera."""

    source: str
    """Column, such as ``observation.images.front``."""
    width: int = Field(ge=8, le=4096)
    """Width of the item in pixels."""
    height: int = Field(ge=8, le=4096)
    """Height of the item in pixels."""
    crop: Crop | None = None
    """Part of the image that is used: top, left, height, width."""

    def spec(self, feature: Feature) -> TensorSpec:
        """Return the spec of the item, channels first."""
        del feature
        return TensorSpec(shape=(3, self.height, self.width), dtype="uint8")


class Mapping(ConfigModel):
    """Items of the observation, the action, and outcomes."""

    obs: dict[str, Vector] = Field(default_factory=dict)
    """Item of numbers → its source."""
    cameras: dict[str, Picture] = Field(default_factory=dict)
    """Item of images → its source."""
    act: Vector
    """The action."""
    act_reference: str = "absolute"
    """``absolute`` or ``delta``, for all elements or by element."""
    act_low: tuple[float, ...] = ()
    """Lower limits of the action in SI units; empty for none."""
    act_high: tuple[float, ...] = ()
    """Upper limits of the action in SI units; empty for none."""
    success: bool | str
    """Whether all episodes succeeded, or a column that says so."""
    rew: str = ""
    """Column of rewards; empty for zero."""

    @model_validator(mode="after")
    def _observes_something(self) -> Self:
        if not self.obs and not self.cameras:
            raise ValueError("obs, cameras: at least one item is needed")
        if both := sorted(set(self.obs) & set(self.cameras)):
            raise ValueError(f"cameras: '{both[0]}' is an item of obs, too")
        return self

    @property
    def columns(self) -> set[str]:
        """Return the columns that are read."""
        told = [each for each in (self.success, self.rew) if isinstance(each, str) and each]
        vectors = [each.source for each in (*self.obs.values(), self.act)]
        return {*vectors, *(each.source for each in self.cameras.values()), *told}

    def obs_spec(self, info: Columns) -> ObsSpec:
        """Return the spec of the observation."""
        sources = {**self.obs, **self.cameras}
        specs = {name: each.spec(info.features[each.source]) for name, each in sources.items()}
        return ObsSpec(items=specs)

    def act_spec(self, info: Columns) -> ActSpec:
        """Return the spec of the action."""
        plain = self.act.spec(info.features[self.act.source])
        return ActSpec(
            **plain.model_dump(exclude={"low", "high"}),
            low=self.act_low,
            high=self.act_high,
            reference=self.act_reference,
            rate_hz=info.rate_hz,
        )

    def check(self, info: Columns) -> None:
        """Check that all columns exist and are of the right kind.

        Raises:
            DataError: One is not; the message names the item and the nearest column.
        """
        vectors = {**{f"obs.{name}": each for name, each in self.obs.items()}, "act": self.act}
        for item, vector in vectors.items():
            feature = _feature(info, item, vector.source)
            if feature.is_picture or feature.dtype == "string":
                raise DataError(f"{item}: '{vector.source}' holds no numbers", where="mapping")
            if max(vector.elements, default=0) >= feature.size:
                expected = f"elements below {feature.size}"
                raise DataError(f"{item}: elements", where="mapping", expected=expected)
            vector.spec(feature)
        for name, picture in self.cameras.items():
            if not _feature(info, f"cameras.{name}", picture.source).is_picture:
                raise DataError(f"cameras.{name}: '{picture.source}' is no camera", where="mapping")
        for item, column in (("success", self.success), ("rew", self.rew)):
            if isinstance(column, str) and column:
                _feature(info, item, column)


def read_mapping(file: str | Path) -> Mapping:
    """Read a mapping.

    Raises:
        ConfigError: The file is missing, or a value does not fit; all problems are listed.
    """
    return validate(compose(file), Mapping)


def _feature(info: Columns, item: str, source: str) -> Feature:
    if source in info.features:
        return info.features[source]
    hint = did_you_mean(source, info.measurements)
    raise DataError(f"{item}: the dataset has no column '{source}'", where="mapping", hint=hint)
