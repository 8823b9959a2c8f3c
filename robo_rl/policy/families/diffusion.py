"""Diffusion policies: DDPM and DDIM kernels over a noise schedule ᾱ that rises along the chain.

Shapes: B rows, H horizon, A act_dim, K denoising steps. Only this file uses DDPM's integer time. A
prediction's ``out`` is ε, the noise in x. Sources: Ho et al. 2020 (arXiv 2006.11239), Song et al.
2021 (2010.02502), DPPO's lower bound of the step's standard deviation (2409.00588, section 4.2).
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.config.component import Component, component, default
from robo_rl.core.errors import ConfigError
from robo_rl.nets.embedding import Embedding
from robo_rl.policy.chain import Prediction, Sampler, at_step, draw_chain
from robo_rl.policy.config import PolicyConfig
from robo_rl.policy.families.matching import MatchingPolicy
from robo_rl.policy.kernels.base import randn
from robo_rl.policy.kernels.gaussian import GaussianKernel
from robo_rl.policy.noise import StdBounds, StdScale, clamp_std, per_element, std_bounds
from robo_rl.policy.placed import placed
from robo_rl.policy.schedule import NonNegative, Share, start_value

MAX_START_SIGNAL = 0.15
"""Largest ᾱ of the first step: a chain starts with noise alone, as if ᾱ were 0.

