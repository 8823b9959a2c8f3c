"""PPO on denoising chains; it never learns which policy family it trains.

Shapes: T decisions, B envs, N valid decisions, R units of J denoising steps, H horizon, A
act_dim, K denoising steps. Sources: Schulman et al. 2017 (1707.06347); DPPO (2409.00588) for the
denoising discount; pi_RL (2510.25889).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.descent import Descent
from robo_rl.algo.ratio import RatioMode, Units, make_units, units_per_decision
from robo_rl.algo.returns import ReturnScale, gae
from robo_rl.algo.surrogate import ActorData, Surrogate, clipped_surrogate
from robo_rl.config import ConfigModel
from robo_rl.critic.value import ValueCritic
from robo_rl.data.rollout import Rollout
from robo_rl.errors import ConfigError, PluginError
from robo_rl.policy.base import DenoisingPolicy

RATIO_TOLERANCE = 1e-3


class Ppo:
    """Actor and critic with their optimisers.

    Args:
        cfg: See Config.
        policy: Trained in place.
        num_envs: B, for the running return scale.
        seed_generator: Draws the minibatches.
    """

    class Config(ConfigModel):
        """Hyper-parameters.

        ``clip`` is ε of the joint ratio of a unit (log-probabilities are summed, never averaged);
        ``target_kl`` is the chain's KL per update in nats: above twice of it the update stops,
        and the actor's learning rate falls or rises by 1.5 to stay near it, within ``lr_min`` and
        ``lr_max``. ``warmup_updates`` train the critic alone. ``denoise_discount`` is γ_den of
        per_step.
        """

        ratio: RatioMode = RatioMode.JOINT
        lr: float = Field(default=1e-4, gt=0.0)
        lr_min: float = Field(default=1e-6, gt=0.0)
        lr_max: float = Field(default=1e-3, gt=0.0)
        critic_lr: float = Field(default=1e-3, gt=0.0)
        epochs: int = Field(default=4, ge=1)
        critic_epochs: int = Field(default=4, ge=1)
        minibatch: int = Field(default=1024, ge=1)
        clip: float = Field(default=0.2, gt=0.0)
        gae_lambda: float = Field(default=0.95, ge=0.0, le=1.0)
        denoise_discount: float = Field(default=0.99, gt=0.0, le=1.0)
        target_kl: float = Field(default=0.1, gt=0.0)
        grad_clip: float = Field(default=1.0, gt=0.0)
        weight_decay: float = Field(default=0.0, ge=0.0)
        warmup_updates: int = Field(default=2, ge=0)
        critic: ValueCritic.Config = ValueCritic.Config()

    def __init__(
        self, cfg: Config, policy: DenoisingPolicy, num_envs: int, generator: torch.Generator
    ) -> None:
        if not bool(policy.trainable_steps.any()):
            raise ConfigError(
                "no denoising step is both stochastic and trained",
                hint="use an exploring sampler (flow_noise, flow_sde …), or more finetune_steps",
            )
        self.cfg, self.policy, self.generator = cfg, policy, generator
        self.critic = ValueCritic(
            cfg.critic, policy.obs_spec, policy.obs_horizon, policy.normalizer
        )
        params = (p for p in policy.parameters() if p.requires_grad)
        self.actor = Descent(params, cfg.lr, cfg.grad_clip, cfg.weight_decay)
        self.critic_descent = Descent(self.critic.net.parameters(), cfg.critic_lr, cfg.grad_clip)
        self.scale = ReturnScale(num_envs)
        self.one_step = cfg.ratio is RatioMode.ONE_STEP
        self.updates = 0

    @property
    def lr(self) -> float:
        """The actor's learning rate as it stands."""
        return self.actor.lr

    def update(self, rollout: Rollout) -> dict[str, float]:
        """Learn from one block; returns metrics."""
        rew = self._scale_rewards(rollout)
        adv, returns = self._advantages(rollout, rew)
        obs = {name: rollout.rows(tensor) for name, tensor in rollout.obs.items()}
        metrics = self._fit_critic(obs, rollout.rows(returns))
        if self.updates >= self.cfg.warmup_updates:
            metrics |= self._fit_actor(ActorData.of(rollout, adv), self._units(rollout))
        self.updates += 1
        skipped = float(self.actor.skipped + self.critic_descent.skipped)
        return metrics | {
            "lr": self.lr,
            "return_scale": self.scale.std,
            "skipped_steps": skipped,
        }

    def _scale_rewards(self, rollout: Rollout) -> Tensor:
        self.scale.update(rollout.rew, rollout.discount, rollout.terminated | rollout.truncated)
        return rollout.rew / self.scale.std

    @torch.no_grad()
    def _advantages(self, rollout: Rollout, rew: Tensor) -> tuple[Tensor, Tensor]:
        value = self._values(rollout.obs)
        next_value = torch.cat([value[1:], self.critic(rollout.last_obs)[None]])
        if len(rollout.ended):
            t, env = rollout.ended.T
            next_value[t, env] = self.critic(rollout.final_obs)
        return gae(
            rew,
            value,
            next_value,
            terminated=rollout.terminated,
            truncated=rollout.truncated,
            valid=rollout.valid,
            discount=rollout.discount,
            lam=self.cfg.gae_lambda,
        )

    def _values(self, obs: dict[str, Tensor]) -> Tensor:
        steps, envs = next(iter(obs.values())).shape[:2]
        return self.critic({name: o.flatten(0, 1) for name, o in obs.items()}).view(steps, envs)

    def _fit_critic(self, obs: dict[str, Tensor], returns: Tensor) -> dict[str, float]:
        with torch.no_grad():
            residual = returns - self.critic(obs)
        for _ in range(self.cfg.critic_epochs):
            for pick in self._minibatches(len(returns)):
                value = self.critic({name: o[pick] for name, o in obs.items()})
                loss = 0.5 * (value - returns[pick]).square().mean()
                self.critic_descent.step(loss)
        explained = 1.0 - float(residual.var() / returns.var().clamp(min=1e-8))
        return {"value_loss": 0.5 * float(residual.square().mean()), "explained": explained}

    def _fit_actor(self, data: ActorData, units: Units) -> dict[str, float]:
        """Epochs over all units, until a minibatch's chain KL is above twice its target."""
        share = units_per_decision(self.cfg.ratio, self._steps)
        stats: list[Surrogate] = []
        batches = 0
        for pick in self._passes(units):
            batch = Units(units.row[pick], units.k[pick])
            weight = self._step_discount(batch.k)
            stats.append(clipped_surrogate(self.policy, data, batch, weight, self.cfg.clip))
            if len(stats) == 1:
                _assert_fresh(stats[0].ratio_error)
            if share * stats[-1].kl > 2.0 * self.cfg.target_kl:
                break
            self.actor.step(stats[-1].loss)
            batches += 1
        last = stats[-self._batches(units) :]
        kl = share * sum(s.kl for s in last) / len(last)
        self._adapt_lr(kl)
        return {
            "kl": kl,
            "clipped": sum(s.clipped for s in stats) / len(stats),
            "actor_steps": float(batches),
            "ratio_error": stats[0].ratio_error,
        }

    def _units(self, rollout: Rollout) -> Units:
        k_star = None if rollout.k_star is None else rollout.rows(rollout.k_star)
        return make_units(self.cfg.ratio, int(rollout.valid.sum()), self._steps, k_star)

    @property
    def _steps(self) -> Tensor:
        return self.policy.trainable_steps.nonzero().flatten()

    def _passes(self, units: Units) -> Iterator[Tensor]:
        """The minibatches of all epochs."""
        for _ in range(self.cfg.epochs):
            yield from self._minibatches(len(units.row))

    def _batches(self, units: Units) -> int:
        """Minibatches of one epoch."""
        return -(-len(units.row) // self.cfg.minibatch)

    def _step_discount(self, k: Tensor) -> Tensor | float:
        """γ_den^(K−1−k) for per_step units, else 1 (DPPO, section 4.3)."""
        if self.cfg.ratio is not RatioMode.PER_STEP:
            return 1.0
        return self.cfg.denoise_discount ** (self.policy.num_steps - 1 - k[:, 0]).float()

    def _minibatches(self, size: int) -> Iterator[Tensor]:
        """A shuffled pass; minibatches of nearly equal size, at most the configured one."""
        order = torch.randperm(size, generator=self.generator)
        return iter(order.tensor_split(-(-size // self.cfg.minibatch)))

    def _adapt_lr(self, kl: float) -> None:
        """Keep the update's KL near its target: rsl_rl's rule, per update."""
        factor = 1.0
        if kl > 2.0 * self.cfg.target_kl:
            factor = 1.0 / 1.5
        elif kl < 0.5 * self.cfg.target_kl:
            factor = 1.5
        self.set_lr(self.lr * factor)

    def set_lr(self, lr: float) -> None:
        """Set the actor's learning rate, within its bounds."""
        self.actor.set_lr(min(max(lr, self.cfg.lr_min), self.cfg.lr_max))

    def actor_state(self) -> dict[str, Any]:
        """Policy and its optimiser."""
        return {"policy": self.policy.state_dict(), "optim": self.actor.optim.state_dict()}

    def go_back(self, state: dict[str, Any]) -> None:
        """Return to an earlier ``actor_state``, at half of the present rate."""
        lr = self.lr
        self.policy.load_state_dict(state["policy"])
        self.actor.optim.load_state_dict(state["optim"])
        self.set_lr(0.5 * lr)

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs, as nested dicts of tensors and numbers."""
        return self.actor_state() | {
            "critic": self.critic.state_dict(),
            "critic_optim": self.critic_descent.optim.state_dict(),
            "scale": self.scale.state_dict(),
            "updates": self.updates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state_dict``."""
        self.policy.load_state_dict(state["policy"])
        self.actor.optim.load_state_dict(state["optim"])
        self.critic.load_state_dict(state["critic"])
        self.critic_descent.optim.load_state_dict(state["critic_optim"])
        self.scale.load_state_dict(state["scale"])
        self.updates = state["updates"]


def _assert_fresh(error: float) -> None:
    """On the first minibatch of an update the ratio is 1, or sampling and scoring differ."""
    if not error <= RATIO_TOLERANCE:  # NaN does not pass
        raise PluginError(
            "the likelihood ratio on the first minibatch is not 1",
            expected=f"|ratio − 1| ≤ {RATIO_TOLERANCE}",
            found=f"{error:.2e}",
            hint="sample() and kernel() disagree: dropout, batch norm, another time grid?",
        )
