"""CUDA graphs of the pretended GPU, on which torch's own ``make_graphed_callables`` runs.

A capture writes down the operations; a replay runs them again on the tensors of the capture, and
writes their results to the addresses of the capture. What CUDA refuses within a capture is refused:
a wait of the host, an upload, and a generator. Streams and memory pools do nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from pretended_gpu import GpuTensor, PretendedGpu
from torch import Tensor
from torch.utils._pytree import tree_leaves


class CaptureError(RuntimeError):
    """What CUDA refuses within a capture."""


class PretendedGraph:
    """The operations of a capture; ``replays`` counts how often they ran again."""

    captured = 0
    replays = 0

    def __init__(self) -> None:
        self._tape: list[tuple[Any, Any, Any, Any]] = []
        self._gpu = _current()

    def record(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operation and write it down."""
        given = tree_leaves((args, kwargs))
        if any(isinstance(each, torch._C.Generator) for each in given):
            raise CaptureError(f"{func}: a generator that the graph does not know")
        before = sum(self._gpu.waits.values())
        out = self._gpu.execute(func, args, kwargs)
        if sum(self._gpu.waits.values()) > before:
            raise CaptureError(f"{func}: the host waits")
        if any(isinstance(each, GpuTensor) for each in tree_leaves(out)):
            host = (each for each in given if isinstance(each, Tensor))
            if any(not isinstance(each, GpuTensor) and each.dim() for each in host):
                raise CaptureError(f"{func}: reads memory of the host")
            self._tape.append((func, args, kwargs, out))
        return out

    def replay(self) -> None:
        """Run the operations again, at the addresses of the capture."""
        PretendedGraph.replays += 1
        for func, args, kwargs, out in self._tape:
            again = self._gpu.execute(func, args, kwargs)
            for old, new in zip(tree_leaves(out), tree_leaves(again), strict=True):
                if isinstance(old, GpuTensor) and old.data_ptr() != new.data_ptr():
                    old.elem.copy_(new.elem)


@contextmanager
def _capture(graph: PretendedGraph, pool: Any = None) -> Generator[None]:
    del pool
    gpu = _current()
    gpu.watch = graph.record
    PretendedGraph.captured += 1
    try:
        yield
    finally:
        gpu.watch = None


def _current() -> PretendedGpu:
    assert PretendedGpu.current is not None
    return PretendedGpu.current


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let torch's module of CUDA capture on the pretended GPU."""
    for name, stand_in in {
        "CUDAGraph": PretendedGraph,
        "graph": _capture,
        "synchronize": lambda: None,
        "Stream": object,
        "stream": nullcontext,
    }.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    monkeypatch.setattr(torch.cuda.graphs, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(PretendedGraph, "captured", 0)
    monkeypatch.setattr(PretendedGraph, "replays", 0)
