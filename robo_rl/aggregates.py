"""What several runs prove together, of one task or of many: means, and intervals over seeds.

Of a handful of runs a bootstrap knows too little: that of three cannot leave their range, which
holds the truth three times in four. So runs of one task get Student's interval, no narrower than
their episodes allow, and the bootstrap over tasks is widened by what it lacks. Floor 1: numpy, and
scipy where a quantile is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from robo_rl.stats import Interval, clopper_pearson, wilson

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def student_interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Interval of the mean of runs (n,) that are drawn alike, n ≥ 2; needs scipy.

    Source: Student, Biometrika 6 (1908): mean ± t·s/√n, t of n − 1 degrees of freedom.
    """
    from scipy.special import stdtrit

    x = np.asarray(values, dtype=np.float64)
    half = float(stdtrit(len(x) - 1, (1 + confidence) / 2)) * x.std(ddof=1) / math.sqrt(len(x))
    return Interval(float(x.mean() - half), float(x.mean() + half))


def rate_interval(rates: ArrayLike, episodes: int, confidence: float = 0.95) -> Interval:
    """Interval of the mean success rate of runs of one task; needs scipy.

    Student's knows how runs differ, Wilson's of all their episodes how little an episode says; at
    either end the farther one counts.

    Args:
        rates: (n,) of each run, n ≥ 2.
        episodes: Of all runs together, as many of each.
        confidence: Two-sided.
    """
    x = np.asarray(rates, dtype=np.float64)
    runs = student_interval(x, confidence)
    pooled = wilson(round(float(x.mean()) * episodes), episodes, confidence)
    low = max(0.0, min(runs.low, pooled.low)) if episodes else max(0.0, runs.low)
    high = min(1.0, max(runs.high, pooled.high)) if episodes else min(1.0, runs.high)
    return Interval(low, high)


def widened(interval: Interval, estimate: float, runs: int) -> Interval:
    """A bootstrap interval with the spread that resampling takes from few runs.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), §5.3: the variance of a
        resampled mean is (n − 1)/n of what is estimated without bias; hence √(n/(n − 1)) about the
        estimate, n runs of each task.
    """
    factor = math.sqrt(runs / (runs - 1))
    low, high = (estimate + factor * (end - estimate) for end in interval)
    return Interval(low, high)


def iqm(x: ArrayLike) -> float:
    """Interquartile mean: the mean of what is left without the lowest and the highest quarter.

    Source: Agarwal et al., Deep reinforcement learning at the edge of the statistical precipice,
        NeurIPS 2021; ⌊n/4⌋ values are cut at either end, as their library does.
    """
    ordered = np.sort(np.asarray(x, dtype=np.float64), axis=None)
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def stratified_bootstrap(
    scores: ArrayLike,
    statistic: Callable[[NDArray[Any]], float],
    *,
    reps: int = 2000,
    confidence: float = 0.95,
    generator: np.random.Generator | int = 0,
) -> Interval:
    """Percentile bootstrap interval of a statistic of scores over runs and tasks.

    Args:
        scores: (runs, tasks); a vector is the runs of one task.
        statistic: Of an array like scores, for example ``iqm``.
        reps: Number of resamples.
        confidence: Two-sided.
        generator: Or its seed.

    Source: Agarwal et al. 2021 (see ``iqm``), §4.1: runs are drawn with replacement within
        each task. Of few runs it is too narrow; see ``widened``.
    """
    table, rng = _table(scores), np.random.default_rng(generator)
    return _percentiles([statistic(_redrawn(table, rng)) for _ in range(reps)], confidence)


def probability_of_improvement(new: ArrayLike, ref: ArrayLike) -> float:
    """How likely a run of new beats one of ref on a task drawn at random; a tie counts one half.

    Args:
        new: (runs, tasks); a vector is the runs of one task.
        ref: (runs of its own, tasks), likewise.

    Source: Agarwal et al. 2021 (see ``iqm``), §4.3: the mean over tasks of Mann and Whitney's U
        divided by n·m.
    """
    x, y = (np.asarray(a, dtype=np.float64) for a in (new, ref))
    x, y = x.reshape(len(x), 1, -1), y.reshape(1, len(y), -1)
    return float(((x > y) + 0.5 * (x == y)).mean())


def improvement_interval(
    new: ArrayLike,
    ref: ArrayLike,
    *,
    reps: int = 2000,
    confidence: float = 0.95,
    generator: np.random.Generator | int = 0,
) -> Interval:
    """Bootstrap interval of ``probability_of_improvement``, whose arguments it takes.

    Source: as of ``stratified_bootstrap``; the runs of new and ref are drawn independently, which
        is too wide rather than too narrow where runs of one seed have something in common.
    """
    rng = np.random.default_rng(generator)
    tables = [_table(scores) for scores in (new, ref)]
    drawn = [probability_of_improvement(*(_redrawn(t, rng) for t in tables)) for _ in range(reps)]
    return _percentiles(drawn, confidence)


def improvement_bounds(
    new: ArrayLike, ref: ArrayLike, *, reps: int = 2000, confidence: float = 0.95
) -> Interval:
    """Interval of ``probability_of_improvement`` of few runs, at least two of each.

    Where every run of the one beats every run of the other, no resample says otherwise. All pairs
    without a run in common, min(n, m) a task, fell one way then, and how likely that is gives an
    exact bound (Clopper and Pearson; of several tasks for their mean, since a product of
    probabilities is at most that of their mean). Else it is the bootstrap, widened.
    """
    tables = [_table(scores) for scores in (new, ref)]
    value, runs = probability_of_improvement(*tables), min(len(table) for table in tables)
    if value in (0.0, 1.0):
        pairs = runs * tables[0].shape[1]
        return clopper_pearson(pairs if value else 0, pairs, confidence)
    found = widened(improvement_interval(*tables, reps=reps, confidence=confidence), value, runs)
    return Interval(max(0.0, found.low), min(1.0, found.high))


def _table(scores: ArrayLike) -> NDArray[Any]:
    """(runs, tasks); a vector is the runs of one task."""
    table = np.asarray(scores, dtype=np.float64)
    return table.reshape(len(table), -1)


def _redrawn(table: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """Runs drawn with replacement within each task."""
    return np.take_along_axis(table, rng.integers(len(table), size=table.shape), axis=0)


def _percentiles(drawn: list[float], confidence: float) -> Interval:
    """The middle of what was drawn."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Interval(float(low), float(high))
