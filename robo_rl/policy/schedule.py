"""Config numbers that change over training.

A field of a type such as ``Positive`` takes ``0.1`` or ``{start: 0.24, end: 0.2, hold: 0.35}``.
``at_progress`` replaces schedules by their values at one moment of training. Samplers built from
the result need no time.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self, TypeVar, cast

from pydantic import Discriminator, Field, Tag, ValidationError, model_validator

from robo_rl.config.models import ConfigModel

_Config = TypeVar("_Config", bound=ConfigModel)


class Schedule(ConfigModel):
    """A value from ``start`` to ``end`` over training; it stays at ``start`` for share ``hold``.

    ReinFlow's ``learn_decay`` of σ_max (arXiv 2505.22094, appendix) is ``hold: 0.35`` and a cosine
    to ``end`` = 0.3·σ_min + 0.7·σ_max.
    """

    start: float
    """Value at the start of training."""
    end: float
    """Value at the end of training."""
    hold: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Share of training at the start with the constant value ``start``."""
    shape: Literal["cosine", "linear"] = "cosine"
    """Shape of the curve from ``start`` to ``end``."""

    def value_at(self, progress: float) -> float:
        """Return the value at this share of training, in [0, 1]."""
        share = min(max((progress - self.hold) / (1.0 - self.hold), 0.0), 1.0)
        if self.shape == "cosine":
            share = 0.5 * (1.0 - math.cos(math.pi * share))
        return self.start + (self.end - self.start) * share


def _kind(value: Any) -> str:
    return "schedule" if isinstance(value, dict | Schedule) else "number"


_Schedule = Annotated[Schedule, Tag("schedule")]
_BY_KIND = Discriminator(_kind)

# Numbers within limits, or schedules with values within these limits.
NonNegative = Annotated[Annotated[float, Field(ge=0.0), Tag("number")] | _Schedule, _BY_KIND]
Positive = Annotated[Annotated[float, Field(gt=0.0), Tag("number")] | _Schedule, _BY_KIND]
Share = Annotated[Annotated[float, Field(ge=0.0, le=1.0), Tag("number")] | _Schedule, _BY_KIND]
PositiveShare = Annotated[
    Annotated[float, Field(gt=0.0, le=1.0), Tag("number")] | _Schedule, _BY_KIND
]
ShareBelowOne = Annotated[
    Annotated[float, Field(ge=0.0, lt=1.0), Tag("number")] | _Schedule, _BY_KIND
]


class Scheduled(ConfigModel):
    """Base of a config with numbers that may be schedules; checks them over all of training."""

    @model_validator(mode="after")
    def _is_valid_all_the_way(self) -> Self:
        for percent in range(101) if is_scheduled(self) else ():
            try:
                at_progress(self, percent / 100)
            except ValidationError as error:
                problem = error.errors()[0]
                where = ".".join(str(key) for key in problem["loc"][:1])
                text = f"{where} {problem['msg'].removeprefix('Value error, ')}".strip()
                raise ValueError(f"when {percent} % of training is done: {text}") from error
        return self


def is_scheduled(cfg: ConfigModel) -> bool:
    """Whether any number of the config is a schedule."""
    return any(isinstance(value, Schedule) for _, value in cfg)


def at_progress(cfg: _Config, progress: float) -> _Config:
    """The config with every schedule replaced by its value at this share of training."""
    if not is_scheduled(cfg):
        return cfg
    now = {
        name: value.value_at(progress) if isinstance(value, Schedule) else value
        for name, value in cfg
    }
    return cast(_Config, type(cfg).model_validate(now))


def start_value(value: float | Schedule) -> float:
    """Return the number, or the start of a schedule."""
    return value.start if isinstance(value, Schedule) else value
