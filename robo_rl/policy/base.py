"""The denoising policy: base class of all policy families.

Shapes: B rows, To observations of history, H horizon, A act_dim, K denoising steps, C embedding
width. Observations are name → (B, To, …) in physical units; chains are in normalised action space.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor, nn

from robo_rl.config.registry import name_of
from robo_rl.core.errors import ConfigError
from robo_rl.core.spec import ActSpec, ObsSpec
from robo_rl.data.normalize import Normalizer
from robo_rl.data.relative_actions import check_relative
from robo_rl.nets.base import ChunkNet
from robo_rl.nets.embedding import Embedding
from robo_rl.nets.encoders.base import ObsEncoder, ObsFeatures
from robo_rl.policy.chain import (
    Chain,
    Predict,
    PreviousNoise,
    Sampler,
    draw_chain,
    mean_chain,
    row_correlation,
)
from robo_rl.policy.config import PolicyConfig
from robo_rl.policy.correlation import Correlation, correlate_start
from robo_rl.policy.denoiser import Denoiser, chain_predictor, zero_init_noise_head
from robo_rl.policy.inpaint import InpaintTarget
from robo_rl.policy.kernels.base import Kernel
from robo_rl.policy.noise import std_scale
from robo_rl.policy.schedule import at_progress, start_value


class DenoisingPolicy(nn.Module):
    """A network with two samplers: one explores, the other evaluates and is exported.

    A family defines the training loss (``loss``) and the evaluation sampler
    (``make_eval_sampler``).

    Args:
        cfg: The family's ``Config``.
        obs_spec: Observation of one step of the env. The policy reads the items ``sees`` of it.
        act_spec: One step's action.
        normalizer: Maps both to and from network units; saved with the policy.

    Attributes:
        obs_spec: The items that the policy reads: the inputs of an exported graph.
        env_spec: All items of the env; a critic may read the others.

    Raises:
        SpecError: The policy does not support these observations.
    """

    Config = PolicyConfig
    reparameterized: ClassVar[bool] = True
    """Whether samples are functions of Gaussian noise, through which gradients flow."""
    maps_noise: ClassVar[bool] = True
    """Whether the evaluated chunk depends on the noise x[0]."""
    depends_on_actions: ClassVar[bool] = False
    """Whether settings may not fit the env's actions; a run then builds the policy at its start."""

    def __init__(
        self, cfg: PolicyConfig, obs_spec: ObsSpec, act_spec: ActSpec, normalizer: Normalizer
    ) -> None:
        super().__init__()
        self.env_spec, self.obs_spec = obs_spec, self.check_obs(cfg, obs_spec)
        check_relative(cfg.relative_to, self.obs_spec, act_spec, normalizer.relative_to)
        self.cfg, self.act_spec = cfg, act_spec
        self.obs_horizon, self.horizon = cfg.obs_horizon, cfg.horizon
        self.exec_horizon, self.num_steps = cfg.exec_horizon, cfg.num_steps
        self.normalizer = normalizer
        self.sampler: Sampler
        self.correlation: Correlation
        self.set_progress(0.0)
        self.eval_sampler = self.make_eval_sampler(cfg.num_steps)
        encoder: ObsEncoder = cfg.encoder.build(self.obs_spec, cfg.obs_horizon)
        self.net: ChunkNet = self.make_net(encoder.num_features)
        self.net.encoder = encoder
        self.noise_head = self.make_noise_head() if self.sampler.learns_noise else None
        self.reference_net: nn.Module | None = None
        self.reference_noise_head: nn.Module | None = None

    @classmethod
    def check_obs(cls, cfg: PolicyConfig, obs_spec: ObsSpec) -> ObsSpec:
        """Check that a policy can read these observations; return the items that it reads.

        Raises:
            SpecError: ``sees`` names an item that the env lacks, or the encoder does not read the
                items.
        """
        seen = obs_spec.select(cfg.sees, "policy.sees") if cfg.sees else obs_spec
        cfg.encoder.cls.check_obs(cfg.encoder.cfg, seen)
        return seen

    @classmethod
    def schedule_settings(cls, cfg: PolicyConfig) -> dict[str, float]:
        """Return what x[k] of a chain, and evaluation, take from the exploring sampler."""
        del cfg
        return {}

    def set_progress(self, progress: float) -> None:
        """Set the exploration schedule to this share of training, in [0, 1].

        A chain that is scored after the next call is scored under other noise. A new policy has
        progress 0; a loaded policy keeps its progress.
        """
        self.progress = progress
        chosen = self.cfg.sampler
        if chosen.cfg is not None:
            chosen = replace(chosen, cfg=at_progress(chosen.cfg, progress))
        scale = std_scale(chosen.cfg, self.act_spec, self.normalizer, self.exec_horizon)
        self.sampler = chosen.build(self.cfg.num_steps, *scale)
        self.correlation = at_progress(self.cfg.correlation, progress)

    @abstractmethod
    def make_eval_sampler(self, num_steps: int) -> Sampler:
        """Return the deterministic sampler of evaluation and export."""

    @abstractmethod
    def loss(self, obs: dict[str, Tensor], act: Tensor, generator: torch.Generator) -> Tensor:
        """The family's behaviour-cloning loss (B,) of act (B, H, A) in physical units."""

    def interpret(self, out: Tensor, x: Tensor, t: Tensor) -> Tensor:
        """Convert the network's output at x (B, H, A), t (B,) to the sampler's prediction type."""
        del x, t
        return out

    def denoise(
        self, net: ChunkNet, k: Tensor, x: Tensor, t: Tensor, embedding: Embedding
    ) -> Tensor:
        """Return a network's prediction at x (B, H, A), steps k (B,) and flow times t (B,)."""
        del k
        return self.interpret(net(x, t, embedding).to(x), x, t)

    def make_net(self, features: int) -> ChunkNet:
        """Return the network for this number of features of an observation."""
        return self.cfg.net.build(self.cfg.horizon, self.act_spec.size, features)

    def make_noise_head(self) -> nn.Module:
        """Return the noise network: (embedding, time features) → raw level per action element."""
        return zero_init_noise_head(self.net.embed_dim, self.horizon * self.act_spec.size)

    @property
    def device(self) -> torch.device:
        """Where it is, and so what it is handed."""
        return self.normalizer.device

    @property
    def family(self) -> str:
        """Name under which the class is registered.

        Raises:
            PluginError: No installed distribution registers the class.
        """
        return name_of("policies", type(self))

    @property
    def learns_spread(self) -> bool:
        """Whether the network decides how widely actions are drawn, as an entropy bonus needs."""
        return self.sampler.learns_noise

    @property
    def num_trained(self) -> int:
        """K', the number of last steps that RL trains."""
        return self.cfg.finetune_steps or self.num_steps

    @property
    def trainable_steps(self) -> Tensor:
        """(K,) bool: steps that are stochastic and trained by RL."""
        frozen = self.num_steps - self.num_trained
        return self.sampler.stochastic & (torch.arange(self.num_steps) >= frozen)

    def freeze_reference(self) -> None:
        """Keep a frozen copy of the networks as the reference policy.

        Steps before the last K' run on this copy.
        """
        self.reference_net = copy.deepcopy(cast(nn.Module, self.net)).requires_grad_(False)
        if self.noise_head is not None:
            self.reference_noise_head = copy.deepcopy(self.noise_head).requires_grad_(False)

    def reference_policy(self) -> Self:
        """Return a frozen copy of this policy with the weights of ``freeze_reference``.

        It shares the policy's normaliser, so changes of the normaliser apply to both.

        Raises:
            ConfigError: ``freeze_reference`` was not called.
        """
        if self.reference_net is None:
            raise ConfigError(
                "the policy keeps no base", hint="call freeze_reference() before training it"
            )
        shared: dict[int, Any] = {id(self.normalizer): self.normalizer}
        base = copy.deepcopy(self, shared).requires_grad_(False)
        base.net, base.noise_head = cast(Any, base.reference_net), base.reference_noise_head
        base.reference_net = base.reference_noise_head = None
        return base

    def features(self, obs: dict[str, Tensor]) -> ObsFeatures:
        """Return the items that the policy reads: vectors in network units, images, words."""
        images = {name: obs[name] for name in self.obs_spec.image_names}
        words = {name: obs[name] for name in self.obs_spec.word_names}
        vectors = self.normalizer.features(
            obs, self.obs_spec.vector_names, compressed=self.cfg.encoder.cls.compresses
        )
        return ObsFeatures(vectors, images, words)

    def encode(self, obs: dict[str, Tensor]) -> Embedding:
        """Map observations to an embedding; once per chain."""
        return self.net.encode(self.features(obs))

    def kernel(self, embedding: Embedding, k: Tensor, x: Tensor) -> Kernel:
        """Return the exploring sampler's kernel of x[k+1] given x (B, H, A) at steps k (B,)."""
        prediction = self._denoiser.predict(self.sampler, embedding, k, x)
        return self.sampler.kernel(k, x, prediction)

    def correlate_noise(self, kernel: Kernel, before: Tensor, continues: Tensor) -> Kernel:
        """Return the kernel of a step, conditional on its noise in the previous decision.

        Args:
            kernel: The unconditional kernel, from ``kernel``.
            before: (B, H, A), ``Kernel.noise`` of the previous decision.
            continues: (B,) bool, rows with a previous decision in the same episode.
        """
        return kernel.given_previous_noise(
            before, row_correlation(continues, start_value(self.correlation.noise), kernel.mean)
        )

    def sample(
        self,
        obs: dict[str, Tensor],
        generator: torch.Generator,
        *,
        single_step: bool = False,
        past: PreviousNoise | None = None,
        grad_steps: int | None = None,
        encoded: Embedding | None = None,
    ) -> Chain:
        """Sample a chain with its log-probabilities from the exploring sampler.

        Args:
            obs: Name → (B, To, …).
            generator: Source of the noise.
            single_step: Whether each row has one stochastic step (see ``draw_chain``).
            past: Previous noise, for correlated exploration; None draws independent noise.
            grad_steps: Number of last steps through which gradients flow, if gradients are on.
            encoded: What the encoder makes of obs, if it is at hand; B rows. The reference network
                then has that encoder too.
        """
        features = self.features(obs)
        predict = self._predictor(features, self.sampler, encoded)
        vectors = features.vectors
        shape = len(vectors), self.horizon, self.act_spec.size
        start = self.sampler.start(shape, generator).to(vectors)
        if past is not None:
            start = correlate_start(start, past, start_value(self.correlation.start))
        return draw_chain(
            self.sampler,
            predict,
            start,
            generator,
            others=self.eval_sampler if single_step else None,
            star_steps=self.trainable_steps,
            past=past,
            beta=start_value(self.correlation.noise),
            grad_steps=grad_steps,
        )

    def log_prob(self, obs: dict[str, Tensor], k: Tensor, x: Tensor, x_next: Tensor) -> Tensor:
        """Log-density of x_next given x at steps k (B,), per element (B, H, A)."""
        return self.kernel(self.encode(obs), k, x).log_prob(x_next)

    @property
    def eval_is_deterministic(self) -> bool:
        """Whether ``act`` is ``decode`` of noise, which distillation and export need."""
        return self.cfg.eval_is_deterministic

    def act(self, obs: dict[str, Tensor], generator: torch.Generator) -> Tensor:
        """Evaluate: return the action chunk (B, H, A) in physical units."""
        start = self._start(len(next(iter(obs.values()))), generator)
        return self.decode(obs, start)

    def settle_ties(self, obs: dict[str, Tensor], act: Tensor, other: Tensor) -> Tensor:
        """Return evaluation actions act (B, H, A), by the choices of ``other`` where as good.

        ``other`` has the actions of the same policy by other arithmetic, such as its graph's. Only
        a family that chooses among discrete actions has ties; it decodes the choices itself.
        """
        return act

    def decode(self, obs: dict[str, Tensor], noise: Tensor) -> Tensor:
        """Map noise x[0] (B, H, A) to the chunk (B, H, A) in physical units, deterministically."""
        return self.to_env(obs, self.decode_normalized(obs, noise))

    def inpaint(
        self, obs: dict[str, Tensor], noise: Tensor, planned: Tensor, weight: Tensor
    ) -> Tensor:
        """``decode`` that continues a planned chunk; see ``robo_rl.policy.inpaint``.

        Args:
            obs: Name → (B, To, …).
            noise: x[0], (B, H, A).
            planned: (B, H, A) in physical units.
            weight: (B, H) in [0, 1]; weights of 0 make this ``decode``.

        Raises:
            SpecError: The family's sampler does not support inpainting.
        """
        plan = InpaintTarget(self.from_env(obs, planned), weight)
        return self.to_env(obs, self.decode_normalized(obs, noise, plan))

    def decode_normalized(
        self,
        obs: dict[str, Tensor],
        noise: Tensor,
        plan: InpaintTarget | None = None,
        encoded: Embedding | None = None,
    ) -> Tensor:
        """``decode`` in normalised units.

        Args:
            obs: Name → (B, To, …).
            noise: x[0], (B, H, A).
            plan: The chain is guided towards it, if given.
            encoded: What the encoder makes of obs, if it is at hand; B rows.
        """
        features = self.features(obs)
        predict = self._predictor(features, self.eval_sampler, encoded)
        guide = None if plan is None else plan.guide
        return mean_chain(self.eval_sampler, predict, noise.to(features.vectors), guide)

    def to_env(self, obs: dict[str, Tensor], x: Tensor) -> Tensor:
        """Map normalised chunks x (B, H, A) to physical units at obs, name → (B, To, …)."""
        return self.normalizer.act_to_env(obs, x)

    def from_env(self, obs: dict[str, Tensor], act: Tensor) -> Tensor:
        """Invert ``to_env`` for act (B, H, A)."""
        return self.normalizer.act_to_network(obs, act)

    def _start(self, rows: int, generator: torch.Generator) -> Tensor:
        return self.eval_sampler.start((rows, self.horizon, self.act_spec.size), generator)

    def _predictor(
        self, features: ObsFeatures, sampler: Sampler, encoded: Embedding | None = None
    ) -> Predict:
        """Return the prediction function of a chain.

        It uses the reference network before the last K' steps, if there is one.
        """
        frozen = self.num_steps - self.num_trained
        kept = self._reference_denoiser if frozen else None
        return chain_predictor(self._denoiser, kept, frozen, sampler, features, encoded)

    @property
    def _denoiser(self) -> Denoiser:
        return Denoiser(self.net, self.noise_head, self.denoise, self.cfg.exec_horizon)

    @property
    def _reference_denoiser(self) -> Denoiser | None:
        if self.reference_net is None:
            return None
        net = cast(ChunkNet, self.reference_net)
        return self._denoiser._replace(net=net, noise_head=self.reference_noise_head)
