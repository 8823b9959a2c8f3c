"""Earlier rollouts that an update learns from too, after GePPO.

Shapes: T decisions, B envs, N valid decisions, K denoising steps, K' trained steps, M earlier
rollouts.

An update sees the latest rollout and M earlier ones. A decision of an earlier policy π_{k−i} has
the weight w = π_k/π_{k−i}, and its advantages and returns are those of V-trace
(``advantages.gae``). The surrogate is w·L(π/π_k): the trust region is centred at the acting policy
π_k, as that of PPO-EWMA is at its proximal policy (Hilton et al. 2022, arXiv 2110.00641, eq. 3).
GePPO (Queeney et al. 2021, arXiv 2111.00072) clips π/π_{k−i} to w ± ε instead.

An update costs M + 1 times as much. Memory and every checkpoint hold M rollouts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from robo_rl.algo.ppo.batch.actor_batch import ActorBatch, log_prob_of_all
from robo_rl.algo.ppo.ratio_units import RatioMode, make_units
from robo_rl.core.errors import ConfigError
from robo_rl.core.stateful import Stateful
from robo_rl.data.rollout import Rollout, join_rollouts
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.schedule import Schedule, is_scheduled


class RolloutReuse(Stateful):
    """The latest rollouts of a run, joined to each new one.

    Args:
        count: M, at least 1.
        policy: The policy under training.

    Raises:
        ConfigError: The policy is not reusable (``check_reusable``).
    """

    state_parts: ClassVar[tuple[str, ...]] = ("stored",)

    def __init__(self, count: int, policy: DenoisingPolicy) -> None:
        check_reusable(policy)
        self.count = count
        self.earlier = list[Rollout]()

    def join(self, rollout: Rollout, policy: DenoisingPolicy) -> Rollout:
        """Return a rollout with the earlier ones beside it along B, and keep it for the next.

        Earlier rollouts of another length, or with other optional columns, are forgotten.

        Args:
            rollout: Collected by ``policy``.
            policy: The acting policy.
        """
        earlier = [each for each in self.earlier if _kind(each) == _kind(rollout)][: self.count]
        self.earlier = [rollout, *earlier][: self.count]
        if not earlier:
            return rollout
        fresh = replace(rollout, policy_log_ratio=torch.zeros_like(rollout.rew))
        return join_rollouts(
            [fresh, *(rescored(each.to(policy.device), policy) for each in earlier)]
        )

    def clear(self) -> None:
        """Forget all rollouts, such as after a rollback of the policy."""
        self.earlier = []

    @property
    def stored(self) -> dict[str, Any]:
        """Tensors of the earlier rollouts."""
        return {
            str(number): {field.name: getattr(each, field.name) for field in fields(each)}
            for number, each in enumerate(self.earlier)
        }

    @stored.setter
    def stored(self, found: Mapping[str, Any]) -> None:
        self.earlier = [Rollout(**found[name]) for name in sorted(found, key=int)]


def rescored(rollout: Rollout, policy: DenoisingPolicy) -> Rollout:
    """Return a rollout with the log-probabilities of a policy, and its log-ratio to the collector.

    All K' trained steps of its chains have a density.
    """
    data = ActorBatch.of(rollout, rollout.rows(rollout.rew))
    steps = policy.trainable_steps.nonzero().flatten().to(data.adv.device)
    units = make_units(RatioMode.JOINT, len(data.adv), steps, None)
    now = log_prob_of_all(policy, data, units).to(data.log_prob)
    log_prob, ratio = rollout.log_prob.clone(), torch.zeros_like(rollout.rew)
    ratio[rollout.valid] = (now - data.log_prob[:, steps]).sum(-1).to(ratio)
    log_prob[rollout.valid] = data.log_prob.index_copy(1, steps, now)
    return replace(rollout, log_prob=log_prob, policy_log_ratio=ratio)


def effective_share(log_ratio: Tensor) -> float:
    """Return (Σw)²/(N·Σw²) of weights w with these logarithms (N,): 1 if they are equal."""
    weights = log_ratio.double().exp()
    return float(weights.sum().square() / (len(weights) * weights.square().sum()).clamp(min=1e-300))


def check_reusable(policy: DenoisingPolicy) -> None:
    """Check that the density of a chain covers all that a change of the policy changes in it.

    Raises:
        ConfigError: A trained step is deterministic, or frozen steps have scheduled noise.
    """
    trained = policy.sampler.stochastic[-policy.num_trained :]
    if not bool(trained.all()):
        raise ConfigError(
            "reused_rollouts: a trained step without noise has no ratio to an earlier policy",
            where="algo.reused_rollouts",
            expected="noise at every trained step, such as flow_noise",
            found=policy.cfg.sampler.name,
        )
    options = policy.cfg.sampler.cfg, policy.cfg.correlation
    changes = any(each is not None and is_scheduled(each) for each in options)
    if changes and policy.num_trained < policy.num_steps:
        raise ConfigError(
            "reused_rollouts: the noise of frozen steps changes, and has no ratio",
            where="algo.reused_rollouts",
            expected="constant noise, or finetune_steps: 0",
            found=f"a schedule of {policy.cfg.sampler.name}",
        )
    if isinstance(policy.cfg.correlation.start, Schedule):
        raise ConfigError(
            "reused_rollouts: the law of the first noise changes, and no ratio scores it",
            where="algo.reused_rollouts",
            expected="a constant correlation.start",
            found="a schedule",
        )


def _kind(rollout: Rollout) -> tuple[Any, ...]:
    """Return what rollouts that are joined have in common: T, and which columns they have."""
    return len(rollout.rew), *(getattr(rollout, field.name) is None for field in fields(rollout))
