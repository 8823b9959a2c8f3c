"""Sequences of kernel launches: recorded once, and replayed as a graph.

A control step is thousands of launches. From Python these cost more than the kernels themselves,
unless there are many worlds: on a CPU with five worlds, forty times more.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch
import warp as wp

from robo_rl.env.warp.compile_notice import announce_compilation
from robo_rl.env.warp.device import quiet_warp


class GraphLauncher:
    """Runs sequences of launches by key, recorded and replayed as a graph.

    On a GPU the first run is not recorded: it compiles and loads the kernels, which is not allowed
    during recording. A sequence must always be the same for its key, on the same arrays; call
    ``forget`` after an array is replaced.

    Args:
        device: Device of the arrays.
        what: Name in the compile notice.
    """

    def __init__(self, device: torch.device, what: str) -> None:
        self._device, self._torch, self._what = wp.device_from_torch(device), device, what
        self._records = self._device.is_cpu or bool(wp.is_mempool_enabled(self._device))
        self._ran: set[Hashable] = set()
        self._graphs: dict[Hashable, Any] = {}

    def forget(self) -> None:
        """Drop all recordings."""
        self._graphs, self._ran = {}, set()  # other arrays may need other kernels

    def run(self, key: Hashable, sequence: Callable[[], None]) -> None:
        """Run the sequence of this key, in order with torch's work on the device."""
        with quiet_warp(), wp.ScopedDevice(self._device):
            self._fence(before=True)
            if key in self._graphs:
                wp.capture_launch(self._graphs[key])
            elif key in self._ran and not self._records:
                sequence()
            else:
                with announce_compilation(self._what):
                    self._first(key, sequence)
            self._fence(before=False)

    def _first(self, key: Hashable, sequence: Callable[[], None]) -> None:
        """Run the sequence, and record it if the kernels are loaded."""
        if not self._records or (self._device.is_cuda and key not in self._ran):
            sequence()
        else:
            with wp.ScopedCapture(device=self._device) as capture:
                sequence()
            graph = capture.graph
            assert graph is not None
            self._graphs[key] = graph
            wp.capture_launch(graph)
        self._ran.add(key)

    def _fence(self, *, before: bool) -> None:
        """Make Warp's stream wait for torch's, or torch's for Warp's."""
        if not self._device.is_cuda:
            return
        ours = wp.get_stream(self._device)
        theirs = wp.stream_from_torch(torch.cuda.current_stream(self._torch))
        (ours if before else theirs).wait_stream(theirs if before else ours)
