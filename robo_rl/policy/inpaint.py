"""Inpainting: samples a chunk that continues an already planned chunk.

Shapes: B rows, H horizon, A act_dim. While a policy computes a new chunk, its robot executes the
previous one. The new chunk must agree with the actions executed until then (real-time chunking,
Black et al. 2025, arXiv 2506.07339). Every denoising step moves the predicted chunk x̂ towards the
plan by each action's weight w:

    x̂ ← x̂ + η·∂x̂/∂xᵀ·w(plan − x̂),   then   x̂ ← x̂ + w·(plan − x̂).

The first update is the guidance of real-time chunking (eq. 2 and 4; Song et al. 2023, ΠGDM). The
gradient of the distance through the network moves the rest of the chunk together with the plan.
With a and s the coefficients of action and noise in x, η = min(β·s, (a² + s²)/a). For a flow this
is the paper's weight, clipped at β.

The second update is not part of real-time chunking. It is the replacement of inpainting (Lugmayr et
al. 2022, 2201.09865; on x̂, Wang et al. 2022, 2212.00490, eq. 7). It keeps actions of weight 1
exactly. Weights between 0 and 1 blend plan and policy without a jump. If the network's prediction
is multimodal, the guidance has by then selected the plan's mode. If it is unimodal, the end of the
chunk follows the network.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from robo_rl.core.errors import SpecError
from robo_rl.policy.chain import Prediction, Sampler

MAX_GUIDANCE = 5.0
"""Upper bound of β, as in 2506.07339; β is at most the number of steps."""


@runtime_checkable
class InpaintSampler(Protocol):
    """A sampler that converts between its prediction and the final chunk."""

    def predicted_action(self, k: Tensor, x: Tensor, prediction: Prediction) -> Tensor:
        """Return the chunk (B, H, A) predicted at x (B, H, A), steps k (B,)."""
        ...

    def prediction_for(self, k: Tensor, x: Tensor, act: Tensor) -> Tensor:
        """Return the network output (B, H, A) that predicts the chunk ``act`` (B, H, A)."""
        ...

    def signal_and_noise(self, k: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the coefficients a of the action and s of noise in x at steps k, (B, 1, 1)."""
        ...


class InpaintTarget(NamedTuple):
    """The planned actions of a chunk.

    Args:
        act: (B, H, A) in the units of the chain.
        weight: (B, H) in [0, 1]: 1 keeps the planned action, 0 has no plan.
    """

    act: Tensor
    weight: Tensor

    def guide(
        self, sampler: Sampler, k: Tensor, x: Tensor, predict: Callable[[Tensor], Prediction]
    ) -> Prediction:
        """Return the prediction at x (B, H, A), steps k (B,), moved towards the plan.

        Raises:
            SpecError: The sampler does not implement ``InpaintSampler``.
        """
        if not isinstance(sampler, InpaintSampler):
            raise SpecError(
                f"sampler {type(sampler).__name__} cannot keep a plan",
                expected="predicted_action, prediction_for and signal_and_noise (InpaintSampler)",
            )

        def expected(x: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
            said = predict(x)
            return sampler.predicted_action(k, x, said), () if said.noise is None else (said.noise,)

        plan, weight = self.act.to(x), self.weight[..., None].to(x)
        found: Any = torch.func.vjp(expected, x, has_aux=True)
        act, pull, noise = found
        (gradient,) = pull(weight * (plan - act))
        act = act + _guidance(*sampler.signal_and_noise(k, x), len(sampler.times)) * gradient
        out = sampler.prediction_for(k, x, torch.lerp(act, plan, weight))
        return Prediction(out, *noise)


def _guidance(a: Tensor, s: Tensor, num_steps: int) -> Tensor:
    """Guidance weight η, (B, 1, 1)."""
    return torch.minimum(min(MAX_GUIDANCE, num_steps) * s, (a**2 + s**2) / a)
