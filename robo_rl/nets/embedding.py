"""Embeddings of observations: a tensor (B, C), or a tree of tensors with B rows each.

An MLP reads a vector; the expert of a vision-language-action policy reads the keys and values of
every layer of its prefix. Trees are tuples of tensors or trees, named tuples among them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor

Embedding: TypeAlias = Any
"""A tensor (B, C), or a tuple of embeddings."""
_ROWS_AT_ONCE = 256
"""Observations that are encoded at once without gradient, which bounds the memory."""


def select_rows(embedding: Embedding, rows: Tensor) -> Embedding:
    """Return the rows (R,) of an embedding."""
    return _map(lambda part: part.index_select(0, rows), embedding)


def repeat_rows(embedding: Embedding, times: int) -> Embedding:
    """Return an embedding with each row repeated, next to each other."""
    return embedding if times == 1 else _map(lambda t: t.repeat_interleave(times, dim=0), embedding)


def join_rows(parts: Sequence[Embedding]) -> Embedding:
    """Return embeddings with the same structure, one below the other."""
    first = parts[0]
    if isinstance(first, Tensor):
        return torch.cat(list(parts))
    joined = [join_rows(each) for each in zip(*parts, strict=True)]
    return type(first)(*joined) if hasattr(first, "_fields") else tuple(joined)


@torch.no_grad()
def encode_in_parts(
    obs: Mapping[str, Tensor], encode: Callable[[dict[str, Tensor]], Embedding]
) -> Embedding:
    """Return the embedding of observations, name → (N, …), a few at once, without gradient."""
    rows = len(next(iter(obs.values())))
    parts = (slice(start, start + _ROWS_AT_ONCE) for start in range(0, rows, _ROWS_AT_ONCE))
    return join_rows([encode({name: x[part] for name, x in obs.items()}) for part in parts])


def leaves(embedding: Embedding) -> list[Tensor]:
    """Return the tensors of an embedding, in order."""
    found = list[Tensor]()
    _map(lambda part: found.append(part) or part, embedding)
    return found


def with_leaves(embedding: Embedding, tensors: Sequence[Tensor]) -> Embedding:
    """Return an embedding of the same structure that holds other tensors, as from ``leaves``."""
    rest = iter(tensors)
    return _map(lambda _: next(rest), embedding)


def _map(change: Callable[[Tensor], Tensor], embedding: Embedding) -> Embedding:
    if isinstance(embedding, Tensor):
        return change(embedding)
    parts = [_map(change, part) for part in cast("tuple[Any, ...]", embedding)]
    return type(embedding)(*parts) if hasattr(embedding, "_fields") else tuple(parts)
