"""Layers of a language model and of its action expert, on the modules of ``transformers``.

Llama's and Gemma's decoder layers have the same parts, so one function runs both. Attention is
over the layer's own tokens and those of a cache, which the prefix of a policy fills once.

Shapes: B rows, T tokens, S tokens of the cache, C width, N heads, G heads of keys, D elements of
a head.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

ROPE_BASE = 10_000.0
"""That of Gemma; LeRobot's SmolVLA has it too, whatever base its backbone's config states."""


class KeyValue(NamedTuple):
    """Keys and values of a layer, each (B, S, G, D); keys are rotated."""

    key: Tensor
    value: Tensor

    def join(self, other: KeyValue | None) -> KeyValue:
        """Return the keys and values of both, this one's first."""
        if other is None:
            return self
        return KeyValue(
            torch.cat([self.key, other.key], dim=1), torch.cat([self.value, other.value], dim=1)
        )


class AdaRmsNorm(nn.Module):
    """RMS normalisation with scale, shift and gate of a condition (π0.5, arXiv 2504.16054).

    Args:
        width: C.
        cond_width: Elements of the condition.
        eps: Added to the mean square.
    """

    def __init__(self, width: int, cond_width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.dense, self.eps = nn.Linear(cond_width, 3 * width), eps
        nn.init.zeros_(self.dense.weight)
        nn.init.zeros_(self.dense.bias)

    def forward(self, x: Tensor, cond: Tensor) -> tuple[Tensor, Tensor]:
        """Map x (B, T, C) and a condition (B, cond_width) to normalised x and a gate (B, 1, C)."""
        scale, shift, gate = self.dense(cond)[:, None].chunk(3, dim=-1)
        unit = x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + self.eps)
        return (unit * (1.0 + scale) + shift).to(x), gate


def normalize(norm: nn.Module, x: Tensor, cond: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Return normalised x, and the gate of its residual if the normalisation has one."""
    if isinstance(norm, AdaRmsNorm):
        assert cond is not None
        return norm(x, cond)
    return norm(x), None


def self_attention(
    layer: Any,
    x: Tensor,
    positions: Tensor,
    mask: Tensor,
    cache: KeyValue | None = None,
    cond: Tensor | None = None,
) -> tuple[Tensor, KeyValue]:
    """Run a decoder layer whose tokens see the cache and each other.

    Args:
        layer: A decoder layer of ``transformers``.
        x: (B, T, C).
        positions: (B, T), those of the tokens.
        mask: (B, T, S + T) bool, whether a token sees another.
        cache: Keys and values before these tokens; None for none.
        cond: Condition of ``AdaRmsNorm``.

    Returns:
        The layer's output (B, T, C), and its own keys and values.
    """
    normed, gate = normalize(layer.input_layernorm, x, cond)
    attention = layer.self_attn
    query = rotate(_heads(attention.q_proj, normed, attention), positions)
    key = rotate(_heads(attention.k_proj, normed, attention), positions)
    own = KeyValue(key, _heads(attention.v_proj, normed, attention))
    seen = own if cache is None else cache.join(own)
    return _finish(layer, x, attend(query, seen, mask), gate, cond), own


def run_layer(run: Callable[..., Any], *args: Any, again: bool) -> Any:
    """Run a layer; with ``again`` its backward pass computes it again (gradient checkpointing).

    Source: Chen et al. 2016, arXiv 1604.06174.
    """
    if again and torch.is_grad_enabled():
        return checkpoint(run, *args, use_reentrant=False, preserve_rng_state=False)
    return run(*args)


def cross_attention(
    layer: Any, x: Tensor, positions: Tensor, mask: Tensor, cache: KeyValue
) -> Tensor:
    """Run a decoder layer whose tokens see the cache alone, through projections of its own.

    Args:
        layer: A decoder layer; its projections of keys and values read those of the cache.
        x: (B, T, C).
        positions: (B, T), counted from the first token.
        mask: (B, T, S) bool.
        cache: Keys and values of the prefix in this layer.
    """
    normed, gate = normalize(layer.input_layernorm, x, None)
    attention = layer.self_attn
    query = rotate(_heads(attention.q_proj, normed, attention), positions)
    seen = KeyValue(
        _heads(attention.k_proj, cache.key.flatten(2), attention),
        _heads(attention.v_proj, cache.value.flatten(2), attention),
    )
    return _finish(layer, x, attend(query, seen, mask), gate, None)


def attend(query: Tensor, seen: KeyValue, mask: Tensor) -> Tensor:
    """Attention of (B, T, N, D) over keys of G heads, N a multiple of G; (B, T, N · D)."""
    q, k, v = (part.transpose(1, 2) for part in (query, *seen))
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None], enable_gqa=True)
    return out.transpose(1, 2).flatten(2)


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """Rotary embedding of x (B, T, N, D) at positions (B, T) (Su et al. 2021, arXiv 2104.09864).

    Element i of the first half turns with element i of the second half, by the angle
    position · base^(−2i/D).
    """
    half = x.shape[-1] // 2
    rate = ROPE_BASE ** (-torch.arange(half, dtype=torch.float32, device=x.device) / half)
    angle = (positions[..., None].float() * rate)[:, :, None]
    sin, cos = angle.sin(), angle.cos()
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x)


def _heads(projection: nn.Module, x: Tensor, attention: Any) -> Tensor:
    return projection(x).unflatten(-1, (-1, attention.head_dim))


def _finish(
    layer: Any, x: Tensor, attended: Tensor, gate: Tensor | None, cond: Tensor | None
) -> Tensor:
    """Add the attention and then the MLP to x."""
    x = _add(x, layer.self_attn.o_proj(attended), gate)
    normed, gate = normalize(layer.post_attention_layernorm, x, cond)
    return _add(x, layer.mlp(normed), gate)


def _add(x: Tensor, change: Tensor, gate: Tensor | None) -> Tensor:
    return x + (change if gate is None else change * gate)
