"""Statistics of the arrays of a dataset, from which normalisers are made.

Shapes: N rows of all episodes together, A act_dim.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from robo_rl.core.spec import ActSpec

QUANTILES = 0.01, 0.99
"""Quantiles that bound a range robust to outliers."""

MIN_DELTA_SHARE = 0.1
"""Least scale of a delta action, as a share of its largest change."""


class KeyStats(NamedTuple):
    """Element-wise statistics of one array over all rows, float64, each of the shape of one row.

    ``names`` are the elements of the last axis, empty if unnamed. ``quantiles`` are those at
    ``QUANTILES``, empty if unknown. ``step`` is the typical change between neighbouring rows of an
    episode, see ``typical_step``; None if unknown. ``min_scale`` is a lower bound of the scale of
    normalised values, 0 for none; None for an array without any.
    """

    low: Tensor
    high: Tensor
    mean: Tensor
    std: Tensor
    names: tuple[str, ...] = ()
    quantiles: tuple[Tensor, ...] = ()
    step: Tensor | None = None
    min_scale: Tensor | None = None

    @property
    def quantile_range(self) -> tuple[Tensor, Tensor]:
        """The range between the quantiles, or the full range if they are unknown."""
        low, high = self.quantiles or (self.low, self.high)
        return low, high

    def widened(self, rows: Tensor) -> KeyStats:
        """Return ranges that also span these rows (N, *row shape); mean and std are unchanged."""
        rows = rows.double()
        low, high = self.low.minimum(rows.amin(0)), self.high.maximum(rows.amax(0))
        (inner_low, inner_high), (rows_low, rows_high) = self.quantile_range, _quantiles(rows)
        inner = inner_low.minimum(rows_low), inner_high.maximum(rows_high)
        return self._replace(low=low, high=high, quantiles=inner)


class Stats(NamedTuple):
    """Key (``obs.<name>``, ``act``) → statistics, and the digest of their data.

    With ``relative_to`` the statistics of ``act`` are those of displacements from that observation.
    """

    keys: dict[str, KeyStats]
    digest: str
    relative_to: str = ""

    def completed(self, obs: Mapping[str, Tensor]) -> Stats:
        """Return statistics also of the other vectors among observations, (N, *row shape) each."""
        other = {
            f"obs.{name}": key_stats(rows, ())
            for name, rows in obs.items()
            if rows.is_floating_point() and f"obs.{name}" not in self.keys
        }
        return self._replace(keys={**self.keys, **other})

    def widened(self, obs: Mapping[str, Tensor]) -> Stats:
        """Return ranges that also span these observations, name → (N, *row shape)."""
        seen = {f"obs.{name}": rows for name, rows in obs.items()}
        keys = {
            key: stats.widened(seen[key]) if key in seen else stats
            for key, stats in self.keys.items()
        }
        return self._replace(keys=keys)


def key_stats(rows: Tensor, names: tuple[str, ...]) -> KeyStats:
    """Return the statistics of rows (N, *row shape) with these names of the last axis."""
    rows = rows.double()
    std = rows.std(dim=0, correction=0)
    low, high = rows.amin(dim=0), rows.amax(dim=0)
    return KeyStats(low, high, rows.mean(dim=0), std, names, _quantiles(rows))


def typical_step(rows: Tensor, last: Tensor, is_delta: Tensor | None = None) -> Tensor | None:
    """Return the typical change of each element in one control step, float64, (*row shape).

    It is √3 times the root mean square of x[t+1] − x[t] within episodes: the half range of a
    uniform law with that root mean square. Delta actions of the same data would be normalised by
    about this range. A gripper that jumps in few rows does not count with its whole jump. For an
    element that is a change already, the change is its value.

    Args:
        rows: (N, *row shape), of all episodes.
        last: (N,) int64, the last row of each row's episode.
        is_delta: (*row shape) bool, elements that are changes of the last command; None for none.

    Returns:
        The change; None if no episode has two rows.
    """
    goes_on = last[1:] == last[:-1]
    change = rows.double().diff(dim=0)[goes_on]
    if not len(change):
        return None
    if is_delta is not None:
        change = torch.where(is_delta, rows.double()[1:][goes_on], change)
    return (3.0 * change.square().mean(dim=0)).sqrt()


def _quantiles(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return quantiles at existing rows, inwards: interpolation would let an outlier move them."""
    there, (low, high) = rows.cpu().numpy(), QUANTILES
    found = (
        np.quantile(there, low, axis=0, method="higher"),
        np.quantile(there, high, axis=0, method="lower"),
    )
    return torch.as_tensor(found[0]).to(rows.device), torch.as_tensor(found[1]).to(rows.device)


def min_delta_scale(spec: ActSpec) -> Tensor | None:
    """Return the lower bound of an action's scale (A,): a share of the largest change.

    A change of an axis that hardly moves in the data is mostly noise, which its own range or
    quantiles would amplify. The limits of a change say what is little. Targets and unlimited
    changes have no bound.
    """
    if not (any(spec.is_delta) and spec.low and spec.high):
        return None
    half = (torch.tensor(spec.high) - torch.tensor(spec.low)).double() / 2
    bounded = torch.tensor(spec.is_delta) & half.isfinite()
    return torch.where(bounded, MIN_DELTA_SHARE * half, 0.0)
