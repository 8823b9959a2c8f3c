"""Inpainting: a chunk drawn so that it goes on from what is already planned.

Shapes: B rows, H horizon, A act_dim. While a policy thinks, its robot goes on with the chunk
before; the new one must agree with what will have been done by the time it is there (real-time
chunking, Black et al. 2025, arXiv 2506.07339). So at every denoising step the chunk x̂ that the
network expects is drawn towards the plan, as much as each action's weight w says, before the
sampler goes on from it:

    x̂ ← x̂ + η·∂x̂/∂xᵀ·w(plan − x̂),   then   x̂ ← x̂ + w·(plan − x̂).

The first is their guidance (eq. 2 and 4; Song et al. 2023, ΠGDM): the gradient of the distance,
through the network, moves the rest of the chunk with what is planned. With a and s the shares of
action and noise in x it is η = min(β·s, (a² + s²)/a), which for a flow is their weight, clipped at
β. The second is not in real-time chunking: it is the replacement of inpainting (Lugmayr et al.
2022, 2201.09865; on x̂, Wang et al. 2022, 2212.00490, eq. 7), and keeps what has weight 1 exactly,
whatever the network says of it. Where weights are between, it goes over from the plan to the policy
without a jump, as a mean of both; a network that is torn between ways has by then been drawn into
the plan's by the first, and one that is sure of another has its way at the chunk's end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from robo_rl.core.errors import SpecError
from robo_rl.policy.chain import Prediction, Sampler

MAX_GUIDANCE = 5.0
"""β, as in 2506.07339; less where there are fewer steps, so that none goes beyond the gradient."""


@runtime_checkable
class InpaintSampler(Protocol):
    """A sampler whose prediction is one of the chunk that the chain will end in."""

    def predicted_action(self, k: Tensor, x: Tensor, prediction: Prediction) -> Tensor:
        """The chunk (B, H, A) that a prediction at x (B, H, A), steps k (B,), expects."""
        ...

    def prediction_for(self, k: Tensor, x: Tensor, act: Tensor) -> Tensor:
        """What a network would have to say to expect ``act`` (B, H, A): ``out`` (B, H, A)."""
        ...

    def signal_and_noise(self, k: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """How much of the action and of noise there is in x at steps k: a and s, (B, 1, 1)."""
        ...


class InpaintTarget(NamedTuple):
    """What is planned for the ticks of a chunk.

    Args:
        act: (B, H, A) in the units of the chain.
        weight: (B, H) in [0, 1]: 1 where it is kept as it is, 0 where nothing is planned.
    """

    act: Tensor
    weight: Tensor

    def guide(
        self, sampler: Sampler, k: Tensor, x: Tensor, predict: Callable[[Tensor], Prediction]
    ) -> Prediction:
        """What ``predict`` says at x (B, H, A), steps k (B,), drawn towards the plan.

        Raises:
            SpecError: Of this sampler's predictions no chunk can be told.
        """
        if not isinstance(sampler, InpaintSampler):
            raise SpecError(
                f"sampler {type(sampler).__name__} cannot keep a plan",
                expected="act_of, aim and shares, see robo_rl.policy.inpaint.Aims",
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
    """η, (B, 1, 1)."""
    return torch.minimum(min(MAX_GUIDANCE, num_steps) * s, (a**2 + s**2) / a)
