"""Which command after a fault is taken for the watchdog's."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

FAULT_S = 10.0
SAID_S = FAULT_S - 0.02 + 0.05 * np.arange(-3.0, 1.0)
"""What the policy sent before."""


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("cyclonedds")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    yield import_module("_fault_processes")
    for name in [name for name in sys.modules if name.startswith("_fault_")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("came_s", "repeated", "first"),
    [
        ([0.01, 0.03, 0.08], [0], 4),  # once more what was sent
        ([0.01, 0.03, 0.08, 0.13], [2, 3], 4),  # what was worked out and not sent, then braking
        ([0.001, 0.01, 0.05], [1], 5),  # one of the policy's was still on its way
        ([0.002, 0.03, 0.08], [0], 4),  # a quick one
        ([], [], 4),  # none at all
    ],
)
def test_the_first_is_a_repeat_or_comes_when_nothing_else_can(
    judged, came_s: list[float], repeated: list[int], first: int
):
    times = np.concatenate([SAID_S, FAULT_S + np.array(came_s)])
    same = np.zeros(len(times) - 1, bool)
    same[np.array(repeated, int) + len(SAID_S) - 1] = True
    assert judged._first(times, same, FAULT_S) == first
