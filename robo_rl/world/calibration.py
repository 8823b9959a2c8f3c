"""How good probabilities of a yes or no are, and the one number that makes them right.

Shapes: N rows. Labels are bool, probabilities in [0, 1], log-odds their logits; float64 inside.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

_HOTTEST, _HALVINGS = 20.0, 60
"""Temperatures are sought between 1/20 and 20: of data that are told apart without an error the
likeliest is 0, which would call every doubt a certainty."""


def auroc(scores: Tensor, labels: Tensor) -> float:
    """Chance that a row of the one kind has a higher score than one of the other; a tie is a half.

    Mann and Whitney's U over n·m, by mean ranks (Hanley & McNeil 1982, Radiology 143).

    Args:
        scores: (N,).
        labels: (N,), rows of both kinds.
    """
    _, place, counts = torch.unique(scores.double(), return_inverse=True, return_counts=True)
    ranks = (counts.cumsum(0) - 0.5 * (counts - 1))[place]
    positive, negative = int(labels.sum()), int((~labels).sum())
    above = float(ranks[labels].sum()) - 0.5 * positive * (positive + 1)
    return above / (positive * negative)


def calibration_error(probability: Tensor, labels: Tensor, bins: int = 15) -> float:
    """Mean distance of what is said from what is so, over bins of one width, by their rows.

    ECE = Σ_b n_b/N · |share of labels in b − mean probability in b| (Naeini et al. 2015; Guo et
    al. 2017, arXiv 1706.04599, eq. 3, of the probability of yes).

    Args:
        probability: (N,).
        labels: (N,).
        bins: Their number.
    """
    where = (probability.double() * bins).long().clamp(max=bins - 1)
    apart = torch.zeros(bins, dtype=torch.float64)
    apart.index_add_(0, where, labels.double() - probability.double())
    return float(apart.abs().sum()) / len(labels)


def brier(probability: Tensor, labels: Tensor) -> float:
    """Mean squared distance of probabilities (N,) from labels (N,) (Brier 1950)."""
    return float((probability.double() - labels.double()).square().mean())


def correct_prior(balanced: Tensor, temperature: float, prior: float) -> Tensor:
    """Log-odds of classes as frequent as they are, from those of classes as frequent as each other.

    z/T + log π/(1 − π): what was learnt from balanced batches is a log-ratio of likelihoods, so the
    prior is added behind its temperature (Bayes; Guo et al. 2017, arXiv 1706.04599, section 4.2).

    Args:
        balanced: z (…).
        temperature: T.
        prior: Log-odds of the share π of positives.
    """
    return balanced / temperature + prior


def fit_temperature(balanced: Tensor, labels: Tensor, prior: float) -> float:
    """The temperature under which labels are likeliest, within 1/20 and 20.

    The log-loss is convex in β = 1/T: Σ (σ(β·z + b) − y)·z rises with β, and its zero is halved in
    on.

    Args:
        balanced: z (N,), as of ``restored``.
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
    """Log-odds (N,) of the mean probability of members, whose log-odds are (M, N).

    A deep ensemble says the mean (Lakshminarayanan et al. 2017, arXiv 1612.01474), and is
    calibrated as a whole.
    """
    return F.logsigmoid(members).logsumexp(0) - F.logsigmoid(-members).logsumexp(0)


def best_threshold(probability: Tensor, labels: Tensor) -> float:
    """The threshold above which a probability means yes: best mean share of either kind told right.

    Of equally good ones it is the middle of the widest gap; where all say the same, that.

    Args:
        probability: (N,).
        labels: (N,), rows of both kinds.
    """
    found = probability.double().unique()
    if len(found) == 1:
        return float(found)
    cuts = 0.5 * (found[1:] + found[:-1])
    said = probability.double() > cuts[:, None]
    balanced = said[:, labels].double().mean(1) + (~said[:, ~labels]).double().mean(1)
    gaps = torch.where(balanced >= balanced.max() - 1e-9, found.diff(), -1.0)
    return float(cuts[gaps.argmax()])
