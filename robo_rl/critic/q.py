"""The action-value critic Q(o, chunk) of off-policy learning, an ensemble.

Shapes: M members, B rows, To observations of history, O observation features, H actions of a chunk,
E executed ones (E ≤ H), A act_dim. Chunks are in network units, as chains are.
"""

from __future__ import annotations

from typing import Literal, Protocol, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from robo_rl.config.models import ConfigModel
from robo_rl.core.spec import ActSpec, ObsSpec
from robo_rl.critic.heads import HeadConfig, HistogramHead, make_head
from robo_rl.critic.inputs import critic_inputs
from robo_rl.nets.ensemble import MlpEnsemble
from robo_rl.policy.base import DenoisingPolicy

_ACTIVATIONS: dict[str, type[nn.Module]] = {"silu": nn.SiLU, "relu": nn.ReLU}


class InputScaling(Protocol):
    """Maps observations and actions to network units, such as the policy's ``Normalizer``."""

    def features(self, obs: dict[str, Tensor], names: tuple[str, ...]) -> Tensor:
        """Map name → (B, To, …) to flattened network inputs (B, O)."""
        ...

    def act_limits(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Return limits (A,) of actions in network units."""
        ...


class QCritic(nn.Module):
    """M MLPs from the normalised observation and the executed part of the chunk to its value.

    A target network is an ``Ema`` of it. The critic reads the first E actions only. It clamps them
    to the limits of ``act_spec``, as the env does.

    Args:
        cfg: See Config.
        obs_spec: Observation of one step of the env.
        act_spec: One step's action.
        obs_horizon: To.
        exec_horizon: E.
        normalizer: The policy's normaliser.

    Raises:
        SpecError: See ``critic_inputs``.
    """

    low: Tensor
    high: Tensor

    class Config(ConfigModel):
        """Items that the critic reads, size of the ensemble, hidden layers, and the loss."""

        sees: tuple[str, ...] = ()
        """Items of the env's observation that the critic reads; empty for all vectors."""
        members: int = Field(default=4, ge=1)
        """Networks of the ensemble."""
        hidden: tuple[int, ...] = Field(default=(256, 256), min_length=1)
        """Widths of the hidden layers."""
        layer_norm: bool = True
        """Whether hidden layers have layer normalisation."""
        activation: Literal["silu", "relu"] = "silu"
        """Activation of the hidden layers."""
        head: HeadConfig = HeadConfig()
        """Output head and loss of the values."""

        def demand_values(self) -> Self:
            """Return the settings of critics that learn from values, not from distributions.

            Raises:
                ValueError: The head is ``categorical``, which would learn the mean alone.
            """
            if self.head.kind == "categorical":
                raise ValueError(
                    "head.kind: 'categorical' learns the distribution of returns, and these critics"
                    " learn from values; take two_hot or hl_gauss"
                )
            return self

    def __init__(
        self,
        cfg: Config,
        obs_spec: ObsSpec,
        act_spec: ActSpec,
        *,
        obs_horizon: int,
        exec_horizon: int,
        normalizer: InputScaling,
    ) -> None:
        super().__init__()
        seen = critic_inputs(obs_spec, cfg.sees)
        self.names, self.normalizer = tuple(seen.items), normalizer
        self.members, self.exec_horizon = cfg.members, exec_horizon
        self.register_buffer("low", _limit(act_spec.low, act_spec, -torch.inf), persistent=False)
        self.register_buffer("high", _limit(act_spec.high, act_spec, torch.inf), persistent=False)
        self.head, self.distributional = make_head(cfg.head), cfg.head.kind == "categorical"
        self.features = seen.size * obs_horizon
        self.num_inputs = self.features + act_spec.size * exec_horizon
        self.net = MlpEnsemble(
            cfg.members,
            [self.num_inputs, *cfg.hidden, self.head.outputs],
            layer_norm=cfg.layer_norm,
            activation=_ACTIVATIONS[cfg.activation],
        )

    @classmethod
    def of_policy(cls, cfg: Config, policy: DenoisingPolicy) -> QCritic:
        """Return critics of a policy's decisions, on its device."""
        return cls(
            cfg,
            policy.env_spec,
            policy.act_spec,
            obs_horizon=policy.obs_horizon,
            exec_horizon=policy.exec_horizon,
            normalizer=policy.normalizer,
        ).to(policy.normalizer.device, policy.normalizer.dtype)

    def forward(self, obs: dict[str, Tensor], act: Tensor) -> Tensor:
        """Map name → (B, To, …) and chunks (B, H, A) to values (M, B)."""
        return self.values_from_features(self.encode(obs), act)

    def loss(self, obs: dict[str, Tensor], act: Tensor, target: Tensor) -> Tensor:
        """Loss (M, B) of each member and row; target (B,) for all members, or (M, B).

        Sum it over the members, so that each learns independently.
        """
        return self.loss_from_features(self.encode(obs), act, target)

    @property
    def histogram(self) -> HistogramHead:
        """The head of a distributional critic."""
        assert isinstance(self.head, HistogramHead)
        return self.head

    def distributions(self, obs: dict[str, Tensor], act: Tensor) -> Tensor:
        """Probabilities of the bins (M, B, n) of a distributional critic."""
        return self._out(self.encode(obs), act).softmax(-1)

    def distribution_loss(self, obs: dict[str, Tensor], act: Tensor, law: Tensor) -> Tensor:
        """Cross-entropy (M, B) for one target distribution (B, n) of all members."""
        return self.histogram.distribution_loss(self._out(self.encode(obs), act), law)

    def encode(self, obs: dict[str, Tensor]) -> Tensor:
        """Return the normalised observation, flattened: (B, O); once for many chunks."""
        return self.normalizer.features(obs, self.names)

    def values_from_features(self, features: Tensor, act: Tensor) -> Tensor:
        """Return values (M, B) for features (B, O) of ``encode``."""
        return self.head.value(self._out(features, act))

    def loss_from_features(self, features: Tensor, act: Tensor, target: Tensor) -> Tensor:
        """Return the loss (M, B) for features (B, O) of ``encode``."""
        return self.head.loss(self._out(features, act), target)

    def join_inputs(self, features: Tensor, act: Tensor) -> Tensor:
        """Concatenate features (B, O) and the executed actions of chunks (B, H, A), clamped."""
        low, high = self.normalizer.act_limits(self.low, self.high)
        executed = act[:, : self.exec_horizon].clamp(low, high)
        return torch.cat([features, executed.flatten(1)], dim=-1)

    def _out(self, features: Tensor, act: Tensor) -> Tensor:
        return self.net(self.join_inputs(features, act))


def td_target(rew: Tensor, discount: Tensor, terminated: Tensor, next_value: Tensor) -> Tensor:
    """Bootstrapped value of a transition of whole chunks, all (…).

    rew + discount · (1 − terminated) · next_value. rew is the discounted sum within the chunk, and
    discount is γ to the power of the number of executed steps (semi-Markov; Sutton, Precup & Singh
    1999, eq. 15). A truncated episode bootstraps from its true successor.
    """
    return rew + discount * ~terminated * next_value


def _limit(limit: tuple[float, ...], act_spec: ActSpec, without: float) -> Tensor:
    """A limit of the env's actions in physical units, with the shape of one action."""
    return torch.tensor(limit or (without,)).expand(act_spec.shape).clone()
