"""The loss of DiffusionNFT: contrasts good and bad actions without a likelihood.

Shapes: B rows, H horizon, A act_dim. Source: DiffusionNFT, Zheng et al. 2025, arXiv 2509.16117,
theorem 3.2 and algorithm 1, and its code.

r in [0, 1] is the optimality of an action. For the noised action, v_old is the prediction of the
acting network, v_θ that of the network under training, and v the target of behaviour cloning:

    v⁺ = β·v_θ + (1−β)·v_old,    v⁻ = (1+β)·v_old − β·v_θ,
    L = E[ r·‖v⁺ − v‖² + (1−r)·‖v⁻ − v‖² ].

If v_old is unbiased, the minimiser at a state is v_old + (2/β)·Cov(r, v). The prediction moves
towards actions of high optimality, by a step that r bounds.

Flow time here runs from noise (t = 0) to action (t = 1): x = t·act + (1−t)·noise, vel = act −
noise. The paper's time runs the other way: x = (1−s)·act + s·noise, v = noise − act. With s = 1 − t
and v = −vel its prediction of the action is x − s·v± = x + (1−t)·vel±. Since x + (1−t)·(act −
noise) = act,

    act± − act = (1−t)·(vel± − (act − noise)):

the action error is ``noise_level`` times the velocity error. The coefficients β and 1−β sum to 1,
and so do 1+β and −β. The target v therefore cancels, and the error of v± is the same mixture of the
errors of v_θ and v_old. The loss applies to every family with a prediction error. For ε-networks
``noise_level`` gives the error relative to the action's coefficient in x.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from robo_rl.data.rollout import Rollout, executed_mask

SMALLEST_ERROR = 1e-5
"""Lower bound of the mean error that divides the loss, as in the reference code."""


class NftBatch(NamedTuple):
    """The decisions of a rollout that NFT learns from.

    Args:
        obs: Name → (N, To, …).
        act: (N, H, A), the sampled chunks, normalised.
        optimality: (N,) r in [0, 1].
        executed: (N, H, 1) bool, the actions of the chunk that were executed.
    """

    obs: dict[str, Tensor]
    act: Tensor
    optimality: Tensor
    executed: Tensor

    @classmethod
    def of(cls, rollout: Rollout, optimality: Tensor) -> NftBatch:
        """Return the valid decisions of a rollout, with their optimality (N,)."""
        act = rollout.rows(rollout.x[:, :, -1])
        obs = {name: rollout.rows(tensor) for name, tensor in rollout.obs.items()}
        return cls(
            obs, act, optimality, executed_mask(rollout.rows(rollout.num_exec), act.shape[1])
        )

    def select(self, pick: Tensor) -> NftBatch:
        """Return the rows at these indices."""
        obs = {name: tensor[pick] for name, tensor in self.obs.items()}
        return NftBatch(obs, self.act[pick], self.optimality[pick], self.executed[pick])


def optimality(adv: Tensor, clip: float) -> Tensor:
    """Optimality r = clamp(A/(2c) + ½, 0, 1) of advantages (N,); ½ is average."""
    return (adv / (2.0 * clip) + 0.5).clamp(0.0, 1.0)


def nft_loss(
    new: Tensor,
    old: Tensor,
    optimality: Tensor,
    executed: Tensor,
    *,
    beta: float,
    self_normalized: bool,
) -> Tensor:
    """(r·E(e⁺) + (1−r)·E(e⁻))/β with e⁺ = β·e_θ + (1−β)·e_old, e⁻ = (1+β)·e_old − β·e_θ; (B,).

    E is the mean square over the executed actions. Self-normalisation divides it by the detached
    mean absolute error, so rows and times have similar weights. At r = 1 and β = 1 the result is
    the cloning loss, divided by that mean error.

    Args:
        new: (B, H, A), errors of the network under training.
        old: (B, H, A), errors of the acting network.
        optimality: (B,) r.
        executed: (B, H, 1) bool.
        beta: β; a small β gives large steps.
        self_normalized: Whether E is divided by the mean absolute error.
    """
    plus = beta * new + (1.0 - beta) * old
    minus = (1.0 + beta) * old - beta * new
    energies = [_energy(e, executed, self_normalized=self_normalized) for e in (plus, minus)]
    return (optimality * energies[0] + (1.0 - optimality) * energies[1]) / beta


def _energy(error: Tensor, executed: Tensor, *, self_normalized: bool) -> Tensor:
    square = executed_mean(error.square(), executed)
    if not self_normalized:
        return square
    return square / executed_mean(error.detach().abs(), executed).clamp(min=SMALLEST_ERROR)


def executed_mean(elements: Tensor, executed: Tensor) -> Tensor:
    """Mean of elements (B, H, A) over the executed actions (B, H, 1) bool; (B,)."""
    total = torch.where(executed, elements, 0.0).sum(dim=(1, 2))
    return total / (executed.sum(dim=(1, 2)) * elements.shape[2]).clamp(min=1)
