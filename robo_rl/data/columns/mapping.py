"""What columns of other software mean: items, names and cameras, said by a short YAML file.

Files of LeRobot and robomimic hold numbers without units. Nothing is guessed: a mapping names the
unit of every element (``robo_rl.data.columns.vector``).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from robo_rl.config.compose import compose
from robo_rl.config.models import ConfigModel, validate
from robo_rl.core.errors import ConfigError, DataError
from robo_rl.core.images import Crop
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.core.suggestions import did_you_mean
from robo_rl.data.columns.feature import Columns, Feature
from robo_rl.data.columns.vector import Vector
from robo_rl.data.dataset import EXECUTED, INTERVENTION

UNFILLED = "???"
"""Mark of a value that a draft leaves to the user."""


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
    """The action; what a policy clones."""
    act_reference: str
    """``absolute`` or ``delta``, for all elements or by element, separated by commas."""
    executed: Vector | None = None
    """The executed action, where ``act`` is a label; null where they are one."""
    intervention: str = ""
    """Column of flags: whether a human commanded the row; empty for none."""
    success: bool | str
    """Whether all episodes succeeded, or a column of flags."""
    terminated: bool | str = ""
    """Column of flags: the episode ends at the first one set, and later rows are left out. True or
    false: whether the last row terminates. Empty: that of the file, else ``success``."""
    rew: str = ""
    """Column of rewards; empty for zero."""

    @model_validator(mode="after")
    def _references_exist(self) -> Self:
        for word in self.act_reference.split(","):
            if word not in ("absolute", "delta"):
                hint = did_you_mean(word, ("absolute", "delta"))
                raise ValueError(f"act_reference: no reference '{word}'; {hint}")
        return self

    @model_validator(mode="after")
    def _observes_something(self) -> Self:
        if not self.obs and not self.cameras:
            raise ValueError("obs, cameras: at least one item is needed")
        if both := sorted(set(self.obs) & set(self.cameras)):
            raise ValueError(f"cameras: '{both[0]}' is an item of obs, too")
        return self

    @property
    def flags(self) -> tuple[str, ...]:
        """Return the columns of flags."""
        told = (self.success, self.terminated, self.intervention)
        return tuple(name for name in told if isinstance(name, str) and name)

    @property
    def columns(self) -> set[str]:
        """Return the columns that are read."""
        vectors = [*self.obs.values(), self.act, *([self.executed] if self.executed else [])]
        sources = {each.source for each in (*vectors, *self.cameras.values())}
        return sources | set(self.flags) | ({self.rew} if self.rew else set())

    def obs_spec(self, info: Columns) -> ObsSpec:
        """Return the spec of the observation."""
        sources = {**self.obs, **self.cameras}
        specs = {name: each.spec(info.features[each.source]) for name, each in sources.items()}
        return ObsSpec(items=specs)

    def act_spec(self, info: Columns) -> ActSpec:
        """Return the spec of the action.

        Raises:
            DataError: ``act_reference`` has a word too few or too many.
        """
        plain = self.act.spec(info.features[self.act.source]).model_dump()
        try:
            return ActSpec(**plain, reference=self.act_reference, rate_hz=info.rate_hz)
        except ValidationError as error:
            raise DataError(f"act: {error.errors()[0]['msg']}", where="mapping") from None

    def store_columns(self, info: Columns) -> dict[str, TensorSpec]:
        """Return the further columns of the dataset."""
        found: dict[str, TensorSpec] = {}
        if self.executed is not None:
            found[EXECUTED] = self.act_spec(info)
        if self.intervention:
            found[INTERVENTION] = TensorSpec(shape=(), dtype="bool")
        return found

    def check(self, info: Columns) -> None:
        """Check that all columns exist and are of the right kind.

        Raises:
            DataError: One is not; the message names the item and the nearest column.
        """
        vectors = {**{f"obs.{name}": each for name, each in self.obs.items()}, "act": self.act}
        vectors |= {"executed": self.executed} if self.executed else {}
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
        for column in (*self.flags, *([self.rew] if self.rew else [])):
            feature = _feature(info, column, column)
            if feature.size != 1 or feature.dtype == "string":
                raise DataError(f"'{column}' is not one number a row", where="mapping")
        self._check_executed(info)

    def _check_executed(self, info: Columns) -> None:
        """Check that the executed action, which has the spec of the action, fits it."""
        act = self.act_spec(info)
        if self.executed is None:
            return
        own = self.executed.spec(info.features[self.executed.source])
        if (own.shape, own.unit) != (act.shape, act.unit):
            expected, found = (f"{list(each.shape)} in '{each.unit}'" for each in (act, own))
            problem = "executed: does not fit the action"
            raise DataError(problem, where="mapping", expected=expected, found=found)


def read_mapping(file: str | Path) -> Mapping:
    """Read a mapping.

    Raises:
        ConfigError: The file is missing, a ``???`` has no value, or a value does not fit.
    """
    path = Path(file).absolute()
    if not path.is_file():
        hint = "`robo-rl data convert … --explain > FILE` drafts one"
        raise ConfigError("the mapping does not exist", where=file, hint=hint)
    tree = compose(path)
    if unfilled := list(dict.fromkeys(_unfilled(tree.values))):
        missing, hint = f"no value yet: {', '.join(unfilled)}", f"replace every {UNFILLED}"
        raise ConfigError(missing, where=file, hint=hint)
    return validate(tree, Mapping)


def _unfilled(value: Any, key: str = "") -> Iterator[str]:
    """Yield the keys whose values hold ``???``."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _unfilled(each, f"{key}.{name}".lstrip("."))
    elif isinstance(value, list):
        for each in value:
            yield from _unfilled(each, key)
    elif value == UNFILLED:
        yield key


def _feature(info: Columns, item: str, source: str) -> Feature:
    if source in info.features:
        return info.features[source]
    hint = did_you_mean(source, info.measurements)
    raise DataError(f"{item}: the dataset has no column '{source}'", where="mapping", hint=hint)
