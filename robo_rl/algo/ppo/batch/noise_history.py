"""The previous noise of each decision, for exploration noise that is correlated in time.

Shapes: T decisions, B envs, N valid decisions, R units of J denoising steps, K denoising steps, H
horizon, A act_dim. ``policy.correlation`` explains why the scored policy recomputes the noise.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from robo_rl.algo.encoded_obs import EncodedObs
from robo_rl.algo.ppo.batch.chain_replay import ChainReplay
from robo_rl.algo.ppo.ratio_units import Units
from robo_rl.data.rollout import Rollout
from robo_rl.nets.embedding import repeat_rows
from robo_rl.policy.base import DenoisingPolicy


class NoiseHistory(NamedTuple):
    """The previous decision of each decision of a rollout.

    Args:
        obs: T·B rows, the whole rollout, with decisions that are not valid.
        x: (T·B, K+1, H, A), the chains of the whole rollout.
        k_star: (T·B,), the stochastic step of each chain, or None.
        initial_noise: (B, K, H, A), the noise before the rollout's first decisions.
        position: (N,) int64, index of each valid decision in the rollout.
        noise_continues: (N,) bool, whether the noise continues that of the previous decision.
        replay: See ``ActorBatch``; over all T·B chains.
    """

    obs: EncodedObs
    x: Tensor
    k_star: Tensor | None
    initial_noise: Tensor
    position: Tensor
    noise_continues: Tensor
    replay: ChainReplay | None = None

    @classmethod
    def of(cls, rollout: Rollout, obs: EncodedObs) -> NoiseHistory | None:
        """Return the noise history of a rollout; None if its noise is not correlated.

        Args:
            rollout: The rollout.
            obs: All of its observations, T·B rows.
        """
        if rollout.noise_continues is None or rollout.initial_noise is None:
            return None
        return cls(
            obs,
            rollout.x.flatten(0, 1),
            None if rollout.k_star is None else rollout.k_star.flatten(),
            rollout.initial_noise,
            rollout.valid_rows,
            rollout.rows(rollout.noise_continues),
        )

    def replayed(self, policy: DenoisingPolicy) -> NoiseHistory:
        """Return the history with replays of its chains, which ``policy`` sampled."""
        return self._replace(replay=ChainReplay.of(policy, self.obs, self.x))

    def noise(self, policy: DenoisingPolicy, units: Units) -> Tensor:
        """The previous noise of the units' steps, under ``policy``: (R·J, H, A)."""
        envs, terms = len(self.initial_noise), units.k.shape[1]
        here = self.position[units.row]
        earlier = (here - envs).clamp(min=0)
        embedding = self.obs.encode(policy, earlier)
        k = units.k if self.k_star is None else self.k_star[earlier][:, None]
        rows, k = earlier.repeat_interleave(terms), k.flatten()
        embedding, replay = repeat_rows(embedding, terms), self.replay
        x = self.x[rows, k] if replay is None else replay.last_state(policy, embedding, rows)
        kernel = policy.kernel(embedding, k, x)
        here = here.repeat_interleave(terms)
        carried = self.initial_noise[here % envs, units.k.flatten()]
        first = (here < envs)[:, None, None]
        return torch.where(first, carried, kernel.noise(self.x[rows, k + 1]))
