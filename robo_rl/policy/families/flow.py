"""Flow-matching policies and their samplers: the ODE, and three samplers with a likelihood.

Shapes: B rows, H horizon, A act_dim, K denoising steps. Time t: 0 = noise, 1 = action; vel = act −
noise, so x[t] = t·act + (1−t)·noise (Lipman et al. 2023, arXiv 2210.02747). A prediction's ``out``
is the velocity.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from robo_rl.config.component import Component, component, default
from robo_rl.config.models import ConfigModel, OmitsDefaults
from robo_rl.nets.embedding import Embedding
from robo_rl.policy.chain import Prediction, Sampler, at_step
from robo_rl.policy.families.matching import MatchingPolicy
from robo_rl.policy.kernels.base import randn
from robo_rl.policy.kernels.gaussian import GaussianKernel
from robo_rl.policy.noise import (
    LearntStd,
    StdBounds,
    StdScale,
    clamp_std,
    learnt_std,
    per_element,
)
from robo_rl.policy.schedule import Positive, PositiveShare, start_value

MIN_GAP = 0.1
"""Lower bound of 1 − t in the conversion of an action to a velocity; 1/K if that is less."""
PUBLISHED_LOSS = {"train_times": "uniform", "loss_weight": "prediction"}
"""Default cloning loss of networks that predict velocities (arXiv 2210.02747, eq. 23)."""


class FlowOde:
    """Euler steps of dx = v dt: deterministic, for evaluation and export."""

    class Config(ConfigModel):
        """No settings."""

    learns_noise = False
    expected_prediction = "vel"

    def __init__(self, cfg: Config, num_steps: int) -> None:
        del cfg
        self.times = torch.arange(num_steps, dtype=torch.float64) / num_steps
        self.stochastic = torch.zeros(num_steps, dtype=torch.bool)
        self.dt = 1.0 / num_steps

    def start(self, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        """Standard normal noise."""
        return randn(shape, generator)

    def kernel(self, k: Tensor, x: Tensor, prediction: Prediction) -> GaussianKernel:
        """Return mean x + v·dt, std 0."""
        del k
        return GaussianKernel(x + self.dt * prediction.out, torch.zeros_like(x[:, :1, :1]))

    def predicted_action(self, k: Tensor, x: Tensor, prediction: Prediction) -> Tensor:
        """Return the action predicted by a velocity, x + (1−t)·v."""
        return x + (1.0 - at_step(self.times, k, x)) * prediction.out

    def prediction_for(self, k: Tensor, x: Tensor, act: Tensor) -> Tensor:
        """Return the velocity that predicts ``act``."""
        return (act - x) / (1.0 - at_step(self.times, k, x))

    def signal_and_noise(self, k: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the coefficients of action t and noise 1 − t in x."""
        t = at_step(self.times, k, x)
        return t, 1.0 - t


class FlowSde(FlowOde):
    """The SDE with the flow's marginals (Flow-SDE, 2510.25889, eq. 6; Flow-GRPO, 2505.05470).

    σ_t = a·√((1−t)/t) with t at least 1/K. The drift is v + ½σ²·score with score = (t·v − x)/(1−t).
    The step std is σ·√dt. The marginals equal the flow's for any σ_t. Bounds of the step's std
    therefore bound σ_t, and the drift uses the bounded σ_t. They limit the rate of new noise, not
    the spread of actions. In discrete time a bound std_min > 1 − t − dt still widens the last step.

    Args:
        cfg: ``noise_level`` is a.
        num_steps: K.
        scale: See ``StdScale``.
    """

    class Config(StdBounds, OmitsDefaults):
        """The noise level a, and the correlation of the noise along the chunk.

        With ``chunk_correlation`` the marginals are no longer those of the flow, because the score
        term is that of independent noise.
        """

        omitted: ClassVar[tuple[str, ...]] = ("chunk_correlation",)
        noise_level: Positive = 0.5
        """Noise level a of the SDE."""
        chunk_correlation: float = Field(default=0.0, ge=0.0, le=1.0)
        """Correlation of the noise of neighbouring actions of a chunk."""

    def __init__(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, cfg: Config, num_steps: int, scale: StdScale = 1.0
    ) -> None:
        super().__init__(FlowOde.Config(), num_steps)
        self.stochastic, self.rho = torch.ones(num_steps, dtype=torch.bool), cfg.chunk_correlation
        t, level = self.times.clamp(min=self.dt), start_value(cfg.noise_level)
        sigma = level * ((1.0 - t) / t).sqrt() if num_steps > 1 else torch.full_like(t, level)
        self.sigma = clamp_std(sigma, cfg, unit=math.sqrt(self.dt), scale=scale)

    def kernel(self, k: Tensor, x: Tensor, prediction: Prediction) -> GaussianKernel:
        """Return the Euler–Maruyama kernel."""
        t, sigma = at_step(self.times, k, x), at_step(self.sigma, k, x)
        score = (t * prediction.out - x) / (1.0 - t)
        drift = prediction.out + 0.5 * sigma**2 * score
        std = sigma * math.sqrt(self.dt)
        return GaussianKernel(x + self.dt * drift, std, self.rho, prediction.executed)


