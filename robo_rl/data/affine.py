"""An affine map between physical and network units, and the modes that fit it to statistics.

``min_max`` maps the range of the data to [-1, 1]. ``quantile`` maps the range without 1 % at either
end. ``standard`` maps mean and standard deviation to 0 and 1. An element that does not vary in the
data keeps scale 1, which avoids division by zero and amplified noise.

A change of the last command (``ActSpec.reference``) has a scale of at least a tenth of its largest
change, in every mode. Demonstrations may hardly turn the hand, and turn it far once: its quantiles
would then put the single turn at hundreds of scales.

``quantile`` keeps outliers out of the scale, also for few rows; π0-FAST uses it for many
(arXiv 2501.09747).

Values beyond the two quantiles lie beyond ±1 and are not clipped, neither in the data nor in a
policy's chain, whose log-probabilities belong to the samples drawn. For actions this means:

- A flow or Gaussian policy is not bounded in network units and learns such actions. The env clips
  them to the limits of the action. An action at distance d has weight d² in a squared loss, so
  actions far outside the limits should be removed from the data. ``policy.clip`` bounds what a flow
  policy predicts where it left the data.
- A diffusion policy clamps its action to ±``clip``, 1 by default. It cannot reach actions beyond
  the quantiles unless ``policy.clip`` and ``policy.sampler.clip`` are raised.
- A policy of tokens takes actions beyond ±1 for the outermost ones. It cannot reach such actions,
  so ``min_max`` is its mode.
- Noise, and bounds of a std in network units, refer to a smaller range. Bounds in control steps
  (``std_unit: step``) do not depend on the range, except for elements that hardly move.

An element with equal quantiles, such as a gripper that rarely closes, is mapped by ``min_max``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from robo_rl.core.errors import ConfigError, DataError, Notice

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

    @classmethod
    def from_meta(cls, meta: Mapping[str, Any]) -> Affine:
        """Rebuild a map from ``to_meta``, equal to the bit."""
        step = torch.tensor(meta["step"]) if "step" in meta else None
        return cls(meta["mode"], torch.tensor(meta["shift"]), torch.tensor(meta["scale"]), step)


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


def check_modes(modes: Mapping[str, str], keys: Iterable[str]) -> None:
    """Check that modes of normalising exist, and their arrays too.

    Raises:
        ConfigError: A mode or an array does not exist.
    """
    known = sorted(keys)
    for key, mode in modes.items():
        if key not in known:
            raise ConfigError("no such array to normalise", where=key, expected=known, found=key)
        if mode not in MODES:
            raise ConfigError("unknown mode of normalising", where=key, expected=MODES, found=mode)


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
