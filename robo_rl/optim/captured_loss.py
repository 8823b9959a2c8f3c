"""Losses of minibatches as CUDA graphs.

The CPU launches some hundred kernels for the loss and the gradient of a small network, which takes
longer than the kernels themselves. A CUDA graph launches all of them at once, at the addresses of
its capture. A graph therefore serves one update, whose rollout it reads, and one number of rows.
Capturing costs about three eager minibatches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

import torch
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer
from torch import Tensor, nn

from robo_rl.config.models import ConfigModel

_Loss = TypeVar("_Loss", bound=tuple[Any, ...])

WARM_UP = 1
"""Eager runs before a capture, in which libraries allocate their workspaces."""


class CaptureConfig(ConfigModel):
    """Whether minibatches run as CUDA graphs.

    The numbers are those of the same kernels without a graph. Memory rises by that of the
    activations of one minibatch.
    """

    cuda_graphs: bool = Field(default=False)
    """Whether a minibatch's loss and gradient run as CUDA graphs; without effect on a CPU."""

    @model_serializer(mode="wrap")
    def _without_the_default(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the default, because graphs do not change a result and configs keep hashes."""
        body: dict[str, Any] = handler(self)
        return {k: v for k, v in body.items() if (k, v) != ("cuda_graphs", False)}


class CapturedLoss(Generic[_Loss]):
    """Computes a loss by CUDA graphs, one for each number of rows.

    Args:
        module: The trained module.
        loss: Maps row indices (R,) to a tuple of which the first entry is the loss, a scalar, and
            the others hold tensors without gradient. It reads no value on the CPU, draws no random
            number, and depends on weights of ``module`` and on tensors that stay in place.
    """

    def __init__(self, module: nn.Module, loss: Callable[[Tensor], _Loss]) -> None:
        self._module, self._loss = module, loss
        self._graphs = dict[int, Callable[[Tensor], _Loss]]()

    def __call__(self, pick: Tensor) -> _Loss:
        """Return the loss and its metrics of rows (R,); the next call overwrites them."""
        if len(pick) not in self._graphs:
            self._graphs[len(pick)] = self._capture(pick)
        return self._graphs[len(pick)](pick)

    def _capture(self, pick: Tensor) -> Callable[[Tensor], _Loss]:
        graphed = torch.cuda.make_graphed_callables(
            _LossModule(self._module, self._loss),
            (pick.clone(),),
            num_warmup_iters=WARM_UP,
            allow_unused_input=True,
        )
        return cast("Callable[[Tensor], _Loss]", graphed)


class _LossModule(nn.Module):
    """A loss as a module, whose parameters are those of the trained module."""

    def __init__(self, trained: nn.Module, loss: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.trained, self._loss = trained, loss

    def forward(self, pick: Tensor) -> Any:
        return self._loss(pick)


def captured(
    cfg: CaptureConfig, module: nn.Module, loss: Callable[[Tensor], _Loss]
) -> Callable[[Tensor], _Loss]:
    """Return ``loss`` by CUDA graphs if the settings ask for them and the module is on a GPU."""
    on_gpu = next(module.parameters()).device.type != "cpu"
    return CapturedLoss(module, loss) if cfg.cuda_graphs and on_gpu else loss
