"""What a value critic reads where no vector tells the state: the policy's own embedding.

Shapes: (…) rows, To history, C embedding width. The embedding is detached: values do not train the
policy's encoder. It is normalised, since a policy's embedding has any scale.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.critic.value import ValueCritic
from robo_rl.data.normalize import Normalizer
from robo_rl.nets.embedding import encode_in_parts
from robo_rl.policy.base import DenoisingPolicy

EMBEDDING = "embedding"


def embedding_critic(cfg: ValueCritic.Config, policy: DenoisingPolicy) -> ValueCritic:
    """Return a critic of ``embedded`` observations."""
    spec = ObsSpec(items={EMBEDDING: TensorSpec(shape=(policy.net.embed_dim,))})
    act = ActSpec(shape=(1,), rate_hz=policy.act_spec.rate_hz)
    plain = cfg.model_copy(update={"sees": ()})
    return ValueCritic(plain, spec, 1, Normalizer.identity(spec, act))


@torch.no_grad()
def embedded(policy: DenoisingPolicy, obs: dict[str, Tensor], leading: int) -> dict[str, Tensor]:
    """Return observations as the critic reads them, ``embedding`` (…, 1, C).

    Args:
        policy: The policy that encodes.
        obs: Name → (…, To, …) with ``leading`` axes before the history.
        leading: Number of these axes.
    """
    seen = {name: obs[name] for name in policy.obs_spec.items}
    shape = next(iter(seen.values())).shape[:leading]
    flat = {name: value.flatten(0, leading - 1) for name, value in seen.items()}
    width = policy.net.embed_dim
    if not shape.numel():  # no episode ended; a vision model refuses no rows
        return {EMBEDDING: torch.zeros(*shape, 1, width, device=policy.device)}
    summary = encode_in_parts(flat, lambda part: policy.net.summary(policy.encode(part)))
    normalized = F.layer_norm(summary, (width,))
    return {EMBEDDING: normalized.reshape(*shape, 1, width)}
