"""What every policy offers, and the denoising policy that all families share.

Shapes: B rows, To observations of history, H horizon, A act_dim, K denoising steps, C embedding
width. Observations are name → (B, To, …) in physical units; chains live in normalised action
space.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar, Self, cast

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from robo_rl.config.models import ConfigModel
from robo_rl.config.registry import Component, component, default
from robo_rl.core.errors import ConfigError, SpecError
from robo_rl.core.spec import ActSpec, ObsSpec
from robo_rl.data.normalize import Normalizer
from robo_rl.nets.base import ChunkNet, dense
from robo_rl.policy.chain import (
    Chain,
    Predict,
    Prediction,
    PreviousNoise,
    Sampler,
    draw_chain,
    row_correlation,
)
from robo_rl.policy.correlation import Correlation, correlate_start
from robo_rl.policy.inpaint import InpaintTarget
from robo_rl.policy.kernel import Kernel
from robo_rl.policy.schedule import at_progress, start_value


class DenoisingPolicy(nn.Module):
    """A network, the sampler it explores under, and the one it is evaluated and exported under.

    A family says how the network is trained (``loss``) and which sampler evaluates
    (``make_eval_sampler``).

    Args:
        cfg: The family's ``Config``.
        obs_spec: One step's observation.
        act_spec: One step's action.
        normalizer: Maps both to and from network units; saved with the policy.

    Raises:
        SpecError: It cannot read such observations.
    """

    class Config(ConfigModel):
        """Sizes of the chunk and the chain, network, exploring sampler, its noise over time.

        ``finetune_steps`` is DPPO's K': only the last K' steps are trained by RL, those before
        stay as they were cloned; 0 means all of them.
        """

        obs_horizon: int = Field(default=1, ge=1)
        """Control steps of the observation history, the latest last."""
        horizon: int = Field(default=8, ge=1)
        """Actions of a chunk."""
        exec_horizon: int = Field(default=8, ge=1)
        """Actions of a chunk that are executed before the next query."""
        num_steps: int = Field(default=4, ge=1)
        """Denoising steps K of a chain."""
        finetune_steps: int = Field(default=0, ge=0)
        """Denoising steps that RL trains, counted from the last; 0 is all."""
        net: Annotated[Component[ChunkNet], component("nets")] = default("mlp")
        """Network that denoises."""
        sampler: Annotated[Component[Sampler], component("samplers")]
        """Sampler under which the policy explores."""
        correlation: Correlation = Correlation()
        """How the noise of a decision follows that of the decision before."""
        expected_prediction: ClassVar[str]

        @property
        def eval_is_deterministic(self) -> bool:
            """Whether evaluation is a map of the observation and one draw of noise."""
            return True

        @model_validator(mode="after")
        def _sampler_reads_what_the_network_says(self) -> Self:
            if self.sampler.cls.expected_prediction != self.expected_prediction:
                raise ValueError(
                    f"sampler '{self.sampler.name}' expects {self.sampler.cls.expected_prediction},"
                    f" this family's network says {self.expected_prediction}"
                )
            return self

        @model_validator(mode="after")
        def _sizes_agree(self) -> Self:
            if self.exec_horizon > self.horizon:
                raise ValueError(
                    f"exec_horizon {self.exec_horizon} is beyond horizon {self.horizon}"
                )
            if self.finetune_steps > self.num_steps:
                found = f"finetune_steps {self.finetune_steps}, num_steps {self.num_steps}"
                raise ValueError(f"more steps to fine-tune than there are: {found}")
            return self

    family: ClassVar[str]
    """The name that it is registered under."""

    def __init__(
        self, cfg: Config, obs_spec: ObsSpec, act_spec: ActSpec, normalizer: Normalizer
    ) -> None:
        super().__init__()
        self.check_obs(obs_spec)
        self.cfg, self.obs_spec, self.act_spec = cfg, obs_spec, act_spec
        self.obs_horizon, self.horizon, self.exec_horizon = (
            cfg.obs_horizon,
            cfg.horizon,
            cfg.exec_horizon,
        )
        self.num_steps = cfg.num_steps
        self.normalizer = normalizer
        self.sampler: Sampler
        self.correlation: Correlation
        self.set_progress(0.0)
        self.eval_sampler = self.make_eval_sampler(cfg.num_steps)
        features = obs_spec.size * cfg.obs_horizon
        self.net = cfg.net.build(cfg.horizon, act_spec.size, features)
        self.noise_head = self.make_noise_head() if self.sampler.learns_noise else None
        self.reference_net: nn.Module | None = None
        self.reference_noise_head: nn.Module | None = None

    @classmethod
    def check_obs(cls, obs_spec: ObsSpec) -> None:
        """Demand that observations are states: no network here reads pictures.

        Raises:
            SpecError: There are pictures among them; they are named.
        """
        if obs_spec.image_names:
            raise SpecError(
                f"policy '{cls.family}' sees states, not pictures",
                expected="an observation of vectors",
                found=", ".join(f"{k} {obs_spec.items[k].shape}" for k in obs_spec.image_names),
                hint="leave env.cameras out to train; with them, collect or record datasets",
            )

    def set_progress(self, progress: float) -> None:
        """Explore from now on as configured for when this share of training, in [0, 1], is done.

        What is drawn is to be scored before the next call. A policy that was just built stands at
        0, one that was kept where it stood.
        """
        self.progress = progress
        chosen = self.cfg.sampler
        if chosen.cfg is not None:
            chosen = replace(chosen, cfg=at_progress(chosen.cfg, progress))
        self.sampler = chosen.build(self.cfg.num_steps)
        self.correlation = at_progress(self.cfg.correlation, progress)

    @abstractmethod
    def make_eval_sampler(self, num_steps: int) -> Sampler:
        """The deterministic sampler of evaluation and export."""

    @abstractmethod
    def loss(self, obs: dict[str, Tensor], act: Tensor, generator: torch.Generator) -> Tensor:
        """The family's behaviour-cloning loss of act (B, H, A) in physical units; (B,)."""

    def interpret(self, out: Tensor, x: Tensor, t: Tensor) -> Tensor:
        """What the sampler is to read of the network's output at x (B, H, A), t (B,)."""
        del x, t
        return out

    def make_noise_head(self) -> nn.Module:
        """What learns the noise: (embedding, time features) → raw level per action element."""
        size = self.horizon * self.act_spec.size
        head = dense([self.net.embed_dim + 1, 64, size], nn.Tanh)
        last = cast(nn.Linear, head[-1])
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        return head

    @property
    def num_trained(self) -> int:
        """K', the last steps of the chain, which RL trains."""
        return self.cfg.finetune_steps or self.num_steps

    @property
    def trainable_steps(self) -> Tensor:
        """(K,) bool: the steps that have a density and that RL trains."""
        frozen = self.num_steps - self.num_trained
        return self.sampler.stochastic & (torch.arange(self.num_steps) >= frozen)

    def freeze_reference(self) -> None:
        """Keep a frozen copy of the network: the steps before K' run on it, ``base`` gives it."""
        self.reference_net = copy.deepcopy(cast(nn.Module, self.net)).requires_grad_(False)
        if self.noise_head is not None:
            self.reference_noise_head = copy.deepcopy(self.noise_head).requires_grad_(False)

    def reference_policy(self) -> Self:
        """A frozen copy of this policy with the weights that it had at ``anchor``.

        Its normaliser is the policy's own: where that moves, both see the same, and a base that is
        made anew is the one that was.

        Raises:
            ConfigError: It was never anchored.
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

    def features(self, obs: dict[str, Tensor]) -> Tensor:
        """The normalised observation, flattened: (B, O)."""
        return self.normalizer.features(obs, self.obs_spec.items)

    def encode(self, obs: dict[str, Tensor]) -> Tensor:
        """Observation → embedding (B, C); once per chain."""
        return self.net.embed(self.features(obs))

    def kernel(self, embedding: Tensor, k: Tensor, x: Tensor) -> Kernel:
        """The exploring sampler's law of x[k+1] given x (B, H, A) at steps k (B,), any mix."""
        prediction = self._predict(self.net, self.noise_head, self.sampler, embedding, k, x)
        return self.sampler.kernel(k, x, prediction)

    def correlate_noise(self, kernel: Kernel, before: Tensor, continues: Tensor) -> Kernel:
        """The law of a step given the noise that it had in the decision before.

        Args:
            kernel: From ``kernel``, the step's law whatever came before.
            before: (B, H, A), ``Kernel.noise`` of the decision before.
            continues: (B,) bool, rows in which there was one in the same episode.
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
    ) -> Chain:
        """Explore: a chain with its log-probabilities.

        Args:
            obs: Name → (B, To, …).
            generator: Source of the noise.
            single_step: One stochastic step a row (see ``draw_chain``).
            past: What the noise follows, if it is correlated; without it, it is drawn anew.
            grad_steps: Gradients, where they are on, flow through the last so many steps.
        """
        features = self.features(obs)
        predict = self._predictor(features, self.sampler)
        shape = len(features), self.horizon, self.act_spec.size
        start = self.sampler.start(shape, generator).to(features)
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
        """Whether ``act`` is ``decode`` of noise: a map that can be distilled and exported."""
        return self.cfg.eval_is_deterministic

    def act(self, obs: dict[str, Tensor], generator: torch.Generator) -> Tensor:
        """Evaluate: the action chunk (B, H, A) in physical units."""
        start = self._start(len(next(iter(obs.values()))), generator)
        return self.decode(obs, start)

    def decode(self, obs: dict[str, Tensor], noise: Tensor) -> Tensor:
        """The deterministic map of noise x[0] (B, H, A) to the chunk (B, H, A), physical units."""
        return self.to_env(self.decode_normalized(obs, noise))

    def inpaint(
        self, obs: dict[str, Tensor], noise: Tensor, planned: Tensor, weight: Tensor
    ) -> Tensor:
        """``decode`` that goes on from what is planned already; see ``robo_rl.policy.inpaint``.

        Args:
            obs: Name → (B, To, …).
            noise: x[0], (B, H, A).
            planned: (B, H, A) in physical units.
            weight: (B, H) in [0, 1]; with 0 throughout this is ``decode``.

        Raises:
            SpecError: The family's sampler cannot keep a plan.
        """
        plan = InpaintTarget(self.normalizer.normalize("act", planned), weight)
        return self.to_env(self.decode_normalized(obs, noise, plan))

    def decode_normalized(
        self, obs: dict[str, Tensor], noise: Tensor, plan: InpaintTarget | None = None
    ) -> Tensor:
        """``decode`` before the normaliser is undone; keeping a plan, if there is one."""
        features, sampler = self.features(obs), self.eval_sampler
        x = noise.to(features)
        predict = self._predictor(features, sampler)
        for step in range(self.num_steps):
            k = torch.full((x.shape[0],), step, device=x.device)
            said = partial(predict, step)
            prediction = said(x) if plan is None else plan.guide(sampler, k, x, said)
            x = sampler.kernel(k, x, prediction).mean
        return x

    def to_env(self, x: Tensor) -> Tensor:
        """Normalised chunk → physical units."""
        return self.normalizer.unnormalize("act", x)

    def _start(self, rows: int, generator: torch.Generator) -> Tensor:
        return self.eval_sampler.start((rows, self.horizon, self.act_spec.size), generator)

    def _predictor(self, features: Tensor, sampler: Sampler) -> Predict:
        """What runs a chain: the kept network up to K', if any, then the trained one."""
        frozen = self.num_steps - self.num_trained
        base = cast(Any, self.reference_net)
        embedding = self.net.embed(features)
        kept = base.embed(features) if base is not None and frozen else None

        def predict(step: int, x: Tensor) -> Prediction:
            k = torch.full((x.shape[0],), step, device=x.device)
            if kept is not None and step < frozen:
                return self._predict(base, self.reference_noise_head, sampler, kept, k, x)
            return self._predict(self.net, self.noise_head, sampler, embedding, k, x)

        return predict

    def _predict(
        self, net: Any, head: Any, sampler: Sampler, embedding: Tensor, k: Tensor, x: Tensor
    ) -> Prediction:
        t = sampler.times.to(x)[k]
        noise = None
        if sampler.learns_noise and head is not None:
            noise = head(torch.cat([embedding, t[:, None]], dim=-1)).view_as(x).to(x)
        out = self.interpret(net(x, t, embedding).to(x), x, t)
        return Prediction(out, noise, self.cfg.exec_horizon)
