"""An affine map between physical and network units, and the modes that fit it to statistics.

``robo_rl.data.normalize`` describes the modes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from robo_rl.core.errors import DataError, Notice

if TYPE_CHECKING:
    from robo_rl.data.statistics import KeyStats

CONSTANT = 1e-6
"""Relative range below which float32 cannot distinguish variation from rounding."""


class Affine(nn.Module):
    """x ↦ (x − shift) / scale, both of the shape of one row, float32.

    ``step`` is the typical change of x in one control step, in physical units; None if unknown. It
    is no part of the state dict, as older policies have none.
    """

    shift: Tensor
    scale: Tensor
    step: Tensor | None

    def __init__(self, mode: str, shift: Tensor, scale: Tensor, step: Tensor | None = None) -> None:
        super().__init__()
        self.mode = mode
        self.register_buffer("shift", shift.float())
        self.register_buffer("scale", scale.float())
        self.register_buffer("step", None if step is None else step.float(), persistent=False)

    def to_meta(self) -> dict[str, Any]:
        """Return mode and numbers as JSON values."""
        step = {} if self.step is None else {"step": self.step.tolist()}
        numbers = {"shift": self.shift.tolist(), "scale": self.scale.tolist()}
        return {"mode": self.mode, **numbers, **step}


def fit_affine(key: str, mode: str, stats: KeyStats) -> Affine:
    """Return the map of an array with these statistics; ``mode`` is one of ``MODES``.

    Raises:
        DataError: A statistic is not finite.
    """
    if not all(bool(part.isfinite().all()) for part in (*stats[:4], *stats.quantile_range)):
        raise DataError("statistics are not finite", where=key, hint="verify the dataset")
    shift, scale = _MAPS[mode](stats)
    least = torch.zeros_like(scale) if stats.min_scale is None else stats.min_scale
    magnitude = torch.maximum(stats.low.abs(), stats.high.abs()).clamp_min(1.0)
    constant = ((stats.high - stats.low) <= CONSTANT * magnitude) & (least == 0)
    if constant.any():
        _warn_constant(key, constant, stats.names)
    return Affine(mode, shift, torch.where(constant, 1.0, scale).maximum(least), stats.step)


def _min_max(stats: KeyStats) -> tuple[Tensor, Tensor]:
    return (stats.high + stats.low) / 2, (stats.high - stats.low) / 2


def _quantile(stats: KeyStats) -> tuple[Tensor, Tensor]:
    low, high = stats.quantile_range
    wide = (high - low) > CONSTANT * torch.maximum(low.abs(), high.abs()).clamp_min(1.0)
    shift, scale = _min_max(stats)
    return torch.where(wide, (high + low) / 2, shift), torch.where(wide, (high - low) / 2, scale)


_MAPS: dict[str, Callable[[KeyStats], tuple[Tensor, Tensor]]] = {
    "min_max": _min_max,
    "quantile": _quantile,
    "standard": lambda stats: (stats.mean, stats.std),
}
MODES = tuple(_MAPS)
"""Modes of normalisation."""


def _warn_constant(key: str, constant: Tensor, names: tuple[str, ...]) -> None:
    places = constant.nonzero().tolist()
    if len(names) == constant.shape[-1:].numel() and names:
        listed = [names[place[-1]] for place in places]
    else:
        listed = [str(place[0] if len(place) == 1 else tuple(place)) for place in places]
    shown = ", ".join(listed[:20]) + (" …" if len(listed) > 20 else "")
    warnings.warn(
        f"'{key}' does not vary in the data and is left unscaled in: {shown}", Notice, stacklevel=4
    )
