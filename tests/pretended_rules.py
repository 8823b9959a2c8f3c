"""What a GPU refuses, and what makes the host wait for it, by operation of torch.

The rule of which tensors may meet is that of CUDA: a scalar of the host takes part in arithmetic,
and indices of the host are brought over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

aten: Any = torch.ops.aten

WAITS = {
    aten._local_scalar_dense.default: "item",
    aten.nonzero.default: "nonzero",
    aten.masked_select.default: "masked_select",
    aten._unique2.default: "unique",
    aten.unique_dim.default: "unique",
    aten.unique_consecutive.default: "unique",
    aten.equal.default: "equal",
    aten.repeat_interleave.Tensor: "repeat_interleave",
    aten.is_nonzero.default: "bool",
    aten.bincount.default: "bincount",
}
INDEXING = {
    aten.index.Tensor,
    aten.index_put.default,
    aten.index_put_.default,
    aten._index_put_impl_.default,
    aten._unsafe_index.Tensor,
}
TAKE_SCALARS = ("where", "masked_fill", "fill", "index_fill", "_foreach", "lerp")
"""Beginnings of names of operations that take a host scalar and are not pointwise."""


def name_of(func: Any) -> str:
    """Of an operation, without its namespace."""
    return func._schema.name.removeprefix("aten::")


def may_meet(func: Any, tensors: Sequence[Tensor], foreign: Sequence[Tensor]) -> bool:
    """Whether CUDA runs an operation on tensors of which some are the host's."""
    if all(each.dim() == 0 for each in foreign):
        return torch.Tag.pointwise in func.tags or name_of(func).startswith(TAKE_SCALARS)
    return indexes_by_host(func, tensors, foreign)


def indexes_by_host(func: Any, tensors: Sequence[Tensor], foreign: Sequence[Tensor]) -> bool:
    """Whether indices of the host are what is foreign."""
    if func not in INDEXING or any(each is tensors[0] for each in foreign):
        return False
    put = "index_put" in name_of(func) and any(each is tensors[-1] for each in foreign)
    return not put or tensors[-1].dim() == 0


def waits(func: Any, args: Sequence[Any]) -> list[str]:
    """Why the host waits for an operation, once for each time that it does."""
    if func in WAITS:
        return [WAITS[func]]
    if func not in INDEXING:
        return []
    masks = (x for x in args[1] or () if isinstance(x, Tensor))
    return ["boolean mask" for x in masks if x.dtype in (torch.bool, torch.uint8)]


def lower_products(device: str) -> list[torch.library.Library]:
    """Products in bfloat16 under ``autocast`` of a device type, as CUDA has them.

    Returns:
        What keeps the kernels registered for as long as it is held.
    """
    others = torch.library.Library("_", "IMPL", "AutocastPrivateUse1")
    others.fallback(torch.library.fallthrough_kernel)
    products = torch.library.Library("aten", "IMPL", "AutocastPrivateUse1")
    for name in ("linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "conv1d", "conv2d"):
        products.impl(name, _lowered(getattr(aten, name), device))
    return [others, products]


def _lowered(operation: Any, device: str) -> Any:
    def cast(x: Any) -> Any:
        wide = isinstance(x, Tensor) and x.dtype == torch.float32
        return x.to(torch.get_autocast_dtype(device)) if wide else x

    def kernel(*args: Any, **kwargs: Any) -> Any:
        low = tree_map(cast, args), tree_map(cast, kwargs)
        with torch.autocast(device, enabled=False):
            return operation(*low[0], **low[1])

    return kernel
