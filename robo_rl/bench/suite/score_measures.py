"""What a suite compares: success rates, or returns by their growth; numbers, intervals and words.

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
    """A measure.

    Args:
        score: Name of what is compared, which is made of what was measured.
        columns: What ``table_cells`` are called.
        is_rate: Whether it is a share of episodes: only such a curve has rates to reach and to
            fall from.
    """

    score: str
    columns: tuple[str, ...]
    is_rate: bool

    def score_of(self, after: float, before: float | None) -> float | None:
        """The score of a policy that was worth so much before; None where it has none."""
        ...

    def interval(self, table: NDArray[Any], episodes: int) -> Interval:
        """Of 95 %, of the mean of scores, judged in so many episodes together."""
        ...

    def clip(self, interval: Interval) -> Interval:
        """Within what such a score can be."""
        ...

    def pooled_curve(self, points: Sequence[Point], window: int) -> list[float]:
        """The measure along a curve."""
        ...

    def axis(self, values: Sequence[float]) -> ChartAxis:
        """Of a figure of such curves."""
        ...

    def format_value(self, value: float | None) -> str:
        """A policy's, as text."""
        ...

    def table_cells(
        self, after: float | None, score: float | None, low: float | None, high: float | None
    ) -> tuple[str, ...]:
        """What stands in a table: last the score, then its interval."""
        ...

    def format_difference(self, difference: float) -> str:
        """Two scores' difference."""
        ...


class SuccessMeasure:
    """The share of episodes that succeed; see ``Measure``."""

    score, columns, is_rate = "success", ("success", "95 % interval"), True

    def score_of(self, after: float, before: float | None) -> float:
        """What it is."""
        del before
        return after

    def interval(self, table: NDArray[Any], episodes: int) -> Interval:
        """No narrower than so many episodes allow."""
        return rate_interval(table, episodes)

    def clip(self, interval: Interval) -> Interval:
        """Within [0, 1]."""
        return Interval(max(0.0, interval.low), min(1.0, interval.high))

    def pooled_curve(self, points: Sequence[Point], window: int) -> list[float]:
        """Of the latest episodes."""
        return pooled_success(points, window)

    def axis(self, values: Sequence[float]) -> ChartAxis:
        """All of it."""
        del values
        return ChartAxis(0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0))

    def format_value(self, value: float | None) -> str:
        """In percent."""
        return percent(value)

    def table_cells(
        self, after: float | None, score: float | None, low: float | None, high: float | None
    ) -> tuple[str, ...]:
        """The rate and its interval, in percent."""
        del after
        if low is None or high is None:
            return percent(score), NOTHING
        return percent(score), f"[{100 * low:.1f}, {100 * high:.1f}]"

    def format_difference(self, difference: float) -> str:
        """In points of percent."""
        return f"{100 * difference:+.1f} points"


class ReturnMeasure:
    """The mean return, by its growth over that of the policy before, in percent of its size."""

    score, columns, is_rate = "growth", ("after", "growth", "95 % interval"), False

    def score_of(self, after: float, before: float | None) -> float | None:
        """None where the return before is not known, or is 0."""
        return 100.0 * (after - before) / abs(before) if before else None

    def interval(self, table: NDArray[Any], episodes: int) -> Interval:
        """Of the runs: what an episode says is in how they differ."""
        del episodes
        return student_interval(table)

    def clip(self, interval: Interval) -> Interval:
        """As it is."""
        return interval

    def pooled_curve(self, points: Sequence[Point], window: int) -> list[float]:
        """The mean return of the latest episodes."""
        return pooled_returns(points, window)

    def axis(self, values: Sequence[float]) -> ChartAxis:
        """From the least to the largest."""
        return linear_axis(min(values, default=0.0), max(values, default=1.0))

    def format_value(self, value: float | None) -> str:
        """Three digits."""
        return format_number(value)

    def table_cells(
        self, after: float | None, score: float | None, low: float | None, high: float | None
    ) -> tuple[str, ...]:
        """The return that has grown, by how much, and the interval of that."""
        shown = NOTHING if score is None else f"{score:+.0f} %"
        known = low is not None and high is not None
        return format_number(after), shown, f"[{low:+.0f}, {high:+.0f}]" if known else NOTHING

    def format_difference(self, difference: float) -> str:
        """In points of percent of the return before."""
        return f"{difference:+.1f} points"


MEASURES: dict[Name, ScoreMeasure] = {"success": SuccessMeasure(), "return": ReturnMeasure()}
