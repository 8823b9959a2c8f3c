"""The prefix of a vision-language-action policy: all that it sees and reads, once per chain.

Shapes: B rows, P tokens of the prefix, T tokens, S elements of the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from robo_rl.nets.vla.layers import KeyValue, run_layer, self_attention


class Prefix(NamedTuple):
    """The embedding of an observation.

    Args:
        cache: Keys and values of every layer of the language model.
        mask: (B, P) bool, the tokens that are no padding.
        state: (B, S) proprioception for an expert that reads it as a token; (B, 0) if the prefix
            holds it.
        summary: (B, C), the mean of the language model's last states, without padding.
    """

    cache: tuple[KeyValue, ...]
    mask: Tensor
    state: Tensor
    summary: Tensor


class Tokens(NamedTuple):
    """Tokens in front of a language model.

    Args:
        x: (B, T, C).
        mask: (B, T) bool, the tokens that are no padding.
        begins: Whether a token begins a block, for each of T. A token sees the blocks up to its
            own, all of them entirely.
    """

    x: Tensor
    mask: Tensor
    begins: tuple[bool, ...]

    @classmethod
    def of(cls, x: Tensor, mask: Tensor | None = None, *, begins: bool = False) -> Tokens:
        """Return tokens (B, T, C) that are no padding, unless a mask (B, T) says so.

        Args:
            x: The tokens.
            mask: Which of them are no padding.
            begins: Whether each of them begins a block; if not, they belong to the block before.
        """
        there = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        return cls(x, there if mask is None else mask.bool(), (begins,) * x.shape[1])


def join_tokens(parts: Sequence[Tokens]) -> Tokens:
    """Return tokens one after the other."""
    return Tokens(
        torch.cat([part.x for part in parts], dim=1),
        torch.cat([part.mask for part in parts], dim=1),
        tuple(begins for part in parts for begins in part.begins),
    )


def block_mask(begins: Sequence[bool], device: torch.device) -> Tensor:
    """Return whether token i sees token j, (T, T) bool: block by block, without padding."""
    size = len(begins), len(begins)
    if all(begins):
        return torch.ones(size, dtype=torch.bool, device=device).tril()
    seen = torch.zeros(size, dtype=torch.bool, device=device)
    starts = [i for i, begin in enumerate(begins) if begin or not i] + [len(begins)]
    for start, end in pairwise(starts):
        seen[start:end, :end] = True  # a fill on the device; a table would be an upload
    return seen


def make_prefix(model: Any, tokens: Tokens, state: Tensor, *, again: bool = False) -> Prefix:
    """Run tokens through a language model.

    Args:
        model: Model of ``transformers`` with ``layers`` and ``norm``.
        tokens: All tokens in front of it.
        state: See ``Prefix``.
        again: Whether a backward pass computes the layers again.
    """
    length, device = tokens.x.shape[1], tokens.x.device
    itself = torch.eye(length, dtype=torch.bool, device=device)  # padding sees itself: no NaN
    seen = block_mask(tokens.begins, device) & tokens.mask[:, None] | itself
    positions = (tokens.mask.cumsum(1) - 1).clamp(min=0)
    x, cache = tokens.x, list[KeyValue]()
    for layer in model.layers:
        x, own = run_layer(self_attention, layer, x, positions, seen, again=again)
        cache.append(own)
    real = tokens.mask[..., None].to(x)
    summary = (model.norm(x) * real).sum(1) / real.sum(1)
    return Prefix(tuple(cache), tokens.mask, state, summary)


def resize_with_padding(
    images: Tensor, size: tuple[int, int], *, centred: bool, value: float
) -> Tensor:
    """Resize images to a size without distortion, and pad what is left.

    Args:
        images: (B, C, h, w) in [0, 1].
        size: Height and width of the result, in pixels.
        centred: Whether the image is in the middle; otherwise at the bottom right.
        value: Padding.
    """
    (height, width), (h, w) = size, images.shape[-2:]
    ratio = max(w / width, h / height)
    inner = int(h / ratio), int(w / ratio)
    images = F.interpolate(images, size=inner, mode="bilinear", align_corners=False)
    down, right = height - inner[0], width - inner[1]
    top, left = (down // 2, right // 2) if centred else (down, right)
    return F.pad(images, (left, right - left, top, down - top), value=value)


def time_features(t: Tensor, width: int, periods: tuple[float, float]) -> Tensor:
    """Sines and cosines of t (B,) at periods from the shortest to the longest: (B, width).

    Source: π0, arXiv 2410.24164, appendix B; the periods are a geometric row.
    """
    short, long = periods
    share = torch.linspace(0.0, 1.0, width // 2, dtype=torch.float64, device=t.device)
    rate = 2.0 * torch.pi / (short * (long / short) ** share)
    angle = t.double()[:, None] * rate
    return torch.cat([angle.sin(), angle.cos()], dim=-1).to(t)


def pad_last(x: Tensor, width: int) -> Tensor:
    """Pad the last axis with zeros."""
    return F.pad(x, (0, width - x.shape[-1]))


def dense_silu(first: nn.Module, second: nn.Module, x: Tensor) -> Tensor:
    """Two layers with SiLU between them."""
    return second(F.silu(first(x)))