class FlowCps(FlowOde):
    """Coefficient-preserving sampling: adds as much noise as it removes (arXiv 2509.05952).

    With action â = x + (1−t)·v, noise ε̂ = x − t·v, t' = t + dt and angle πη/2: mean = t'·â +
    (1−t')·cos(πη/2)·ε̂, std = (1−t')·sin(πη/2). A bound of the std changes the angle, so the amount
    of noise is preserved. At the largest angle all noise is new. The last step is deterministic.

    Args:
        cfg: ``noise_level`` is η.
        num_steps: K.
        scale: See ``StdScale``.
    """

    class Config(StdBounds):
        """The share η of new noise, in (0, 1]."""

        noise_level: PositiveShare = 0.5
        """Share η of new noise per step."""

    def __init__(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, cfg: Config, num_steps: int, scale: StdScale = 1.0
    ) -> None:
        super().__init__(FlowOde.Config(), num_steps)
        self.stochastic = torch.arange(num_steps) < num_steps - 1
        angle = torch.full_like(self.times, 0.5 * math.pi * start_value(cfg.noise_level))
        self.cos, self.sin = angle.cos(), angle.sin()
        rest = torch.where(self.stochastic, 1.0 - self.times - self.dt, 1.0)
        self.rest = rest * self.stochastic
        std = clamp_std(rest * self.sin * self.stochastic, cfg, scale=scale)
        rest, cos, sin = (per_element(table, scale) for table in (rest, self.cos, self.sin))
        free = std == rest * sin * per_element(self.stochastic, scale)
        kept = (1.0 - (std / rest) ** 2).clamp(min=0.0).sqrt()
        self.cos, self.sin = torch.where(free, cos, kept), torch.where(free, sin, std / rest)

    def kernel(self, k: Tensor, x: Tensor, prediction: Prediction) -> GaussianKernel:
        """Return the kernel of the next state; the last step is deterministic."""
        t, cos, sin = (at_step(table, k, x) for table in (self.times, self.cos, self.sin))
        rest = at_step(self.rest, k, x)
        act = self.predicted_action(k, x, prediction)
        noise = x - t * prediction.out
        return GaussianKernel((1.0 - rest) * act + rest * cos * noise, rest * sin)


class FlowNoise(FlowOde):
    """Euler steps with learnt Gaussian noise (ReinFlow, arXiv 2505.22094, section 4.1).

    The raw noise level r (B, H, A) is squashed between the bounds in log variance, see
    ``learnt_std``.

    Args:
        cfg: Bounds of σ in units of ``std_unit``.
        num_steps: K.
        scale: See ``StdScale``.
    """

    class Config(LearntStd):
        """Bounds of the learnt standard deviation, in units of ``std_unit``.

        ``chunk_correlation`` correlates the noise of neighbouring actions (see ``GaussianKernel``).
        """

        std_min: Positive = 0.05
        """Smallest learnt standard deviation, in units of ``std_unit``."""
        std_max: Positive = 0.15
        """Largest learnt standard deviation, in units of ``std_unit``."""
        chunk_correlation: float = Field(default=0.0, ge=0.0, le=1.0)
        """Correlation of the noise of neighbouring actions of a chunk."""

    learns_noise = True

    def __init__(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, cfg: Config, num_steps: int, scale: StdScale = 1.0
    ) -> None:
        super().__init__(FlowOde.Config(), num_steps)
        self.stochastic = torch.ones(num_steps, dtype=torch.bool)
        self.cfg, self.scale = cfg, scale

    def kernel(self, k: Tensor, x: Tensor, prediction: Prediction) -> GaussianKernel:
        """Return mean x + v·dt, with the learnt std."""
        del k
        std = learnt_std(prediction.noise, self.cfg, x, self.scale)
        return GaussianKernel(
            x + self.dt * prediction.out, std, self.cfg.chunk_correlation, prediction.executed
        )


