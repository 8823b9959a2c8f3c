"""Measures that a suite compares: success rate, or growth of the return.

Shapes: tables of scores are (seeds, tasks).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from robo_rl.bench.suite.curves import Point, pooled_returns, pooled_success
from robo_rl.bench.suite.formatting import NOTHING, format_number, percent
from robo_rl.report.charts import ChartAxis, linear_axis
from robo_rl.stats.across_runs import rate_interval, student_interval
from robo_rl.stats.intervals import Interval
from robo_rl.train.evaluation.evaluate import Measure as Name

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ScoreMeasure(Protocol):
    """A measure of policies, with its scores, intervals and text.

    Args:
        score: Name of the compared score, which is computed from the measured values.
        columns: Column names of ``table_cells``.
        is_rate: Whether it is a fraction of episodes; only rates have thresholds and degradation.
    """

    score: str
    columns: tuple[str, ...]
    is_rate: bool

    def score_of(self, after: float, before: float | None) -> float | None:
        """Return the score from the values after and before training; None if undefined."""
        ...

    def interval(self, table: NDArray[Any], episodes: int) -> Interval:
        """Return the 95 % interval of the mean score; ``episodes`` counts the distinct ones."""
        ...

    def clip(self, interval: Interval) -> Interval:
        """Clip an interval to the possible scores."""
        ...

    def pooled_curve(self, points: Sequence[Point], window: int) -> list[float]:
        """Return the measure along a curve."""
        ...

    def axis(self, values: Sequence[float]) -> ChartAxis:
        """Return the vertical axis for such curves."""
        ...

    def format_value(self, value: float | None) -> str:
        """Format the value of a policy."""
        ...

    def table_cells(
        self, after: float | None, score: float | None, low: float | None, high: float | None
    ) -> tuple[str, ...]:
        """Return the cells of a table row; the last two are the score and its interval."""
        ...

    def format_difference(self, difference: float) -> str:
        """Format the difference of two scores."""
        ...


class SuccessMeasure:
    """Success rate; see ``ScoreMeasure``."""

    score, columns, is_rate = "success", ("success", "95 % interval"), True

    def score_of(self, after: float, before: float | None) -> float:
        """Return the success rate after training."""
        del before
        return after

    def interval(self, table: NDArray[Any], episodes: int) -> Interval:
        """Return an interval at least as wide as that of the number of episodes."""
        return rate_interval(table, episodes)

    def clip(self, interval: Interval) -> Interval:
        """Clip to [0, 1]."""
        return Interval(max(0.0, interval.low), min(1.0, interval.high))

    def pooled_curve(self, points: Sequence[Point], window: int) -> list[float]:
        """Return the success rate of the latest episodes."""
        return pooled_success(points, window)

    def axis(self, values: Sequence[float]) -> ChartAxis:
        """Return the axis from 0 to 1."""
        del values
        return ChartAxis(0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0))

    def format_value(self, value: float | None) -> str:
        """Format in per cent."""
        return percent(value)

    def table_cells(
        self, after: float | None, score: float | None, low: float | None, high: float | None
    ) -> tuple[str, ...]:
        """Return the rate and its interval in per cent."""
        del after
        if low is None or high is None:
            return percent(score), NOTHING
        return percent(score), f"[{100 * low:.1f}, {100 * high:.1f}]"

    def format_difference(self, difference: float) -> str:
        """Format in percentage points."""
        return f"{100 * difference:+.1f} points"


class ReturnMeasure:
    """Growth of the mean return over that of the initial policy, in per cent of its size."""

    score, columns, is_rate = "growth", ("after", "growth", "95 % interval"), False

    def score_of(self, after: float, before: float | None) -> float | None:
        """Return the growth; None if the return before is unknown or 0."""
        return 100.0 * (after - before) / abs(before) if before else None

    def interval(self, table: NDArray[Any], episodes: int) -> Interval:
        """Return Student's interval over runs, which includes the spread of episodes."""
        del episodes
        return student_interval(table)

    def clip(self, interval: Interval) -> Interval:
        """Return the interval unchanged."""
        return interval

    def pooled_curve(self, points: Sequence[Point], window: int) -> list[float]:
        """Return the mean return of the latest episodes."""
        return pooled_returns(points, window)

    def axis(self, values: Sequence[float]) -> ChartAxis:
        """Return the axis from the smallest to the largest value."""
        return linear_axis(min(values, default=0.0), max(values, default=1.0))

    def format_value(self, value: float | None) -> str:
        """Format with three digits."""
        return format_number(value)

    def table_cells(
        self, after: float | None, score: float | None, low: float | None, high: float | None
    ) -> tuple[str, ...]:
        """Return the return after training, its growth, and the interval of the growth."""
        shown = NOTHING if score is None else f"{score:+.0f} %"
        known = low is not None and high is not None
        return format_number(after), shown, f"[{low:+.0f}, {high:+.0f}]" if known else NOTHING

    def format_difference(self, difference: float) -> str:
        """Format in percentage points of the return before."""
        return f"{difference:+.1f} points"


MEASURES: dict[Name, ScoreMeasure] = {"success": SuccessMeasure(), "return": ReturnMeasure()}