Four even steps of a schedule of 100 begin at 0.13, and three at 0.24, where x and an action of
variance 1 correlate by one half.
"""


@cache
def cosine_alpha_bar(train_steps: int) -> Tensor:
    """ᾱ by DDPM time, (T,) float64: diffusers' ``squaredcos_cap_v2`` (Nichol & Dhariwal 2021).

    The result is cached and shared; do not write to it.
    """
    from diffusers.schedulers.scheduling_ddim import DDIMScheduler

    scheduler = DDIMScheduler(train_steps, beta_schedule="squaredcos_cap_v2")
    return scheduler.alphas_cumprod.to(torch.float64)


class Ddim:
    """DDIM steps with a share η of the DDPM posterior's noise (arXiv 2010.02502, eq. 12 and 16).

    σ = η·√((1−ᾱ')/(1−ᾱ))·√(1−ᾱ/ᾱ'), mean = √ᾱ'·x̂ + √(1−ᾱ'−σ²)·ε̂. x̂ is clamped to ±clip, and ε̂
    is recomputed from it. σ is at most ``std_max``, which equals a DDIM step with smaller η. With η
    > 0 every step, also the last one, samples and scores with max(σ, std_min) under the same mean.

    Args:
        cfg: See Config.
        num_steps: K ≤ train_steps.
        scale: See ``StdScale``.

    Raises:
        ConfigError: K exceeds ``train_steps``, or the first of K times has too little noise.
    """

    class Config(StdBounds):
        """Noise share, bounds of the step's std and of the action, length of the schedule.

        The bound of the action is in normalised action units, those of the std in ``std_unit``.
        """

        eta: Share = 1.0
        """Share of DDPM's noise; 1 is DDPM, 0 is deterministic."""
        std_min: NonNegative = 0.1
        """Smallest standard deviation of a step, in units of ``std_unit``."""
        clip: float = Field(default=1.0, gt=0.0)
        """Bound of the absolute predicted action, in normalised action units."""
        train_steps: int = Field(default=100, ge=1)
        """Length of the noise schedule of training."""

    learns_noise = False
    expected_prediction = "noise"

    def __init__(self, cfg: Config, num_steps: int, scale: StdScale = 1.0) -> None:
        if num_steps > cfg.train_steps:
            raise ConfigError(
                "more denoising steps than the schedule is long",
                expected=f"num_steps ≤ {cfg.train_steps}",
                found=num_steps,
            )
        self.cfg = cfg
        table = cosine_alpha_bar(cfg.train_steps)
        # Evenly down to 0 ("leading" spacing), then the action.
        ddpm_time = torch.arange(num_steps).flip(0) * (cfg.train_steps // num_steps)
        _check_start(table, int(ddpm_time[0]), cfg.train_steps, num_steps)
        self.alpha_bar = torch.cat([table[ddpm_time], torch.ones(1, dtype=torch.float64)])
        self.times = 1.0 - (ddpm_time + 1).to(torch.float64) / cfg.train_steps
        eta = torch.full((num_steps,), start_value(cfg.eta), dtype=torch.float64)
        posterior = self._posterior_std() * eta
        self.sigma = per_element(posterior, scale).clamp(max=std_bounds(cfg)[1] * scale)
        self.std = clamp_std(posterior, cfg, scale=scale, random=eta > 0)
        self.stochastic = self.std.view(num_steps, -1).amax(dim=1) > 0

    def start(self, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        """Standard normal noise."""
        return randn(shape, generator)

    def kernel(self, k: Tensor, x: Tensor, prediction: Prediction) -> GaussianKernel:
        """Return the kernel of the next state."""
        now, after = at_step(self.alpha_bar, k, x), at_step(self.alpha_bar, k + 1, x)
        act = self.predicted_action(k, x, prediction)
        noise = (x - now.sqrt() * act) / (1.0 - now).sqrt()
        sigma = at_step(self.sigma, k, x)
        mean = after.sqrt() * act + (1.0 - after - sigma**2).clamp(min=0.0).sqrt() * noise
        return GaussianKernel(mean, at_step(self.std, k, x))

    def predicted_action(self, k: Tensor, x: Tensor, prediction: Prediction) -> Tensor:
        """x̂ = (x − √(1−ᾱ)·ε)/√ᾱ, clamped to ±clip."""
        now = at_step(self.alpha_bar, k, x)
        act = (x - (1.0 - now).sqrt() * prediction.out) / now.sqrt()
        return act.clamp(-self.cfg.clip, self.cfg.clip)

    def prediction_for(self, k: Tensor, x: Tensor, act: Tensor) -> Tensor:
        """Return the noise ε in x if x̂ is ``act``."""
        now = at_step(self.alpha_bar, k, x)
        return (x - now.sqrt() * act) / (1.0 - now).sqrt()

    def signal_and_noise(self, k: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the coefficients of action √ᾱ and noise √(1−ᾱ) in x."""
        now = at_step(self.alpha_bar, k, x)
        return now.sqrt(), (1.0 - now).sqrt()

    def _posterior_std(self) -> Tensor:
        now, after = self.alpha_bar[:-1], self.alpha_bar[1:]
        return ((1.0 - after) / (1.0 - now) * (1.0 - now / after)).sqrt()


class Ddpm(Ddim):
    """The DDPM posterior over all steps of the schedule (arXiv 2006.11239, eq. 7).

    mean = √ᾱ'·β/(1−ᾱ)·x̂ + √α·(1−ᾱ')/(1−ᾱ)·x with α = ᾱ/ᾱ', β = 1−α. This is DDIM's mean with η =
    1. With ``std_max`` the step is DDIM's step of that σ, because the mean depends on σ.

    Args:
        cfg: See Config.
        num_steps: K, also the length of the schedule.
        scale: See ``StdScale``.
    """

    class Config(StdBounds):
        """Bounds of the step's std (in ``std_unit``) and of the predicted action."""

        std_min: NonNegative = 0.1
        """Smallest standard deviation of a step, in units of ``std_unit``."""
        clip: float = Field(default=1.0, gt=0.0)
        """Bound of the absolute predicted action, in normalised action units."""

    def __init__(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, cfg: Config, num_steps: int, scale: StdScale = 1.0
    ) -> None:
        full = Ddim.Config.model_validate({**cfg.model_dump(), "train_steps": num_steps})
        super().__init__(full, num_steps, scale)

    def kernel(self, k: Tensor, x: Tensor, prediction: Prediction) -> GaussianKernel:
        """Return the kernel of the next state."""
        if self.cfg.std_max is not None:
            return super().kernel(k, x, prediction)
        now, after = at_step(self.alpha_bar, k, x), at_step(self.alpha_bar, k + 1, x)
        act = self.predicted_action(k, x, prediction)
        alpha = now / after
        mean = after.sqrt() * (1.0 - alpha) * act + alpha.sqrt() * (1.0 - after) * x
        return GaussianKernel(mean / (1.0 - now), at_step(self.std, k, x))


class DiffusionPolicy(MatchingPolicy):
    """An ε network under DDPM or DDIM, trained over the sampler's whole schedule.

    See ``MatchingPolicy``.
    """

    class Config(MatchingPolicy.Config):
        """Exploration uses ``sampler`` (ddpm or ddim), evaluation DDIM with ``eval_eta``.

        ``eval_eta`` 0 is deterministic, which distillation and export need. ``eval_eta`` 1 is DDPM
        without a lower noise bound, as in DPPO's evaluation (2409.00588). A policy fine-tuned under
        DDPM may perform much worse under deterministic DDIM.

        The cloning loss is that of DDPM: all times, and equal weights of the errors of ε. Suite
        ``cloning`` shows no difference to weights of the action.
        """

        num_steps: int = Field(default=10, ge=1)
        """Denoising steps K of a chain."""
        train_times: Literal["grid", "uniform"] = "uniform"
        """Times of the cloning loss: those of the K denoising steps, or all times."""
        loss_weight: Literal["action", "prediction"] = "prediction"
        """Error that the cloning loss weighs equally at all times."""
        eval_eta: float = Field(default=0.0, ge=0.0, le=1.0)
        """Share of DDPM's noise in evaluation."""
        expected_prediction: ClassVar[str] = "noise"
        sampler: Annotated[Component[Sampler], component("samplers")] = default("ddim")
        """Sampler of exploration."""

        @property
        def eval_is_deterministic(self) -> bool:
            """Whether evaluation draws no noise between its steps."""
            return self.eval_eta == 0.0

    cfg: Config

    def make_eval_sampler(self, num_steps: int) -> Sampler:
        """Return DDIM with η = 0 on the exploring sampler's schedule."""
        cfg = self._ddim.cfg
        quiet = Ddim.Config(eta=0.0, clip=cfg.clip, train_steps=cfg.train_steps)
        return Ddim(quiet, num_steps)

    def act(self, obs: dict[str, Tensor], generator: torch.Generator) -> Tensor:
        """Evaluate: return the action chunk (B, H, A) in physical units."""
        if self.eval_is_deterministic:
            return super().act(obs, generator)
        cfg, features = self._ddim.cfg, self.features(obs)
        noisy = Ddim.Config(
            eta=self.cfg.eval_eta, std_min=0.0, clip=cfg.clip, train_steps=cfg.train_steps
        )
        sampler = Ddim(noisy, self.num_steps)
        vectors = features.vectors
        start = self._start(len(vectors), generator).to(vectors)
        chain = draw_chain(sampler, self._predictor(features, sampler), start, generator)
        return self.to_env(obs, chain.act)

    @classmethod
    def schedule_settings(cls, cfg: PolicyConfig) -> dict[str, float]:
        """See ``DenoisingPolicy``: the schedule and the bound of the action."""
        sampler = cfg.sampler.build(cfg.num_steps)
        if not isinstance(sampler, Ddim):
            return {}
        return {"clip": sampler.cfg.clip, "train_steps": sampler.cfg.train_steps}

    @property
    def _ddim(self) -> Ddim:
        sampler = self.sampler
        if not isinstance(sampler, Ddim):
            raise ConfigError(
                "a diffusion policy explores on a schedule of its own family",
                where="policy.sampler",
                expected="ddpm, ddim, or one built on them",
                found=self.cfg.sampler.name,
            )
        return sampler

    def draw_any_time(self, rows: int, generator: torch.Generator) -> Tensor:
        """Draw times (rows,) uniformly over the schedule."""
        length = self._ddim.cfg.train_steps
        time = torch.randint(length, (rows,), generator=generator, device=generator.device)
        return 1.0 - (time + 1.0) / length

    def noise_fraction(self, t: Tensor) -> Tensor:
        """√(1−ᾱ) (B,): times an error of ε it is the error of √ᾱ·act."""
        return (1.0 - self._alpha_bar_at(t)).sqrt()

    def residual_at(self, embedding: Embedding, act: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """ε_θ(√ᾱ·act + √(1−ᾱ)·ε, time) − ε (2006.11239, eq. 14); (B, H, A)."""
        alpha_bar = self._alpha_bar_at(t)[:, None, None]
        x = alpha_bar.sqrt() * act + (1.0 - alpha_bar).sqrt() * noise
        return self.net(x, t, embedding) - noise

    def _alpha_bar_at(self, t: Tensor) -> Tensor:
        length = self._ddim.cfg.train_steps
        return placed(cosine_alpha_bar(length), t)[((1.0 - t) * length - 1.0).round().long()]


def _check_start(table: Tensor, first: int, train_steps: int, num_steps: int) -> None:
    """Check that the first of the chain's times is noisy enough for a start from noise."""
    if (signal := float(table[first])) > MAX_START_SIGNAL:
        raise ConfigError(
            f"{num_steps} denoising steps of a schedule of {train_steps} begin at time {first},"
            " where x still holds the action",
            where="policy.num_steps",
            expected=f"a share ᾱ of at most {MAX_START_SIGNAL} in the variance of x",
            found=f"{signal:.2f}",
            hint="sampler ddpm, whose schedule has the length of the chain, or 4 or more steps that"
            " divide train_steps",
        )
