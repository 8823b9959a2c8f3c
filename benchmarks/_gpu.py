"""What the GPU benchmarks share: the device, or one line that it is not there; times; waits."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager

import torch
from _bare_physics import settle

from robo_rl.core.device import find_device
from robo_rl.core.errors import DeviceError

NO_GPU = 2


def demanded(name: str) -> torch.device:
    """The device of a name, where ``auto`` must be a GPU; without it the program ends.

    Args:
        name: ``auto``, ``cuda``, ``cuda:N``, or ``cpu`` for a trial that shows that it runs.
    """
    try:
        return find_device("cuda" if name == "auto" else name)
    except DeviceError as error:
        print(f"no GPU: {error}", file=sys.stderr)
        sys.exit(NO_GPU)


def milliseconds(run: Callable[[], object], device: torch.device, repeats: int) -> float:
    """The median wall time of a call, until the device is done; one call before warms up."""
    run()
    times: list[float] = []
    for _ in range(repeats):
        settle(device)
        start = time.perf_counter()
        run()
        settle(device)
        times.append(1e3 * (time.perf_counter() - start))
    return sorted(times)[len(times) // 2]


@contextmanager
def waits_counted(device: torch.device) -> Generator[dict[str, int]]:
    """Within it torch tells each wait of the host for a GPU; how many at which line of source."""
    found: dict[str, int] = {}
    if device.type != "cuda":
        yield found
        return
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            yield found
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for each in told:
        if "synchroniz" in str(each.message):
            line = f"{each.filename.rpartition('robo_rl/')[2]}:{each.lineno}"
            found[line] = found.get(line, 0) + 1
