"""The collapse guard: keeps the best policy that is proven, and goes back to it after a true fall.

Trust regions and adaptive rates keep single updates small; this one watches what they add up to,
by the training episodes (never by those of evaluation). It looks at their success, or at their
returns as long as none has ever succeeded.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import PluginError
from robo_rl.core.stateful import Stateful
from robo_rl.train.rl.score_drop import (
    EpisodeStats,
    ScoreDropDetector,
    confidence_bounds,
    return_stats,
    success_stats,
)

RANKING_LEVEL = 0.16
"""Error of the lower bound by which policies are ranked: one standard error."""

State = dict[str, Any]


class CollapseGuard(Stateful):
    """Says when to go back, and to what.

    Episodes are gathered in cells; ``ScoreDropDetector`` says when the score has truly fallen. Kept is the
    state in the middle of the two cells in a row whose score has the highest lower bound: not the
    luckiest block, and never more than one copy besides that of the cell at hand. A state that is
    not finite is sent back at once.

    Args:
        cfg: See Config.
    """

    state_parts: ClassVar[tuple[str, ...]] = (
        "detector", "score_drops", "nonfinite_rollbacks", "success", "returns", "cell_start_state", "best_state", "best_score", "best_stats"
    )  # fmt: skip

    class Config(ConfigModel):
        """Episodes of a cell, error of one bound (see ``falls``), and how often it may go back.

        One that is not ``enabled`` never goes back, not even in the end.
        Each return halves the learning rate, which may slowly come back (PPO, NFT). After
        ``max_rollbacks`` of them only states that are not finite are sent back, as many times
        again; the end of training still goes to the best that was kept.
        """

        enabled: bool = True
        """Whether the guard may go back at all."""
        episodes: int = Field(default=100, ge=20)
        """Episodes of a cell of the change test."""
        level: float = Field(default=3e-6, gt=0.0, le=0.05)
        """Error level of one bound of the change test."""
        max_rollbacks: int = Field(default=8, ge=0)
        """How often a drop of the score may send the policy back."""

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg
        self.detector = ScoreDropDetector(cfg.level)
        self.score_drops = self.nonfinite_rollbacks = 0
        self.success, self.returns = torch.zeros(0, dtype=torch.bool), torch.zeros(0)
        self.cell_start_state: State | None = None
        self.best_state: State | None = (
            None  # never changed in place, so it may also be the opening
        )
        self.best_score, self.best_stats = -math.inf, EpisodeStats(0, 0.0, 0.0)

    @property
    def rollbacks(self) -> int:
        """How often it went back: after falls, and from states that were not finite."""
        return self.score_drops + self.nonfinite_rollbacks

    def begin(self, state: State) -> None:
        """Remember the state that training begins with."""
        self.cell_start_state = self.best_state = copy.deepcopy(state)

    def observe(self, success: Tensor, returns: Tensor, state: State) -> State | None:
        """Take in episodes that ended, and the state that acts from now on.

        Args:
            success: (E,) bool.
            returns: (E,) sums of rewards.
            state: Nested dicts of tensors; copied when it is to be remembered.

        Returns:
            The state to go back to, or None.

        Raises:
            PluginError: The state is not finite, and there is none to go back to, or it was sent
                back too often.
        """
        if not self.cfg.enabled:
            return None
        if not is_finite(state):
            return self._reject_nonfinite()
        self.success = torch.cat([self.success, success])
        self.returns = torch.cat([self.returns, returns.to(self.returns)])
        if len(self.success) < self.cfg.episodes:
            return None
        fallen = self.detector.update(self._cell())
        self._rank(state)
        allowed = self.score_drops < self.cfg.max_rollbacks
        return self._go_back() if fallen and allowed else None

    def finish(self, state: State) -> State | None:
        """The state to end with, where that is not the present one.

        Here a false alarm costs nothing, so it is enough that the latest score is below what is
        credited to the kept state, or that nothing is known of it yet.
        """
        if not self.cfg.enabled:
            return None
        latest = self.detector.latest(2).plus(self._count())
        nothing_ranked = self.best_score == -math.inf
        good = nothing_ranked or (latest.episodes > 0 and latest.mean >= self.best_score)
        return None if is_finite(state) and good else copy.deepcopy(self.best_state)

    def _cell(self) -> EpisodeStats:
        """Close the cell; the first success of all makes success what is watched."""
        if not self.detector.binary and bool(self.success.any()):
            self.detector.restart(binary=True)
            self.best_score = -math.inf
        cell = self._count()
        self.success, self.returns = self.success[:0], self.returns[:0]
        return cell

    def _count(self) -> EpisodeStats:
        """The open cell."""
        return success_stats(self.success) if self.detector.binary else return_stats(self.returns)

    def _rank(self, state: State) -> None:
        """Keep the state at which the newest cell opened, if the last two cells are the best."""
        window = self.detector.latest(2)
        credit = confidence_bounds(window, RANKING_LEVEL, binary=self.detector.binary).low
        if credit >= self.best_score:
            self.best_state, self.best_score, self.best_stats = (
                self.cell_start_state,
                credit,
                window,
            )
        self.cell_start_state = copy.deepcopy(state)

    def _go_back(self) -> State | None:
        """From now on the score to hold is what the kept state itself has proven."""
        binary, self.score_drops = self.detector.binary, self.score_drops + 1
        proven = confidence_bounds(self.best_stats, self.cfg.level, binary=binary).low
        self.detector.restart(binary=binary, best=proven)
        self.cell_start_state = self.best_state
        return copy.deepcopy(self.best_state)

    def _reject_nonfinite(self) -> State:
        if self.best_state is None or self.nonfinite_rollbacks >= self.cfg.max_rollbacks:
            raise PluginError(
                "the policy's parameters are not finite",
                found=f"{self.nonfinite_rollbacks} returns from such a policy before",
                hint="use a lower learning rate, and look for NaN in rewards and observations",
            )
        self.nonfinite_rollbacks += 1
        self.success, self.returns = self.success[:0], self.returns[:0]
        self.cell_start_state = self.best_state
        return copy.deepcopy(self.best_state)

    def _loaded(self) -> None:
        self.best_stats = EpisodeStats(*self.best_stats)


def is_finite(state: Any) -> bool:
    """Whether every floating-point number in nested dicts, lists and tuples is finite."""
    if isinstance(state, Tensor):
        return not state.is_floating_point() or bool(state.isfinite().all())
    if isinstance(state, Mapping):
        return all(is_finite(value) for value in state.values())
    if isinstance(state, list | tuple):
        return all(is_finite(value) for value in state)
    return not isinstance(state, float) or math.isfinite(state)
