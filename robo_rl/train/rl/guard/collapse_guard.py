"""Collapse guard: keeps the best proven policy and rolls back to it after a significant score drop.

Trust regions and adaptive learning rates bound single updates. The guard bounds their sum. It
watches the success of the training episodes, never the evaluation episodes. It watches their
returns as long as no episode has succeeded. Training episodes include exploration noise, so
``FinalChoice`` compares the guard's candidates without noise at the end of training.
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
from robo_rl.train.rl.guard.score_drop import (
    EpisodeStats,
    ScoreDropDetector,
    return_stats,
    success_stats,
)

RANKING_LEVEL = 0.16
"""Error level of the lower bound that ranks policies: one standard error."""

State = dict[str, Any]


class CollapseGuard(Stateful):
    """Decides when to roll back and to which state.

    The guard groups episodes into cells. ``ScoreDropDetector`` decides whether the score has
    dropped. The best state is the state between two consecutive cells with the highest lower bound
    of their joint score; the initial state at first, and a tie keeps the earlier state. Episodes
    count once all that began with them have ended, so that a state is credited with episodes that
    began before it, by up to the length of an episode. Two further copies are held: the initial
    state, which checkpoints leave out, and that of the start of the open cell. A non-finite state
    is rolled back at once.

    Args:
        cfg: See ``Config``.
        group_size: Number of episodes that share a start; see ``confidence_bounds``.
    """

    state_parts: ClassVar[tuple[str, ...]] = (
        "detector",
        "score_drops",
        "nonfinite_rollbacks",
        "success",
        "returns",
        "cell_start_state",
        "best_state",
        "best_score",
        "best_stats",
    )

    class Config(ConfigModel):
        """Cell size, error level and rollback budget of the guard.

        Each rollback halves the learning rate, which may slowly recover (PPO, NFT). After
        ``max_rollbacks`` score drops only non-finite states are rolled back, up to
        ``max_rollbacks`` times. A guard that is not ``enabled`` never rolls back, and training ends
        with the last policy.

        ``final_episodes`` decide at the end of training between the initial, the best and the last
        policy (see ``FinalChoice``). Without them the training episodes decide between the best and
        the last.
        """

        enabled: bool = True
        """Whether the guard may roll back."""
        episodes: int = Field(default=100, ge=20)
        """Episodes per cell of the change-point test."""
        level: float = Field(default=3e-6, gt=0.0, le=0.05)
        """Error level of one confidence bound of the change-point test (see ``score_drop``)."""
        max_rollbacks: int = Field(default=8, ge=0)
        """Maximum number of rollbacks after score drops."""
        final_episodes: int = Field(default=100, ge=0)
        """Episodes without exploration noise for each candidate of the final policy; 0 is off."""

    def __init__(self, cfg: Config, group_size: int = 1) -> None:
        self.cfg = cfg
        self.detector = ScoreDropDetector(cfg.level, group_size)
        self.score_drops = self.nonfinite_rollbacks = 0
        self.success, self.returns = torch.zeros(0, dtype=torch.bool), torch.zeros(0)
        # states are never changed in place, so they may alias each other
        self.initial_state: State | None = None
        self.cell_start_state: State | None = None
        self.best_state: State | None = None
        self.best_score, self.best_stats = -math.inf, EpisodeStats(0, 0.0, 0.0)

    @property
    def rollbacks(self) -> int:
        """The number of rollbacks, after score drops and from non-finite states."""
        return self.score_drops + self.nonfinite_rollbacks

    def begin(self, state: State) -> None:
        """Store the initial state of training; call before the state of a checkpoint is loaded."""
        if not self.cfg.enabled:
            return
        self.initial_state = copy.deepcopy(state)
        self.cell_start_state = self.best_state = self.initial_state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See ``Stateful``; a guard that is not enabled keeps no state of the training."""
        kept = (name for name in state if self.cfg.enabled or not name.endswith("_state"))
        super().load_state_dict({name: state[name] for name in kept})

    def observe(self, success: Tensor, returns: Tensor, state: State) -> State | None:
        """Add finished episodes and the state that acts next.

        Args:
            success: (E,) bool.
            returns: (E,) sums of rewards.
            state: Nested dicts of tensors. The guard copies what it keeps.

        Returns:
            The state to roll back to, or None.

        Raises:
            PluginError: The state is not finite, and either no earlier state exists or the budget
                of rollbacks is spent.
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
        """Return the best state if training should end with it, else None.

        A false alarm costs nothing here. It suffices that the latest mean score is not above the
        lower bound of the best state, or that no episode has been counted since.
        """
        if not self.cfg.enabled:
            return None
        latest = self.detector.latest(2).plus(self._count())
        nothing_ranked = self.best_score == -math.inf
        good = nothing_ranked or (latest.episodes > 0 and latest.mean > self.best_score)
        return None if is_finite(state) and good else copy.deepcopy(self.best_state)

    def candidates(self, state: State) -> dict[str, State]:
        """Return the finite states that training may end with, the earliest first.

        Args:
            state: The last state of training.

        Returns:
            ``initial``, ``best`` and ``last``, each with its state; ``last`` alone if the guard is
            not enabled.
        """
        if not self.cfg.enabled:
            return {"last": state}
        found = {"initial": self.initial_state, "best": self.best_state, "last": state}
        return {name: each for name, each in found.items() if each is not None and is_finite(each)}

    def _cell(self) -> EpisodeStats:
        """Close the cell, return its statistics; the first success makes success the score."""
        if not self.detector.binary and bool(self.success.any()):
            self.detector.restart(binary=True)
            self.best_score = -math.inf
        cell = self._count()
        self.success, self.returns = self.success[:0], self.returns[:0]
        return cell

    def _count(self) -> EpisodeStats:
        """Return the statistics of the open cell."""
        return success_stats(self.success) if self.detector.binary else return_stats(self.returns)

    def _rank(self, state: State) -> None:
        """Keep the state at which the newest cell opened, if the last two cells are the best."""
        window = self.detector.latest(2)
        credit = self.detector.bounds_of(window, RANKING_LEVEL).low
        if credit > self.best_score:
            self.best_state, self.best_score, self.best_stats = (
                self.cell_start_state,
                credit,
                window,
            )
        self.cell_start_state = copy.deepcopy(state)

    def _go_back(self) -> State | None:
        """Roll back; the score to hold becomes the lower bound of the best state."""
        binary, self.score_drops = self.detector.binary, self.score_drops + 1
        proven = self.detector.bounds_of(self.best_stats, self.cfg.level).low
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
    """Return whether all floating-point numbers in nested dicts, lists and tuples are finite."""
    if isinstance(state, Tensor):
        return not state.is_floating_point() or bool(state.isfinite().all())
    if isinstance(state, Mapping):
        return all(is_finite(value) for value in state.values())
    if isinstance(state, list | tuple):
        return all(is_finite(value) for value in state)
    return not isinstance(state, float) or math.isfinite(state)
