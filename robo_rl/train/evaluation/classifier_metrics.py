"""Metrics of a success classifier: per row, per episode, and against labels.

Shapes: E episodes, L rows of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from robo_rl.stats.reported import reported_rate
from robo_rl.world.calibration import auroc, brier, calibration_error

_RESAMPLES = 500


def row_metrics(log_odds: Sequence[Tensor], done: Sequence[Tensor]) -> dict[str, Any]:
    """Return AUROC, ECE and Brier score of rows, and the Brier score of the constant base rate.

    Args:
        log_odds: E of (L,).
        done: E of (L,) bool, with rows of both classes.
    """
    every = torch.cat(list(done))
    share = every.double().mean().expand(len(every))
    measures: dict[str, Callable[[Tensor, Tensor], float]] = {
        "auroc": auroc,
        "ece": lambda x, y: calibration_error(x.sigmoid(), y),
        "brier": lambda x, y: brier(x.sigmoid(), y),
    }
    found = {name: _measured(measure, log_odds, done) for name, measure in measures.items()}
    return {**found, "brier_of_the_share": brier(share, every)}


def episode_metrics(marked: Tensor, told: Tensor) -> dict[str, Any]:
    """Return recall, specificity, and precision if any success is predicted; (E,) bool each."""
    found = {
        "recall": reported_rate(int((marked & told).sum()), int(marked.sum())),
        "specificity": reported_rate(int((~marked & ~told).sum()), int((~marked).sum())),
    }
    if bool(told.any()):
        found["precision"] = reported_rate(int((marked & told).sum()), int(told.sum()))
    return found


def label_agreement(marked: Tensor, told: Tensor) -> dict[str, Any]:
    """Return the agreement of predicted with given labels, (E,) bool each, and the counts."""
    return {
        "agreement": reported_rate(int((marked == told).sum()), len(marked)),
        "both_succeeded": int((marked & told).sum()),
        "only_marked": int((marked & ~told).sum()),
        "only_labelled": int((~marked & told).sum()),
        "neither": int((~marked & ~told).sum()),
    }


def _measured(
    measure: Callable[[Tensor, Tensor], float], log_odds: Sequence[Tensor], done: Sequence[Tensor]
) -> dict[str, Any]:
    """Return a row metric with a basic bootstrap interval over episodes, stratified by outcome.

    The interval is 2θ − q of the resamples' quantiles (Davison & Hinkley 1997, eq. 5.6). It is
    clipped to [0, 1] and contains the value. The ECE of resamples is larger than that of the rows,
    a bias that percentiles would keep. The width is 0 if every row is classified correctly.
    """

    def of(chosen: Sequence[int]) -> float:
        return measure(
            torch.cat([log_odds[i] for i in chosen]), torch.cat([done[i] for i in chosen])
        )

    value, rng = of(range(len(done))), np.random.default_rng(0)
    shown = np.array([bool(each.any()) for each in done])
    kinds = [np.flatnonzero(shown), np.flatnonzero(~shown)]
    drawn = [
        of(np.concatenate([rng.choice(kind, len(kind)) for kind in kinds]).tolist())
        for _ in range(_RESAMPLES)
    ]
    high, low = (2.0 * value - q for q in np.quantile(drawn, [0.025, 0.975]))
    ends = {"low": min(value, max(0.0, float(low))), "high": max(value, min(1.0, float(high)))}
    return {"value": value, **ends, "n": len(done), "unit": "1"}
