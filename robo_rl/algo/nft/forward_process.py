"""The loss of DiffusionNFT: learning from good and bad actions without any likelihood.

Shapes: B rows, H horizon, A act_dim. Source: DiffusionNFT, Zheng et al. 2025, arXiv 2509.16117,
theorem 3.2 and algorithm 1, and its code.

With r in [0, 1] the optimality of an action, v_old what the acting network says of its noised
state, v_θ what the network under training says of it, and v what cloning would teach,

    v⁺ = β·v_θ + (1−β)·v_old,    v⁻ = (1+β)·v_old − β·v_θ,
    L = E[ r·‖v⁺ − v‖² + (1−r)·‖v⁻ − v‖² ].

Where v_old is right on average, the minimiser at a state is v_old + (2/β)·Cov(r, v): towards what
good actions have more of than bad ones, by a step that r bounds.

Our times run from noise (t = 0) to action (t = 1), x = t·act + (1−t)·noise, vel = act − noise; the
paper's run the other way, x = (1−s)·act + s·noise, v = noise − act. With s = 1 − t and v = −vel
its prediction of the action is x − s·v± = x + (1−t)·vel±, and since x + (1−t)·(act − noise) = act,

    act± − act = (1−t)·(vel± − (act − noise)):

an error of the action is ``noise_level`` times one of the velocity. β and 1−β, 1+β and −β sum to
1, so the target v drops out of the mixture: the error of v± is the same mixture of the errors of
v_θ and v_old. Any family that knows the errors of its prediction can be trained; of ε-networks
``noise_level`` gives the error in the action's share of x.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from robo_rl.data.rollout import Rollout, executed_mask

SMALLEST_ERROR = 1e-5
"""Floor of the mean error that the loss is divided by; the reference code's."""


class NftBatch(NamedTuple):
    """What forward-process learning takes of a block.

    Args:
        obs: Name → (N, To, …).
        act: (N, H, A), the chunks that were drawn, normalised.
        optimality: (N,) r in [0, 1].
        executed: (N, H, 1) bool, the actions of the chunk that were executed.
    """

    obs: dict[str, Tensor]
    act: Tensor
    optimality: Tensor
    executed: Tensor

    @classmethod
    def of(cls, rollout: Rollout, optimality: Tensor) -> NftBatch:
        """The valid decisions of a block, with their optimality (N,)."""
        act = rollout.rows(rollout.x[:, :, -1])
        obs = {name: rollout.rows(tensor) for name, tensor in rollout.obs.items()}
        return cls(
            obs, act, optimality, executed_mask(rollout.rows(rollout.num_exec), act.shape[1])
        )

    def select(self, pick: Tensor) -> NftBatch:
        """Some rows of it."""
        obs = {name: tensor[pick] for name, tensor in self.obs.items()}
        return NftBatch(obs, self.act[pick], self.optimality[pick], self.executed[pick])


def optimality(adv: Tensor, clip: float) -> Tensor:
    """Optimality r = clamp(A/(2c) + ½, 0, 1) of advantages (N,), ½ is average."""
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

    E is the mean square over the executed actions, divided by the (detached) mean absolute error
    where it is self-normalised: every row and time then weighs about alike. At r = 1 and β = 1
    this is the cloning loss, over that mean error.

    Args:
        new: (B, H, A), errors of the network under training.
        old: (B, H, A), errors of the acting network.
        optimality: (B,) r.
        executed: (B, H, 1) bool.
        beta: How far θ is taken beyond the mixture; small β, large steps.
        self_normalized: See above.
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
    """Mean of elements (B, H, A) over the actions that were executed, (B, H, 1) bool; (B,)."""
    total = torch.where(executed, elements, 0.0).sum(dim=(1, 2))
    return total / (executed.sum(dim=(1, 2)) * elements.shape[2]).clamp(min=1)
