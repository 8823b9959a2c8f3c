"""CUDA graphs of the pretended GPU.

A capture writes down the operations; a replay runs them again on the tensors of the capture, and
writes their results to the addresses of the capture. A wait of the host, an upload, a generator,
and the end of another graph are refused within a capture, as CUDA refuses them. A capture on
another stream than the current one is refused too, because autograd would make it wait for the
latter. Streams do nothing else, and neither pools of memory nor freed memory are seen.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from pretended_gpu import GpuTensor, PretendedGpu
from torch import Tensor
from torch.utils._pytree import tree_leaves


class CaptureError(RuntimeError):
    """What CUDA refuses within a capture."""


class PretendedGraph:
    """The operations of a capture.

    Attributes:
        alive: Number of graphs that exist.
        captured: Number of captures so far.
        replays: Number of replays so far.
        ended_in_capture: Number of graphs that ended while another was captured.
    """

    alive = 0
    captured = 0
    replays = 0
    ended_in_capture = 0

    def __init__(self) -> None:
        self._tape: list[tuple[Any, Any, Any, Any]] = []
        self._gpu = _current()
        PretendedGraph.alive += 1

    def __del__(self) -> None:
        PretendedGraph.alive -= 1
        PretendedGraph.ended_in_capture += self._gpu.watch is not None

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


class PretendedStream:
    """A stream on which nothing waits for anything.

    Args:
        device: Device of the stream.
    """

    def __init__(self, device: torch.device | None = None) -> None:
        self.device = device

    def wait_stream(self, other: PretendedStream) -> None:
        """See ``torch.cuda.Stream``."""


_STREAMS = [PretendedStream()]
"""The current stream is the last."""


@contextmanager
def _on_stream(stream: PretendedStream) -> Generator[None]:
    _STREAMS.append(stream)
    try:
        yield
    finally:
        _STREAMS.pop()


@contextmanager
def _capture(graph: PretendedGraph, stream: PretendedStream | None = None) -> Generator[None]:
    gpu = _current()
    if stream is None or stream is not _STREAMS[-1] or stream.device is None:
        raise CaptureError("the legacy stream would depend on a stream in capture")
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
        "Stream": PretendedStream,
        "current_stream": lambda device=None: _STREAMS[-1],
        "stream": _on_stream,
    }.items():
        assert hasattr(torch.cuda, name)
        monkeypatch.setattr(torch.cuda, name, stand_in)
    for count in ("captured", "replays", "ended_in_capture"):
        monkeypatch.setattr(PretendedGraph, count, 0)
