"""What is told of a machine that stands still, and of periods that are missed meanwhile."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

OURS = ("_standstill", "_missed")


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    yield SimpleNamespace(**{name[1:]: import_module(name) for name in OURS})
    for name in OURS:
        del sys.modules[name]


def children() -> set[int]:
    me = os.getpid()
    return set(map(int, Path(f"/proc/{me}/task/{me}/children").read_text().split()))


def test_a_core_whose_probe_did_not_run_stood_still(modules: Any):
    """A probe is stopped, which is what it looks like to it when its core does not go on."""
    if not modules.standstill._may():
        pytest.skip("no real-time priority here, so nothing is looked at")
    before = children()
    with modules.standstill.watched() as standstills:
        probe = min(children() - before)
        began_s = time.monotonic()
        os.kill(probe, signal.SIGSTOP)
        time.sleep(0.1)
        os.kill(probe, signal.SIGCONT)
        time.sleep(0.05)
        ended_s = time.monotonic()
        longest = max(standstills.between(began_s, ended_s), key=lambda gap: gap.long_s)
        assert longest.long_s > 0.09
        assert began_s - 0.01 < longest.began_s < ended_s
        assert all(gap.long_s < 0.09 for gap in standstills.between(0.0, began_s - 0.01))
    assert children() == before


def test_where_nothing_can_be_looked_at_nothing_is_excused(
    modules: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(modules.standstill, "_may", lambda: False)
    with modules.standstill.watched() as standstills:
        assert not standstills.seen
        assert standstills.between(0.0, time.monotonic()) == []


def test_a_time_is_marred_by_what_overlaps_with_it(modules: Any, tmp_path: Path):
    file = tmp_path / "0"
    file.write_text("10.0 10.02\n12.0 12.01\n")
    standstills = modules.standstill.StallMonitor([file])
    found = {span: len(standstills.between(*span)) for span in ((9, 10.01), (10.01, 11), (9, 13))}
    assert found == {(9, 10.01): 1, (10.01, 11): 1, (9, 13): 2}
    assert standstills.between(10.5, 11.9) == []


def test_missed_periods_are_counted_and_told_apart_by_what_the_machine_did(
    modules: Any, tmp_path: Path
):
    """Periods of 0.1 s: of 3 to 7 a standstill of 0.15 s explains two; 11 it has no part in."""
    file, missed = tmp_path / "0", modules.missed.MissedPeriodListener()
    file.write_text("0.25 0.40\n")
    for number in (1, 2, 8, 9, 10, 12):
        missed.on_tick(SimpleNamespace(number=number, began_s=0.1 * number))
    figures = missed.figures(modules.standstill.StallMonitor([file]))
    assert figures == {
        "ticks": 11,
        "missed": 6,
        "missed_at_standstill": 2,
        "standstills": 1,
        "longest_ms": pytest.approx(150.0),
    }