class FlowPolicy(MatchingPolicy):
    """A flow network with flow samplers; see ``MatchingPolicy``.

    The network predicts the action â, and the velocity is v = (â − x)/(1−t). In control, the
    observation determines most of the action. An undertrained network then predicts a blurred
    action without residual noise (x-prediction; Li and He 2025, arXiv 2511.13720).
    ``prediction_type: vel`` predicts the velocity directly.

    Far from the data the predicted action may be any number. A next step then starts even farther
    away, so that a chain grows by a factor a step. ``clip`` bounds the predicted action in a chain,
    and the last step ends at it. The cloning loss takes the prediction itself.
    """

    class Config(MatchingPolicy.Config, OmitsDefaults):
        """Exploration uses flow_sde, flow_cps or flow_noise; evaluation integrates the ODE.

        With ``prediction_type: vel`` the defaults of the cloning loss are those of the papers:
        ``train_times: uniform`` and ``loss_weight: prediction``.
        """

        omitted: ClassVar[tuple[str, ...]] = ("clip",)
        expected_prediction: ClassVar[str] = "vel"
        sampler: Annotated[Component[Sampler], component("samplers")] = default("flow_noise")
        """Sampler of exploration."""
        prediction_type: Literal["act", "vel"] = "act"
        """Network output: the action, or the velocity."""
        clip: float = Field(default=0.0, ge=0.0)
        """Largest absolute predicted action of a chain, in normalised units; 0 is off."""

        @model_validator(mode="after")
        def _loss_of_velocities(self) -> Self:
            if self.prediction_type == "vel":
                unset = PUBLISHED_LOSS.keys() - self.model_fields_set
                vars(self).update({name: PUBLISHED_LOSS[name] for name in unset})  # it is frozen
            return self

    cfg: Config

    def make_eval_sampler(self, num_steps: int) -> Sampler:
        """Return the ODE sampler."""
        return FlowOde(FlowOde.Config(), num_steps)

    def interpret(self, out: Tensor, x: Tensor, t: Tensor) -> Tensor:
        """Convert network output to velocity at x (B, H, A), t (B,), with 1 − t bounded below.

        The predicted action x + (1−t)·v is within ±``clip``.
        """
        vel, limit = self._velocity(out, x, t), self.cfg.clip
        if not limit:
            return vel
        rest = self.noise_fraction(t)[:, None, None]
        return ((x + rest * vel).clamp(-limit, limit) - x) / rest

    def _velocity(self, out: Tensor, x: Tensor, t: Tensor) -> Tensor:
        if self.cfg.prediction_type == "vel":
            return out
        return (out - x) / self.noise_fraction(t)[:, None, None]

    def draw_any_time(self, rows: int, generator: torch.Generator) -> Tensor:
        """Draw times (rows,) uniformly in [0, 1)."""
        return torch.rand(rows, generator=generator, device=generator.device)

    def noise_fraction(self, t: Tensor) -> Tensor:
        """1 − t with a lower bound, (B,): times a velocity error it is the action error."""
        return (1.0 - t).clamp(min=min(MIN_GAP, 1.0 / self.num_steps))

    def residual_at(self, embedding: Embedding, act: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """Error of conditional flow matching: v(x_t, t) − (act − noise), (B, H, A).

        Source: Lipman et al. 2023, arXiv 2210.02747, eq. 23. For action prediction, the target uses
        the same lower bound of 1 − t as the velocity.
        """
        x = torch.lerp(noise, act, t[:, None, None])
        vel = self._velocity(self.net(x, t, embedding), x, t)
        target = act - noise if self.cfg.prediction_type == "vel" else self._velocity(act, x, t)
        return vel - target
