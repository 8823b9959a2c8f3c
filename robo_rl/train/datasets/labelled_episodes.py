"""Splits episodes with success labels for a success classifier.

Shapes: N rows of a part, E episodes of it, L rows of an episode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import DataError
from robo_rl.data.dataset import WindowDataset
from robo_rl.data.store.zarr_store import ZarrStore


class SplitFractions(ConfigModel):
    """Fractions of the episodes for calibration and test; the rest is for training."""

    calibration: float = Field(default=0.2, gt=0.0, lt=1.0)
    """Fraction of the episodes for calibration."""
    test: float = Field(default=0.3, gt=0.0, lt=1.0)
    """Fraction of the episodes for the test."""

    @model_validator(mode="after")
    def _some_are_left(self) -> SplitFractions:
        if self.calibration + self.test >= 1.0:
            raise ValueError("calibrate and test leave no episode to learn from")
        return self


class LabelledEpisodes(NamedTuple):
    """A part of the episodes.

    Args:
        data: Their observations.
        lengths: L of each.
        done: (N,) bool, whether a row shows the task done.
        succeeded: (E,) bool.
    """

    data: WindowDataset
    lengths: list[int]
    done: Tensor
    succeeded: Tensor


class Splits(NamedTuple):
    """Three parts, each with both outcomes, and the number of left-out episodes."""

    train: LabelledEpisodes
    calibration: LabelledEpisodes
    test: LabelledEpisodes
    unlabelled: int


def split_episodes(
    store: ZarrStore,
    shares: SplitFractions,
    obs_horizon: int,
    hold: int,
    generator: torch.Generator,
) -> Splits:
    """Split a dataset's episodes, stratified by outcome.

    The task is done in the last ``hold`` rows of an episode that succeeded and terminated. An
    episode that continued after success does not show when it succeeded, and is left out.

    Raises:
        DataError: Observations are not real numbers or not finite, all episodes have one outcome,
            or an outcome has too few episodes.
    """
    check_numeric_obs(store)
    kinds, left_out = _kinds(store)
    dealt = [_dealt(kind, shares, generator) for kind in kinds]
    if not all(part for kind in dealt for part in kind):
        raise DataError(
            "holds too few episodes to learn, calibrate and test by others each",
            where=store.path,
            expected="at least 3 that succeeded and 3 that failed, or as many more as the shares"
            f" {shares.calibration:g} and {shares.test:g} take",
            found=f"{len(kinds[0])} and {len(kinds[1])}",
            hint="mark more episodes",
        )
    good, bad = dealt
    learn, calibrate, test = (
        _part(store, sorted(a + b), obs_horizon, hold) for a, b in zip(good, bad, strict=True)
    )
    return Splits(learn, calibrate, test, left_out)


def map_episodes(
    data: WindowDataset, lengths: Sequence[int], ask: Callable[[dict[str, Tensor]], Tensor]
) -> list[Tensor]:
    """Apply a function to every episode's rows (L,), one episode at a time.

    An episode's result thus does not depend on the other episodes.
    """
    rows = torch.arange(len(data)).split(list(lengths))
    return [ask(data.windows(part).obs) for part in rows]


def check_numeric_obs(store: ZarrStore) -> None:
    """Check that all observations are real numbers.

    Raises:
        DataError: Some are images or other integers; the message names them.
    """
    items = store.obs_spec.items.items()
    others = [f"'{name}' {spec.dtype}" for name, spec in items if "float" not in spec.dtype]
    if others:
        raise DataError(
            "holds observations that a classifier of success cannot see, such as pictures",
            where=store.path,
            expected="real numbers in each",
            found=", ".join(others),
            hint="take a dataset of the same episodes without them",
        )


def _kinds(store: ZarrStore) -> tuple[tuple[list[int], list[int]], int]:
    """Return the indices of terminated successes and of failures, and the number of other episodes.

    Raises:
        DataError: An outcome has no episodes.
    """
    records = store.episodes
    stops = np.cumsum([record.length for record in records], dtype=np.int64)
    ended = store.read(["terminated"])["terminated"][stops - 1]
    good = [i for i, record in enumerate(records) if record.success and ended[i]]
    bad = [i for i, record in enumerate(records) if not record.success]
    left_out = len(records) - len(good) - len(bad)
    if not good or not bad:
        raise DataError(
            "does not show what tells success from failure",
            where=store.path,
            expected="episodes that succeeded, and ended with it, and episodes that failed",
            found=f"{len(good)} and {len(bad)} ({left_out} that succeeded and went on)",
            hint="add and mark episodes of the kind that is missing",
        )
    return (good, bad), left_out


def _dealt(kind: list[int], shares: SplitFractions, generator: torch.Generator) -> list[list[int]]:
    order = [kind[i] for i in torch.randperm(len(kind), generator=generator).tolist()]
    test, calibrate = (max(1, round(x * len(kind))) for x in (shares.test, shares.calibration))
    return [order[test + calibrate :], order[test : test + calibrate], order[:test]]


def _part(store: ZarrStore, among: list[int], obs_horizon: int, hold: int) -> LabelledEpisodes:
    records = [store.episodes[i] for i in among]
    data = WindowDataset(store, obs_horizon, 1, among=set(among))
    lengths = [record.length for record in records]
    succeeded = torch.tensor([record.success for record in records])
    left = torch.cat([torch.arange(length).flip(0) for length in lengths])
    done = (left < hold) & succeeded.repeat_interleave(torch.tensor(lengths))
    return LabelledEpisodes(data, lengths, done, succeeded)
