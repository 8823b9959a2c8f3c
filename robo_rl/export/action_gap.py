"""How far two versions of the same actions are apart, each action measured by its own range.

Shapes: B rows, H horizon, A act_dim.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from robo_rl.bundle.manifest import NumericParity
from robo_rl.core.spec import ActSpec

SHARE_LIMIT = 5e-5
"""Largest difference, as a share of an action's range: 1e-4 where that is −1 to 1."""
_WIDE = 20.0
"""Limits that are so many times wider than what a policy makes use of say nothing of its range."""


class ActGap(NamedTuple):
    """The action that differs most, by the share of its range.

    Args:
        name: Of the action.
        unit: Of all that follows; empty for none.
        max_abs: Largest difference.
        span: Its range: between its limits, at most ``_WIDE`` times what the policy makes use of.
        scale: What the policy's normaliser takes for one, half a range; None where it has none.
        rows: Observations that were compared.
    """

    name: str
    unit: str
    max_abs: float
    span: float
    scale: float | None
    rows: int

    @property
    def share(self) -> float:
        """The difference as a share of the range."""
        return self.max_abs / self.span

    @property
    def record(self) -> NumericParity:
        """As the manifest has it; NaN does not pass."""
        return NumericParity(max_abs=self.max_abs, limit=SHARE_LIMIT * self.span, rows=self.rows)

    @property
    def scale_is_off(self) -> bool:
        """Whether the two agree by the normaliser's scale, which is wider than the range."""
        agree = self.scale is not None and self.max_abs <= SHARE_LIMIT * 2.0 * self.scale
        return agree and not self.record.passed

    def __str__(self) -> str:
        gap, span = f"{self.max_abs:.3g}{self.unit}", f"{self.span:.3g}{self.unit}"
        return (
            f"'{self.name}' differs by {gap}, {self.share:.2g} of its range of {span};"
            f" at most {SHARE_LIMIT:g} of it may"
        )


def widest_gap(
    pairs: Iterable[tuple[Tensor, Tensor]], spec: ActSpec, scale: Tensor | None
) -> ActGap:
    """Compare batches of actions.

    Args:
        pairs: Policy's and graph's, each (B, H, A).
        spec: Of the actions.
        scale: (A,) of the policy's normaliser, if it has one.
    """
    gap, rows = torch.zeros(spec.size), 0
    low, high = torch.full_like(gap, torch.inf), torch.full_like(gap, -torch.inf)
    for ours, theirs in pairs:
        gap = gap.maximum((ours - theirs).abs().amax(dim=(0, 1)).cpu())
        low = low.minimum(ours.amin(dim=(0, 1)).cpu())
        high = high.maximum(ours.amax(dim=(0, 1)).cpu())
        rows += len(ours)
    used = high - low if scale is None else torch.maximum(high - low, 2.0 * scale.cpu())
    spans = _spans(spec, used)
    worst = int((gap / spans).argmax())
    return ActGap(
        spec.element(worst),
        spec.unit_of(worst),
        float(gap[worst]),
        float(spans[worst]),
        None if scale is None else float(scale[worst]),
        rows,
    )


def _spans(spec: ActSpec, used: Tensor) -> Tensor:
    """Range (A,) of each action: between its limits, unless these are far beyond what is used."""
    if not (spec.low and spec.high):
        limits = torch.full_like(used, torch.inf)
    else:
        limits = torch.tensor(spec.high) - torch.tensor(spec.low)
    known = limits.isfinite() & (limits > 0)
    widest = torch.where(used > 0, _WIDE * used, torch.inf)
    return torch.where(known, limits.minimum(widest), torch.where(used > 0, used, 1.0))
