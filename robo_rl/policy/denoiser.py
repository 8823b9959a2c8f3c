"""The networks that predict the steps of a chain.

Shapes: B rows, H horizon, A act_dim.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from robo_rl.nets.base import ChunkNet, dense
from robo_rl.nets.embedding import Embedding
from robo_rl.nets.encoders.base import ObsFeatures
from robo_rl.policy.chain import Predict, Prediction, Sampler
from robo_rl.policy.placed import placed


class Denoiser(NamedTuple):
    """A network, its noise network, and how the policy's family asks the network.

    Args:
        net: Network that denoises.
        noise_head: (embedding, flow time) → raw noise level per action element, if it is learnt.
        denoise: (net, k, x, t, embedding) → prediction; see ``DenoisingPolicy.denoise``.
        executed: Number of executed actions of the chunk.
    """

    net: ChunkNet
    noise_head: nn.Module | None
    denoise: Callable[[ChunkNet, Tensor, Tensor, Tensor, Embedding], Tensor]
    executed: int

    def embed(self, features: ObsFeatures, encoded: Embedding | None) -> Embedding:
        """Map observations to an embedding; ``encoded`` is the encoder's output, if at hand."""
        return self.net.encode(features) if encoded is None else self.net.embed(encoded)

    def predict(self, sampler: Sampler, embedding: Embedding, k: Tensor, x: Tensor) -> Prediction:
        """Predict at x (B, H, A), steps k (B,) of the sampler."""
        t = placed(sampler.times, x)[k]
        noise = None
        if sampler.learns_noise and self.noise_head is not None:
            summary = self.net.summary(embedding)
            noise = self.noise_head(torch.cat([summary, t[:, None]], dim=-1)).view_as(x).to(x)
        return Prediction(self.denoise(self.net, k, x, t, embedding), noise, self.executed)


def zero_init_noise_head(embed_dim: int, size: int) -> nn.Module:
    """Return a noise network whose raw levels are 0 until they are trained.

    Args:
        embed_dim: Width of an embedding's summary.
        size: Number of levels, one per action element of the chunk.
    """
    head = dense([embed_dim + 1, 64, size], nn.Tanh)
    last = cast(nn.Linear, head[-1])
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return head


def chain_predictor(
    trained: Denoiser,
    kept: Denoiser | None,
    frozen: int,
    sampler: Sampler,
    features: ObsFeatures,
    encoded: Embedding | None = None,
) -> Predict:
    """Return the prediction function of a chain: of ``kept`` before step ``frozen``, if given.

    Args:
        trained: Networks of the later steps.
        kept: Networks of the steps that RL does not train; None for ``trained``.
        frozen: Number of those steps.
        sampler: Sampler whose steps are predicted.
        features: Observations, encoded once for the whole chain.
        encoded: The encoder's result, if it is at hand; B rows. Both networks then have that
            encoder.
    """
    embedding = trained.embed(features, encoded)
    base = None if kept is None else kept.embed(features, encoded)

    def predict(step: int, x: Tensor) -> Prediction:
        k = torch.full((x.shape[0],), step, device=x.device)
        if kept is not None and base is not None and step < frozen:
            return kept.predict(sampler, base, k, x)
        return trained.predict(sampler, embedding, k, x)

    return predict
