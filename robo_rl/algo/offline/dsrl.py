"""Steering by noise: a policy is left as it is, and the noise that it begins with is chosen.

Whatever the noise, what comes out is a chunk that the policy makes, so that the search stays where
its critics know something. Values of noise are learnt from those of the chunks that it becomes, and
nothing is differentiated through the chain (Wagenmaker et al. 2025, DSRL, arXiv 2506.15799,
algorithm 1, with noise aliasing):

    critics Q(o, a) ← rew + discount·(1 − terminated)·Q'(o', π(o', w')),  w' ~ actor(o')
    of noise W(o, w) ← Q(o, π(o, w)),  w ~ N(0, I)
    actor    W(o, w) + entropy

The chunks that steered noise becomes are cloned (``Seeker``), so that a policy goes on, and not a
policy with an actor in front of it.

Shapes: B rows of a batch, H horizon, A act_dim.
"""

from __future__ import annotations

from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.offline.action_search import Seeker, demand_decodes
from robo_rl.algo.offline.auxiliary_actor import SmallActor
from robo_rl.algo.offline_critics.base import LoggedCritics
from robo_rl.algo.offline_critics.td_critics import OwnCritics
from robo_rl.algo.supervised import Supervised
from robo_rl.core.seeding import initialising
from robo_rl.data.replay import Replay
from robo_rl.data.transitions import Transitions
from robo_rl.nets.ensemble import MlpEnsemble
from robo_rl.optim.optimizer import Descent, constant
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.chain import randn


class Dsrl(Seeker):
    """Clones what comes of noise that an actor chooses; an ``Improver``.

    Args:
        cfg: See Config.
        policy: Is steered, and where cloning begins; stays as it is.
        critics: Their Q' is where the critics of chunks begin.
        replay: The data.
        steps: Length of the schedule.
        generator: Draws batches, noise and times.
    """

    class Config(OwnCritics.Config):
        """``bound`` of the noise's elements, the actor, the values of noise, and cloning."""

        bound: float = Field(default=0.5, gt=0.0)
        actor: SmallActor.Config = SmallActor.Config()
        noise_lr: float = Field(default=1e-3, gt=0.0)
        optim: Supervised.Config = Supervised.Config(lr=3e-4)

    def __init__(
        self,
        cfg: Config,
        policy: DenoisingPolicy,
        critics: LoggedCritics,
        replay: Replay,
        *,
        steps: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__(cfg.optim, cfg.minibatch, policy, replay, steps=steps, generator=generator)
        self.cfg, self.critics = cfg, OwnCritics(cfg, critics)
        seen = policy.obs_spec.size * policy.obs_horizon
        noise = policy.horizon * policy.act_spec.size
        with initialising("dsrl", generator.initial_seed()):
            self.actor = SmallActor(cfg.actor, seen, noise, cfg.bound)
            sizes = [seen + noise, *cfg.actor.hidden, 1]
            self.worth = MlpEnsemble(1, sizes, layer_norm=True)
        self.descent = Descent(self.worth.parameters(), cfg.noise_lr, cfg.grad_clip)

    @staticmethod
    def check_settings(policy: DenoisingPolicy.Config) -> None:
        """See ``Choosy``."""
        demand_decodes(policy)

    def find(self, batch: Transitions) -> tuple[Tensor, dict[str, float]]:
        """See ``Seeker``: what steered noise becomes; losses, and what it is worth.

        Raises:
            PluginError: Gradients were not finite for long.
        """
        with torch.no_grad():
            ahead = self.critics.ahead(
                batch.next_obs, self._steered(batch.next_obs), self.generator
            )
        found = {"critic_loss": self.critics.step(batch, ahead, self.generator)}
        seen = self.critics.critic.encode(batch.obs)
        found["noise_loss"] = self._learn_noise(batch.obs, seen)
        with constant(self.worth):
            found["value"] = self.actor.climb(seen, lambda w: self._worth(seen, w), self.generator)
        return self._steered(batch.obs), found

    @torch.no_grad()
    def _steered(self, obs: dict[str, Tensor]) -> Tensor:
        """What the policy makes of the actor's noise: (B, H, A)."""
        return self._made(obs, self.actor.draw(self.critics.critic.encode(obs), self.generator))

    def _made(self, obs: dict[str, Tensor], noise: Tensor) -> Tensor:
        """Of noise (B, H·A)."""
        shape = (len(noise), self.draws_from.horizon, -1)
        return self.draws_from.decode_normalized(obs, noise.view(shape))

    def _learn_noise(self, obs: dict[str, Tensor], seen: Tensor) -> float:
        with torch.no_grad():
            noise = randn((len(seen), self.actor.outputs), self.generator)
            wanted = self.critics.worth(obs, self._made(obs, noise), self.generator)
        loss = (self._worth(seen, noise) - wanted).square().mean()
        self.descent.step(loss)
        return float(loss.detach())

    def _worth(self, seen: Tensor, noise: Tensor) -> Tensor:
        """W of noise (B, H·A) in states seen (B, O): (B,)."""
        return self.worth(torch.cat([seen, noise], dim=-1))[0, :, 0]

    def state_dict(self) -> dict[str, Any]:
        """For checkpoints."""
        return {
            "trainer": super().state_dict(),
            "critics": self.critics.state_dict(),
            "actor": self.actor.state_dict(),
            "worth": self.worth.state_dict(),
            "optim": self.descent.optim.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state_dict``."""
        super().load_state_dict(state["trainer"])
        self.critics.load_state_dict(state["critics"])
        self.actor.load_state_dict(state["actor"])
        self.worth.load_state_dict(state["worth"])
        self.descent.optim.load_state_dict(state["optim"])
