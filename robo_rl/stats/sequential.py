"""Group-sequential permutation test: compares methods over a growing number of seeds.

Seeds come in groups. After each group, every pair of methods is different or needs more seeds.
After all planned groups, an undecided pair is ``cannot tell``, which does not prove equality. The
probability of calling any pair of equal methods different stays below the level, over all interim
looks. The test follows AdaStop (Mathieu et al. 2023, arXiv 2306.10882). Floor 1: numpy.

Shapes: M methods, S seeds, T tasks, K groups planned, N seeds a group, R relabellings.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Pair = tuple[int, int]


class PairVerdict(StrEnum):
    """Verdict on a pair of methods."""

    DIFFERENT = "different"
    CANNOT_TELL = "cannot tell"
    MORE_SEEDS = "more seeds needed"


class Decision(NamedTuple):
    """A pair's verdict.

    Args:
        verdict: See ``PairVerdict``.
        difference: Mean score of the first method minus that of the second, over the seeds of the
            decision.
        seeds: Number of seeds of the decision.
    """

    verdict: PairVerdict
    difference: float
    seeds: int


def compare_sequentially(
    scores: ArrayLike,
    pairs: Sequence[Pair] | None = None,
    *,
    seeds_per_group: int,
    num_groups: int,
    alpha: float = 0.05,
    relabellings: int = 5000,
    seed: int = 0,
) -> dict[Pair, Decision]:
    """Test pairs of methods, group by group of seeds.

    The statistic of a pair is |Σ scores of one − Σ scores of the other| over seeds and tasks. Runs
    of one seed and task may share demonstrations and the cloned policy. The only exchangeable
    labels are therefore those of a pair within a seed and task. Under equality, the observed
    statistic is one of R equally likely relabelled statistics.

    At group k the test takes the undecided pair with the largest statistic. It counts the
    relabellings in which the largest statistic of any undecided pair reaches that value. The pair
    is different if this count is within the remaining budget: kα/K of the relabellings minus those
    that crossed at earlier groups. The pair is then removed, and the next one is tested.

    Args:
        scores: (M, S, T), or (M, S) for one task; seeds in the order in which they were run.
        pairs: Pairs to compare; all by default.
        seeds_per_group: N.
        num_groups: K, planned beforehand; seeds beyond K·N are ignored.
        alpha: α, of the whole family.
        relabellings: R.
        seed: Seed of the relabellings. A group's relabellings do not depend on later groups, so
            further seeds never change a decision.

    Source: Mathieu et al. 2023 (2306.10882): statistic, boundaries, uniform spending of α and
    step-down order. They relabel among all scores of a pair, which is right for independent runs.
    The test is exact for two methods. Here each pair is relabelled separately. For several methods,
    simulations show that the level holds; there is no proof.

    Raises:
        ValueError: The shape or the settings do not define a test.
    """
    table = _checked(scores, seeds_per_group, num_groups, alpha)
    undecided = list(pairs or combinations(range(len(table)), 2))
    decided: dict[Pair, Decision] = {}
    paths = _Paths(table, undecided, seeds_per_group, relabellings, seed)
    complete = min(num_groups, table.shape[1] // seeds_per_group)
    for now in range(1, complete + 1):
        allowed = [int(alpha * k / num_groups * relabellings) for k in range(1, now + 1)]
        while undecided and (pair := paths.crossing(undecided, allowed)) is not None:
            undecided.remove(pair)
            decided[pair] = _decision(table, pair, PairVerdict.DIFFERENT, now * seeds_per_group)
    rest = PairVerdict.CANNOT_TELL if complete == num_groups else PairVerdict.MORE_SEEDS
    for pair in undecided:
        decided[pair] = _decision(table, pair, rest, complete * seeds_per_group)
    return {pair: decided[pair] for pair in pairs or combinations(range(len(table)), 2)}


class _Paths:
    """Statistics of all pairs under all relabellings (R,); the first is the observed one."""

    def __init__(
        self, table: NDArray[Any], pairs: Sequence[Pair], group: int, relabellings: int, seed: int
    ) -> None:
        scale = max(float(np.abs(table).max(initial=0.0)), 1e-300)
        self._paths: dict[Pair, NDArray[Any]] = {}
        for pair in pairs:
            steps = np.zeros((table.shape[1] // group, relabellings))
            for block in range(len(steps)):
                seeds = slice(block * group, (block + 1) * group)
                apart = table[pair[0], seeds] - table[pair[1], seeds]
                rng = np.random.default_rng((seed, block, *pair))
                steps[block] = _signs(relabellings, apart.size, rng) @ apart.ravel()
            # Rounded, so that sums with another order of terms compare as equal.
            self._paths[pair] = np.round(np.abs(steps.cumsum(axis=0)) / scale, 9)

    def crossing(self, pairs: Sequence[Pair], allowed: Sequence[int]) -> Pair | None:
        """Return the observed pair that crosses the family's boundary; None if none does.

        Args:
            pairs: The family.
            allowed: Number of relabellings that may have crossed by each group; its length is the
                number of groups.
        """
        crossed = np.zeros(self._paths[pairs[0]].shape[1], dtype=bool)
        for k, most in enumerate(allowed):
            largest = np.max([self._paths[pair][k] for pair in pairs], axis=0)
            crossed |= _upper(largest, ~crossed, most - int(crossed.sum()))
            if crossed[0]:
                return max(pairs, key=lambda pair: self._paths[pair][k][0])
        return None


def _upper(values: NDArray[Any], alive: NDArray[Any], most: int) -> NDArray[Any]:
    """Mask (R,) of at most ``most`` highest values of those alive; ties are left out together."""
    if int(alive.sum()) <= most:
        return alive
    boundary = np.sort(values[alive])[::-1][max(most, 0)]
    return alive & (values > boundary)


def _signs(relabellings: int, differences: int, rng: np.random.Generator) -> NDArray[Any]:
    """Random signs ±1 (R, N·T) of the differences; the first row is all +1."""
    signs = rng.choice([1.0, -1.0], size=(relabellings, differences))
    signs[0] = 1.0
    return signs


def _decision(table: NDArray[Any], pair: Pair, verdict: PairVerdict, seeds: int) -> Decision:
    means = [float(table[m, :seeds].mean()) if seeds else float("nan") for m in pair]
    return Decision(verdict, means[0] - means[1], seeds)


def _checked(scores: ArrayLike, group: int, groups: int, level: float) -> NDArray[Any]:
    table = np.asarray(scores, dtype=np.float64)
    table = table[..., None] if table.ndim == 2 else table
    if table.ndim != 3 or not np.isfinite(table).all():
        raise ValueError(f"expected finite scores (methods, seeds, tasks), found {table.shape}")
    if group < 1 or groups < 1 or not 0 < level < 1:
        raise ValueError(f"no test with {groups} groups of {group} seeds at level {level}")
    return table
