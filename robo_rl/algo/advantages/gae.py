"""Advantages and reward scaling on chunk-level transitions.

Shapes: T decisions, B envs. The advantage functions are pure. The running return scale has state.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from robo_rl.core.errors import PluginError
from robo_rl.core.stateful import Stateful
from robo_rl.distributed.moments import Moments, merged
from robo_rl.distributed.process_group import all_gather_rows, local_rows
from robo_rl.optim.scalars import numbers

GROUP_STD = 1e-6
"""Added to the std of a group's returns; a group with a smaller std has no advantages."""


def gae(
    rew: Tensor,
    value: Tensor,
    next_value: Tensor,
    *,
    terminated: Tensor,
    truncated: Tensor,
    valid: Tensor,
    discount: Tensor,
    lam: float,
    log_ratio: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimation over decisions that last a varying number of env steps.

        δ = rew + discount·(1 − terminated)·V(next_obs) − V(obs)
        A = δ + discount·λ·A'

    With ``log_ratio`` the returns are those of V-trace (Espeholt et al. 2018, arXiv 1802.01561,
    eq. 1 and remark 2) with c = λ·ρ and ρ = min(1, ratio), and the advantages are GePPO's (Queeney
    et al. 2021, arXiv 2111.00072):

        A = δ + discount·λ·ρ'·A',    return = V(obs) + ρ·A

    The sum stops where the episode is terminated or truncated, and where the next decision is not
    valid. Source: Schulman et al. 2016, arXiv 1506.02438, eq. 16.

    Args:
        rew: (T, B), discounted sum over the executed env steps.
        value: (T, B), V(obs).
        next_value: (T, B), V of the true successor, also at truncation.
        terminated: (T, B) bool.
        truncated: (T, B) bool.
        valid: (T, B) bool; rows that are not valid get advantage 0 and do not affect other rows.
        discount: (T, B), γ to the power of the number of executed env steps.
        lam: λ per decision.
        log_ratio: (T, B), ln of the acting policy's probability over that of the policy that
            collected a decision; None if they are the same.

    Returns:
        Advantages (T, B), and returns (T, B).
    """
    rho = torch.ones_like(rew) if log_ratio is None else log_ratio.clamp(max=0.0).exp()
    going_on = ~(terminated | truncated)
    delta = rew + discount * ~terminated * next_value - value
    adv = torch.zeros_like(rew)
    after = torch.zeros_like(rew[0])
    for t in reversed(range(len(rew))):
        adv[t] = torch.where(valid[t], delta[t] + discount[t] * lam * going_on[t] * after, 0.0)
        after = rho[t] * adv[t]
    return adv, rho * adv + value


def group_advantages(
    rew: Tensor,
    *,
    terminated: Tensor,
    truncated: Tensor,
    valid: Tensor,
    discount: Tensor,
    group_size: int,
) -> tuple[Tensor, Tensor]:
    """Advantages relative to other episodes from the same start, without a critic (GRPO).

        A = (R − mean R)/(std R + 1e-6)

    The mean and the std are over the G episodes of a group. R is the discounted return of the first
    episode of an env in the rollout. All decisions of that episode have the same A. Source: Shao et
    al. 2024, arXiv 2402.03300, section 4.1.

    Groups whose returns do not differ have no advantages. The same holds for episodes that do not
    end in the rollout or that hold a decision that is not valid.

    Args:
        rew: (T, B), as for ``gae``.
        terminated: (T, B) bool.
        truncated: (T, B) bool.
        valid: (T, B) bool.
        discount: (T, B), as for ``gae``.
        group_size: G; envs i·G … i·G+G−1 are a group.

    Returns:
        Advantages (T, B), and a mask (T, B) bool of the decisions that have one.
    """
    ended = terminated | truncated
    counted = ended.int().cumsum(0) - ended.int() == 0
    whole = (ended & counted).any(0) & (valid | ~counted).all(0)
    weight = torch.cat([torch.ones_like(discount[:1]), discount[:-1]]).cumprod(0)
    total = (rew * weight * counted).sum(0).unflatten(0, (-1, group_size))
    taken = whole.unflatten(0, (-1, group_size))
    size = taken.sum(1, keepdim=True).clamp(min=1)
    gap = total - (total * taken).sum(1, keepdim=True) / size
    std = ((gap.square() * taken).sum(1, keepdim=True) / size).sqrt()
    adv = gap / (std + GROUP_STD)
    alive = counted & (taken & (std > GROUP_STD)).flatten()
    return torch.where(alive, adv.flatten(), 0.0), alive


class ReturnScale(Stateful):
    """Running std of the discounted return, which divides rewards; the mean is not subtracted.

    This is the reward scaling of DPPO (arXiv 2409.00588, appendix) and of VecNormalize, without
    their clipping of the result. One return accumulates per env and restarts at an episode end. The
    std is over all returns since the start of training.

    Args:
        num_envs: B.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("all_running", "count", "mean", "sq_dev")

    def __init__(self, num_envs: int) -> None:
        self.running = torch.zeros(num_envs)
        self.count, self.mean, self.sq_dev = 0.0, 0.0, 0.0

    def update(self, rew: Tensor, discount: Tensor, ended: Tensor) -> None:
        """Update the std with rewards, discounts and episode ends (T, B) of a rollout.

        Raises:
            PluginError: A return is not finite; the state is then unchanged.
        """
        running, returns = self.running.to(rew.device), list[Tensor]()
        for t in range(len(rew)):
            returns.append(running * discount[t] + rew[t])
            running = torch.where(ended[t], 0.0, returns[-1])
        seen = torch.stack(returns)
        check_finite_returns(seen)
        self.running = running
        self._merge(seen.double())

    def restart_episodes(self) -> None:
        """Let new returns begin in all envs of this process, whose episodes were cut off."""
        self.running = torch.zeros_like(self.running)

    def _merge(self, batch: Tensor) -> None:
        size, *found = Moments.of(batch.flatten())
        mean, sq_dev = numbers(found)
        self.count, self.mean, self.sq_dev = merged(
            (self.count, self.mean, self.sq_dev), (size, mean, sq_dev)
        )

    @property
    def std(self) -> float:
        """The divisor of rewards; 1 until returns vary."""
        spread = (self.sq_dev / self.count) ** 0.5 if self.count else 0.0
        return 1.0 if spread <= 1e-6 else spread

    @property
    def all_running(self) -> Tensor:
        """The accumulating returns of the envs of all processes."""
        return all_gather_rows(self.running)

    @all_running.setter
    def all_running(self, running: Tensor) -> None:
        self.running = local_rows(running)


def check_finite_returns(returns: Tensor) -> None:
    """Check that rewards or returns (T, B) are finite.

    Raises:
        PluginError: At least one value is not finite.
    """
    lost = (~returns.isfinite()).nonzero()
    if len(lost):
        decision, env = lost[0].tolist()
        raise PluginError(
            "rewards are not finite",
            where=f"env {env}, decision {decision} of the block",
            expected="numbers",
            found=float(returns[decision, env]),
            hint="look at the task's reward() there: a division by zero, a root of a negative"
            " number, a state that ran away",
        )
