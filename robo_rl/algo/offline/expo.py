"""EXPO: selects the best of a policy's chunks and of bounded edits of them.

An actor sees the policy's chunk and adds a bounded edit that raises Q. The search takes the chunk
with the highest Q among several chunks and their edits. TD targets use the same search (Dong et al.
2025, EXPO, arXiv 2507.07986, section 4):

    â = a + e,  e ~ actor(o, a) in (−bound, bound),  a ~ π(o)
    π*(o) = argmax Q over a_1 … a_m, â_1 … â_m
    critics Q(o, a) ← rew + discount·(1 − terminated)·max Q' over π*'s candidates at o'
    actor    Q(o, â) + entropy

No value gradient reaches π. The chunks of π* are cloned (``ActionSearch``), so the resulting policy
needs no critics to act.

Shapes: N rows of a batch, m draws a row, H horizon, A act_dim.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.offline.action_search import ActionSearch
from robo_rl.algo.offline.auxiliary_actor import AuxiliaryActor
from robo_rl.algo.offline.base import OfflineInputs
from robo_rl.algo.offline_critics.td_critics import TdCritics
from robo_rl.algo.policy_samples import draw_candidates
from robo_rl.algo.supervised import SupervisedTrainer
from robo_rl.core.seeding import seeded_initialization
from robo_rl.data.transitions import Transitions
from robo_rl.optim.optimizer import frozen_weights


class SearchResult(NamedTuple):
    """Result of the search at N observations.

    Args:
        drawn: (N, H, A), one of the policy's own chunks.
        drawn_q_value: (N,), its value.
        chunk: (N, H, A), the best candidate.
        q_value: (N,), its value.
    """

    drawn: Tensor
    drawn_q_value: Tensor
    chunk: Tensor
    q_value: Tensor


class Expo(ActionSearch):
    """Clones the best of a policy's chunks and their edits.

    Args:
        cfg: See Config.
        inputs: See ``OfflineInputs``.
    """

    class Config(TdCritics.Config):
        """Number of draws m, edit bound in network units, actor, and cloning."""

        minibatch: int = Field(default=128, ge=1)
        """Rows of a minibatch."""
        num_samples: int = Field(default=4, ge=1)
        """Chunks drawn per observation."""
        edit_bound: float = Field(default=0.02, gt=0.0)
        """Bound of the absolute value of an edit's elements, in network units."""
        actor: AuxiliaryActor.Config = AuxiliaryActor.Config()
        """The actor that edits chunks."""
        optim: SupervisedTrainer.Config = SupervisedTrainer.Config(lr=3e-4)
        """Optimiser, learning-rate schedule and weight averaging."""

    state_parts = ("critics", "actor")

    def __init__(self, cfg: Config, inputs: OfflineInputs) -> None:
        super().__init__(cfg, cfg.optim, cfg.minibatch, inputs)
        self.cfg, self.critics = cfg, TdCritics(cfg, inputs.critics)
        policy = inputs.policy
        seen = self.critics.critic.features
        chunk = policy.horizon * policy.act_spec.size
        with seeded_initialization("expo", self.generator.initial_seed()):
            self.actor = AuxiliaryActor(
                cfg.actor, seen + chunk, chunk, cfg.edit_bound, policy.device
            )

    def search(self, batch: Transitions) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the best chunks, the losses, the mean value of the edits, and the Q gain.

        Raises:
            PluginError: Gradients were not finite for long.
        """
        ahead = self.best(batch.next_obs, ahead=True).q_value
        found = {"critic_loss": self.critics.step(batch, ahead, self.generator)}
        best = self.best(batch.obs)
        found["value"] = self._climb(batch.obs, best.drawn)
        return best.chunk, {**found, "q_gain": (best.q_value - best.drawn_q_value).mean()}

    @torch.no_grad()
    def best(self, obs: dict[str, Tensor], *, ahead: bool = False) -> SearchResult:
        """Return the best of the policy's chunks and their edits.

        Args:
            obs: Name → (N, To, …).
            ahead: Whether the target network Q' scores the candidates, instead of Q.
        """
        draws = self.cfg.num_samples
        many = {name: each.repeat_interleave(draws, dim=0) for name, each in obs.items()}
        drawn = draw_candidates(self.inputs.policy, many, self.generator)
        edited = drawn + self.actor.sample(self._inputs(many, drawn), self.generator).view_as(drawn)
        judge = self.critics.next_q if ahead else self.critics.q_value
        twice = {name: torch.cat([each, each]) for name, each in many.items()}
        worth = judge(twice, torch.cat([drawn, edited]), self.generator)
        # (2·N·m) to (N, 2·m)
        choice = worth.view(2, -1, draws).transpose(0, 1).flatten(1)
        chunks = torch.stack([drawn, edited]).unflatten(1, (-1, draws)).transpose(0, 1)
        top, rows = choice.argmax(dim=1), torch.arange(len(choice), device=choice.device)
        best = chunks.flatten(1, 2)[rows, top]
        return SearchResult(drawn[::draws], choice[:, 0], best, choice[rows, top])

    def _climb(self, obs: dict[str, Tensor], drawn: Tensor) -> Tensor:
        """Take one actor step at chunks (N, H, A) of the policy; returns the mean value."""

        def worth(edit: Tensor) -> Tensor:
            return self.critics.q_value(obs, drawn + edit.view_as(drawn), self.generator)

        with frozen_weights(self.critics.critic.net):
            return self.actor.update(self._inputs(obs, drawn), worth, self.generator)

    def _inputs(self, obs: dict[str, Tensor], drawn: Tensor) -> Tensor:
        return torch.cat([self.critics.critic.encode(obs), drawn.flatten(1)], dim=-1)
