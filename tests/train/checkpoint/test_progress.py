"""Progress is legible on and off a terminal."""

from __future__ import annotations

import io
import math
import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from rich.console import Console

from robo_rl.train.checkpoint.progress import Progress, StatusConsole, running_mean


class Clock:
    """Stands still until told."""

    now = 100.0

    def __call__(self):
        return self.now


def shown(progress_of, *, terminal):
    out = io.StringIO()
    clock = Clock()
    progress_of(Console(file=out, force_terminal=terminal, width=100), clock)
    return out.getvalue()


def run(console, clock):
    with Progress(1000, "clone", "steps", console=console, clock=clock) as progress:
        for done in range(0, 1001, 100):
            progress.update(done, loss=1 / (1 + done), env_steps=10 * done)
            clock.now += 3.0


def test_off_a_terminal_lines_come_every_ten_seconds_and_at_the_end():
    lines = shown(run, terminal=False).splitlines()
    assert lines == [
        "clone: 400/1,000 steps · 33.3/s · 18 s left · loss 0.00249 · env_steps 4,000",
        "clone: 800/1,000 steps · 33.3/s · 6.0 s left · loss 0.00125 · env_steps 8,000",
        "clone: 1,000/1,000 steps · in 33 s · loss 0.000999 · env_steps 10,000",
    ]


def test_the_time_left_is_that_to_the_total_as_it_is_taken_for_by_now():
    def run(console, clock):
        with Progress(1000, "clone", "steps", console=console, clock=clock) as progress:
            for done in (0, 100):
                progress.update(done, 200)
                clock.now += 10.0

    lines = shown(run, terminal=False).splitlines()
    assert lines[0] == "clone: 100/200 steps · 10/s · 10 s left"


def test_work_goes_on_where_nobody_reads_the_lines(monkeypatch: pytest.MonkeyPatch):
    """As after Ctrl-C in ``robo-rl run … 2>&1 | tee log``, which ends ``tee`` first."""
    reads, writes = os.pipe()
    os.close(reads)
    torn, console = os.fdopen(writes, "w"), StatusConsole()
    monkeypatch.setattr(sys, "stderr", torn)
    run(console, Clock())
    assert console.quiet
    with suppress(BrokenPipeError):
        torn.close()


def test_work_goes_on_where_the_terminal_is_gone(monkeypatch: pytest.MonkeyPatch):
    """With a live line, which is drawn by a thread and once more at its end."""
    leader, follower = os.openpty()
    terminal, console = os.fdopen(follower, "w"), StatusConsole()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress(10, "clone", console=console) as progress:
        assert console.is_terminal
        os.close(leader)
        progress.update(3)
    assert console.quiet
    with suppress(OSError):
        terminal.close()


def test_a_full_disk_costs_only_the_lines_that_it_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    log, console = open("/dev/full", "w", buffering=1), StatusConsole()  # noqa: SIM115
    monkeypatch.setattr(sys, "stderr", log)
    run(console, Clock())
    with (tmp_path / "log").open("wb") as room:
        os.dup2(room.fileno(), log.fileno())  # as if someone had made room
    run(console, Clock())
    log.close()
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[-1].startswith("clone: 1,000/1,000 steps · in 33 s")
    assert len(lines) <= 6  # of two runs: no line is written twice


def test_on_a_terminal_it_is_one_line():
    text = shown(run, terminal=True)
    assert text.count("\n") == 1
    assert "clone" in text
    assert "1,000/1,000 steps · in 33 s" in text


def test_a_resumed_stage_does_not_count_what_it_found_done():
    def resumed(console, clock):
        with Progress(1000, "clone", console=console, clock=clock) as progress:
            progress.update(900)
            clock.now += 20.0
            progress.update(902)

    line = shown(resumed, terminal=False).splitlines()[0]
    assert line == "clone: 902/1,000 steps · 10 s each · 16 min left"


def test_a_stage_that_fails_says_where_and_hides_nothing():
    def fail(console, clock):
        with Progress(10, "fine-tune", "updates", console=console, clock=clock) as progress:
            progress.update(4)
            raise KeyError

    out = io.StringIO()
    with pytest.raises(KeyError):
        fail(Console(file=out), Clock())
    assert out.getvalue() == "fine-tune: 4/10 updates · stopped after 0.0 s\n"


def test_labels_are_not_markup():
    def odd(console, clock):
        with Progress(1, "[bold]x[/]", console=console, clock=clock):
            pass

    assert "[bold]x[/]: 0/1" in shown(odd, terminal=False)


def test_a_smoothed_value_begins_with_the_first_and_follows_slowly():
    first = running_mean(math.nan, 3.0)
    assert first == 3.0
    assert running_mean(first, 4.0) == pytest.approx(3.02)
