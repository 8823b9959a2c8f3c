"""Losses of minibatches as CUDA graphs.

The CPU launches some hundred kernels for the loss and the gradient of a small network, which takes
longer than the kernels themselves. A CUDA graph launches them at once, at the addresses of its
capture. A graph therefore serves one update, whose rollout it reads, and one number of rows.

Autograd adds a gradient to a parameter on the stream on which the parameter was first used. A
capture must not wait for another stream, so captures and replays of a loss share one stream.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Generic, TypeVar, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from robo_rl.config.models import OmitsDefaults

_Loss = TypeVar("_Loss", bound=tuple[Any, ...])


class CaptureConfig(OmitsDefaults):
    """Whether minibatches run as CUDA graphs.

    The numbers are those of the same kernels without a graph. Memory rises by the activations and
    gradients of one minibatch of each size, for the time of an update.
    """

    cuda_graphs: bool = Field(default=False)
    """Whether a minibatch's loss and gradient run as CUDA graphs; without effect on a CPU."""

    omitted: ClassVar[tuple[str, ...]] = ("cuda_graphs",)


class CapturedLoss(Generic[_Loss]):
    """Computes a loss and its gradient by CUDA graphs, one for each number of rows.

    The graphs are freed with this object: nothing else holds them.

    Args:
        module: The trained module.
        loss: Maps row indices (R,) to a tuple of which the first entry is the loss, a scalar, and
            the others are tensors or mappings of tensors. It reads no value on the CPU, draws no
            random number, and depends on weights of ``module`` and on tensors that stay in place.
    """

    def __init__(self, module: nn.Module, loss: Callable[[Tensor], _Loss]) -> None:
        self._params = [param for param in module.parameters() if param.requires_grad]
        self._loss, self._graphs = loss, dict[int, _LossGraph[_Loss]]()
        self._device = next(module.parameters()).device
        self._stream = torch.cuda.Stream(self._device)

    def __call__(self, pick: Tensor) -> _Loss:
        """Return the loss and its metrics of rows (R,); the next call overwrites the metrics."""
        outer = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(outer)
        with torch.cuda.stream(self._stream):
            if len(pick) not in self._graphs:
                self._graphs[len(pick)] = _LossGraph(self._params, self._loss, pick, self._stream)
            graph = self._graphs[len(pick)]
            loss = cast(Tensor, _Replay.apply(graph, pick, *self._params))
        outer.wait_stream(self._stream)
        return _with_loss(graph.out, loss)


class _LossGraph(Generic[_Loss]):
    """A captured loss with its gradient.

    Args:
        params: Trained parameters.
        loss: See ``CapturedLoss``.
        pick: (R,) rows to capture with.
        stream: The current stream.
    """

    def __init__(
        self,
        params: Sequence[nn.Parameter],
        loss: Callable[[Tensor], _Loss],
        pick: Tensor,
        stream: torch.cuda.Stream,
    ) -> None:
        self._pick = pick.clone()
        _with_gradient(loss, params, self._pick)  # libraries allocate their workspaces
        self._graph = torch.cuda.CUDAGraph()
        with _no_garbage_collection(), torch.cuda.graph(self._graph, stream=stream):
            self.out, self.gradients = _with_gradient(loss, params, self._pick)

    def replay(self, pick: Tensor) -> Tensor:
        """Compute ``out`` and ``gradients`` of rows (R,); return the loss."""
        self._pick.copy_(pick)
        self._graph.replay()
        return self.out[0]


class _Replay(torch.autograd.Function):
    """A replay, whose gradient was computed with the loss."""

    @staticmethod
    def forward(ctx: Any, graph: _LossGraph[Any], pick: Tensor, *params: Tensor) -> Tensor:
        """Replay; the parameters are arguments for their gradients alone."""
        del params
        ctx.graph = graph
        return graph.replay(pick).clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        """Scale the gradients of the graph."""
        held: list[Tensor | None] = ctx.graph.gradients
        scaled = iter(cast(Any, torch)._foreach_mul([g for g in held if g is not None], grads[0]))
        return None, None, *(None if g is None else next(scaled) for g in held)


def _with_gradient(
    loss: Callable[[Tensor], _Loss], params: Sequence[nn.Parameter], pick: Tensor
) -> tuple[_Loss, list[Tensor | None]]:
    """Return the loss and its metrics without gradient, and the parameters' gradients, if any."""
    with torch.enable_grad():
        found = loss(pick)
        grads = torch.autograd.grad(found[0], params, allow_unused=True)
    return _with_loss(found, found[0].detach()), list(grads)


def _with_loss(found: _Loss, loss: Tensor) -> _Loss:
    """Return a tuple, or a named tuple, with another first entry."""
    kind, parts = type(found), (loss, *found[1:])
    return kind(*parts) if hasattr(kind, "_fields") else cast(_Loss, parts)


@contextmanager
def _no_garbage_collection() -> Generator[None]:
    """Keep Python from freeing older CUDA objects, which would break a capture."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def captured(
    cfg: CaptureConfig, module: nn.Module, loss: Callable[[Tensor], _Loss]
) -> Callable[[Tensor], _Loss]:
    """Return ``loss`` by CUDA graphs if the settings ask for them and the module is on a GPU."""
    on_gpu = next(module.parameters()).device.type != "cpu"
    return CapturedLoss(module, loss) if cfg.cuda_graphs and on_gpu else loss
