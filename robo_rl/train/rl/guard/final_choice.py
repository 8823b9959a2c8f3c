"""Chooses the policy that training ends with, by episodes without exploration noise.

Training episodes include exploration noise, which may break a precise policy, so they cannot rank
policies that act without noise. The start states are neither those of training nor those of the
stage's own evaluation, which therefore stays unbiased.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from robo_rl.distributed.process_group import broadcast_int, rank_info
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.policies import weights_digest
from robo_rl.train.evaluation.comparison import lowest_mean_returns
from robo_rl.train.evaluation.evaluate import EvalResult, Measure
from robo_rl.train.pipeline.stage import Context
from robo_rl.train.rl.periodic_eval import probe_protocol


class FinalChoice:
    """Evaluates candidates from the same start states and chooses the best.

    A later candidate replaces an earlier one only by a higher mean; a tie keeps the earlier. No
    significance is asked for: between policies that the episodes hardly tell apart, either choice
    loses little, and a test would reject most small improvements.

    Args:
        episodes: Episodes of each candidate.
        context: Context of the stage.

    Attributes:
        numbers: For the report: ``candidate_NAME`` of each evaluated candidate, and
            ``final_choice_s``, the duration in s. Empty where nothing was evaluated.
    """

    def __init__(self, episodes: int, context: Context) -> None:
        self._episodes, self._context = episodes, context
        self.numbers: dict[str, Any] = {}

    def run(
        self,
        candidates: Mapping[str, dict[str, Any]],
        restore: Callable[[dict[str, Any]], DenoisingPolicy],
    ) -> str:
        """Return the name of the best candidate; all processes call it, and the first decides.

        Args:
            candidates: Name → state, the earliest first. Of equal weights only the earliest counts;
                if all are equal, nothing is evaluated.
            restore: Restores a state and returns the policy to evaluate.
        """
        first, policies = dict[str, str](), dict[str, DenoisingPolicy]()
        for name, state in candidates.items():
            policy = restore(state)
            if first.setdefault(weights_digest(policy), name) == name:
                policies[name] = copy.deepcopy(policy)
        best = 0
        if len(policies) > 1 and rank_info().rank == 0:
            best = self._evaluate(policies)
        return list(policies)[broadcast_int(best)]

    def _evaluate(self, policies: Mapping[str, DenoisingPolicy]) -> int:
        """Return the index of the best policy, and fill ``numbers``."""
        start, wanted = time.perf_counter(), self._context.experiment.eval.measure
        protocol = probe_protocol(self._context, self._episodes, "final")
        found = [
            self._context.evaluate(policy, f"{name} policy", protocol)
            for name, policy in policies.items()
        ]
        measure = deciding_measure(found, wanted)
        for name, result in zip(policies, found, strict=True):
            number = result.numbers() if measure == "success" else result.return_numbers()
            self.numbers[f"candidate_{name}"] = number
        self.numbers["final_choice_s"] = time.perf_counter() - start
        return best_index(found, measure)


def deciding_measure(results: Sequence[EvalResult], measure: Measure) -> Measure:
    """Return the measure that ranks; as in the guard, returns do if no episode has succeeded."""
    return measure if any(bool(each.success.any()) for each in results) else "return"


def best_index(results: Sequence[EvalResult], measure: Measure) -> int:
    """Return the index of the earliest result with the highest mean.

    An episode that lost its world ended early, which may raise its return, and counts with the
    lowest return of all candidates' whole episodes.
    """
    rates = [each.rate for each in results]
    means = rates if measure == "success" else lowest_mean_returns(results)
    return means.index(max(means))
