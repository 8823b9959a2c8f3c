"""A column of a dataset of other software: type, shape and names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict

PICTURES = ("video", "image")
"""Types of columns of images."""

CHANNELS = (1, 3)
"""Numbers of channels of an image: grey or colour."""


def has_channels(shape: tuple[int, ...]) -> bool:
    """Return whether a shape is that of an image, with the channels first or last."""
    return len(shape) == 3 and bool({shape[0], shape[2]} & {*CHANNELS})


class Feature(BaseModel):
    """One column of the dataset; other fields of the file are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    dtype: str
    shape: tuple[int, ...]
    names: Any = None

    @property
    def size(self) -> int:
        """Return the number of elements of a row."""
        return math.prod(self.shape)

    @property
    def is_picture(self) -> bool:
        """Return whether its rows are images."""
        return self.dtype in PICTURES

    @property
    def sides(self) -> tuple[int, int]:
        """Return the height and width of an image."""
        height, width = self.shape[:2] if self.shape[2] in CHANNELS else self.shape[1:]
        return height, width

    @property
    def element_names(self) -> tuple[str, ...]:
        """Return one name per element of a vector; empty where the file names none."""
        names = self.names
        if isinstance(names, dict):  # {"motors": ["shoulder_pan.pos", …]}
            names = next(iter(names.values()), None)
        if self.is_picture or not isinstance(names, list) or len(names) != self.size:
            return ()
        return tuple(map(str, names))


class Columns(Protocol):
    """What a dataset says of its columns."""

    @property
    def features(self) -> Mapping[str, Feature]:
        """Column → its type and shape."""
        ...

    @property
    def measurements(self) -> Mapping[str, Feature]:
        """The columns that are measurements, without those of row numbers and times."""
        ...

    @property
    def rate_hz(self) -> float:
        """Rows per second."""
        ...

    @property
    def robot_type(self) -> str | None:
        """Name of the robot."""
        ...

    @property
    def about(self) -> str:
        """A line about the dataset."""
        ...
