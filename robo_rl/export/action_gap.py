"""Largest difference between two versions of the same actions, relative to each action's range.

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
"""Largest allowed difference, as a fraction of an action's range: 1e-4 for a range of −1 to 1."""
_WIDE = 20.0
"""Limits wider than this multiple of the used range do not define an action's range."""


class ActGap(NamedTuple):
    """The action with the largest difference relative to its range.

    Args:
        name: Name of the action.
        unit: Unit of the values below; empty for none.
        max_abs: Largest absolute difference.
        span: Range of the action: between its limits, at most ``_WIDE`` times the used range.
        scale: Scale of the policy's normaliser, half a range; None without a normaliser.
        rows: Number of compared observations.
    """

    name: str
    unit: str
    max_abs: float
    span: float
    scale: float | None
    rows: int

    @property
    def share(self) -> float:
        """The difference as a fraction of the range."""
        return self.max_abs / self.span

    @property
    def record(self) -> NumericParity:
        """The record for the manifest; NaN does not pass."""
        return NumericParity(max_abs=self.max_abs, limit=SHARE_LIMIT * self.span, rows=self.rows)

    @property
    def scale_is_off(self) -> bool:
        """Whether the difference passes by the normaliser's scale but not by the range."""
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
    """Compare batches of actions and return the largest relative difference.

    Args:
        pairs: Actions of the policy and of the graph, each (B, H, A).
        spec: Spec of the actions.
        scale: (A,) scale of the policy's normaliser; None without one.
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
    """Return the range (A,) of each action: between its limits, unless these are far too wide."""
    if not (spec.low and spec.high):
        limits = torch.full_like(used, torch.inf)
    else:
        limits = torch.tensor(spec.high) - torch.tensor(spec.low)
    known = limits.isfinite() & (limits > 0)
    widest = torch.where(used > 0, _WIDE * used, torch.inf)
    return torch.where(known, limits.minimum(widest), torch.where(used > 0, used, 1.0))
