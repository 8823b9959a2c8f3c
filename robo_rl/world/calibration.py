"""Metrics and calibration of binary probabilities.

Shapes: N rows. Labels are bool, probabilities in [0, 1], log-odds their logits; float64 inside.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

_HOTTEST, _HALVINGS = 20.0, 60
"""Search range of the temperature, 1/20 to 20, and number of bisections.

For data that are separated without error, the most likely temperature is 0, which would make every
probability 0 or 1.
"""


def auroc(scores: Tensor, labels: Tensor) -> float:
    """Probability that a positive row has a higher score than a negative row; a tie counts ½.

    Mann and Whitney's U over n·m, by mean ranks (Hanley & McNeil 1982, Radiology 143).

    Args:
        scores: (N,).
        labels: (N,), with rows of both classes.
    """
    _, place, counts = torch.unique(scores.double(), return_inverse=True, return_counts=True)
    ranks = (counts.cumsum(0) - 0.5 * (counts - 1))[place]
    positive, negative = int(labels.sum()), int((~labels).sum())
    above = float(ranks[labels].sum()) - 0.5 * positive * (positive + 1)
    return above / (positive * negative)


def calibration_error(probability: Tensor, labels: Tensor, bins: int = 15) -> float:
    """Expected calibration error over bins of equal width, weighted by their rows.

    ECE = Σ_b n_b/N · |share of labels in b − mean probability in b| (Naeini et al. 2015; Guo et al.
    2017, arXiv 1706.04599, eq. 3, for the probability of the positive class).

    Args:
        probability: (N,).
        labels: (N,).
        bins: Number of bins.
    """
    where = (probability.double() * bins).long().clamp(max=bins - 1)
    apart = torch.zeros(bins, dtype=torch.float64)
    apart.index_add_(0, where, labels.double() - probability.double())
    return float(apart.abs().sum()) / len(labels)


def brier(probability: Tensor, labels: Tensor) -> float:
    """Mean squared distance of probabilities (N,) from labels (N,) (Brier 1950)."""
    return float((probability.double() - labels.double()).square().mean())


def correct_prior(balanced: Tensor, temperature: float, prior: float) -> Tensor:
    """Correct the log-odds of a classifier trained on balanced classes by the true class prior.

    z/T + log π/(1 − π). A classifier trained on balanced batches learns a log-likelihood ratio. The
    prior is added after the temperature (Bayes; Guo et al. 2017, arXiv 1706.04599, section 4.2).

    Args:
        balanced: z (…).
        temperature: T.
        prior: Log-odds of the share π of positives.
    """
    return balanced / temperature + prior


def fit_temperature(balanced: Tensor, labels: Tensor, prior: float) -> float:
    """Return the maximum-likelihood temperature, within 1/20 and 20.

    The log-loss is convex in β = 1/T. Its derivative Σ (σ(β·z + b) − y)·z rises with β, and
    bisection finds its zero.

    Args:
        balanced: z (N,), as in ``correct_prior``.
        labels: y (N,).
        prior: b.
    """
    z, y = balanced.double(), labels.double()
    low, high = 1.0 / _HOTTEST, _HOTTEST
    for _ in range(_HALVINGS):
        beta = (low * high) ** 0.5
        slope = float(((torch.sigmoid(beta * z + prior) - y) * z).sum())
        low, high = (low, beta) if slope > 0.0 else (beta, high)
    return (low * high) ** -0.5


def ensemble_log_odds(members: Tensor) -> Tensor:
    """Log-odds (N,) of the members' mean probability, from the members' log-odds (M, N).

    A deep ensemble predicts the mean (Lakshminarayanan et al. 2017, arXiv 1612.01474), and is
    calibrated as a whole.
    """
    return F.logsigmoid(members).logsumexp(0) - F.logsigmoid(-members).logsumexp(0)


def best_threshold(probability: Tensor, labels: Tensor) -> float:
    """Return the probability threshold with the best balanced accuracy.

    Among equally good thresholds it is the middle of the widest gap. If all probabilities are
    equal, it is that probability.

    Args:
        probability: (N,).
        labels: (N,), with rows of both classes.
    """
    found = probability.double().unique()
    if len(found) == 1:
        return float(found)
    cuts = 0.5 * (found[1:] + found[:-1])
    said = probability.double() > cuts[:, None]
    balanced = said[:, labels].double().mean(1) + (~said[:, ~labels]).double().mean(1)
    gaps = torch.where(balanced >= balanced.max() - 1e-9, found.diff(), -1.0)
    return float(cuts[gaps.argmax()])
