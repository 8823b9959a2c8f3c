"""Rewrites functions with inner derivatives so that they can be exported.

Exporters support the operations of a forward pass. This module traces a function together with
its inner backward passes. It replaces the operations that exporters lack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

_Sizes = Sequence[int]


def with_explicit_derivatives(model: nn.Module, example: tuple[Tensor, ...]) -> nn.Module:
    """Return a module with the same function, for tensors like ``example`` with any number of rows.

    Args:
        model: Module with a forward from tensors to tensors, rows first.
        example: Example inputs with at least two rows; a single row would be traced as a constant.
    """
    from torch.fx.experimental.proxy_tensor import make_fx

    held = dict(model.named_parameters()) | dict(model.named_buffers())

    def call(values: list[Tensor], *inputs: Tensor) -> Tensor:
        return torch.func.functional_call(model, dict(zip(held, values, strict=True)), inputs)

    values = [value.detach() for value in held.values()]
    trace = make_fx(
        call,
        decomposition_table={torch.ops.aten.convolution_backward.default: _convolution_backward},
        tracing_mode="symbolic",
        _allow_non_fake_inputs=True,
    )
    return _Traced(trace(values, *example), values)


class _Traced(nn.Module):
    """A traced function with its parameters and buffers."""

    def __init__(self, trace: Callable[..., Tensor], values: list[Tensor]) -> None:
        super().__init__()
        self.trace, self.size = trace, len(values)
        for number, value in enumerate(values):
            self.register_buffer(f"value_{number}", value)

    def forward(self, *inputs: Tensor) -> Tensor:
        values = [getattr(self, f"value_{number}") for number in range(self.size)]
        return self.trace(values, *inputs)


def _convolution_backward(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    bias_sizes: _Sizes | None,
    stride: _Sizes,
    padding: _Sizes,
    dilation: _Sizes,
    transposed: bool,  # as in aten's signature
    output_padding: _Sizes,
    groups: int,
    mask: Sequence[bool],
) -> tuple[Any, ...]:
    """Return the gradient by the input: the transposed convolution of the output's gradient.

    Rows that the stride leaves over at the end are padded, so that the shape is the input's.
    """
    del bias_sizes, output_padding
    if any(mask[1:]):
        raise NotImplementedError("derivatives by weights")
    rest = [0] * len(stride)
    if not transposed:
        out, size, kernel = gradient.shape[2:], x.shape[2:], weight.shape[2:]
        rest = [
            size[i]
            - ((out[i] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (kernel[i] - 1) + 1)
            for i in range(len(stride))
        ]
    found = torch.ops.aten.convolution(
        gradient, weight, None, stride, padding, dilation, not transposed, rest, groups
    )
    return found, None, None
