"""Metrics survive a kill with no step lost or twice; progress is legible on and off a terminal."""

from __future__ import annotations

import io
import json
import math
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
from rich.console import Console

from robo_rl.errors import CheckpointError, DataError
from robo_rl.train.logger import MetricsLogger, Progress, read_metrics, smoothed


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run" / "metrics.jsonl"


def log_steps(path, *steps):
    logger = MetricsLogger(path)
    for step in steps:
        logger.log({"step": step, "loss": step / 2})
    return logger


def steps_of(path):
    return [metrics["step"] for metrics in read_metrics(path)]


def test_what_was_logged_reads_back(path):
    metrics = {"step": 3, "loss": torch.tensor(0.5), "kl": np.float32(0.25), "ok": True}
    MetricsLogger(path).log(metrics)
    assert read_metrics(path) == [{"step": 3, "loss": 0.5, "kl": 0.25, "ok": True}]


def test_numbers_that_are_not_finite_stay_valid_json_and_read_as_nan(path):
    MetricsLogger(path).log({"step": 1, "loss": math.nan, "norm": -math.inf})
    line = path.read_text()
    assert json.loads(line, parse_constant=pytest.fail) == {"step": 1, "loss": None, "norm": None}
    assert math.isnan(read_metrics(path)[0]["norm"])


def test_reopening_goes_on_behind_the_last_line(path):
    log_steps(path, 1, 2)
    log_steps(path, 2, 3)
    assert steps_of(path) == [1, 2, 2, 3]


@pytest.mark.parametrize("torn", [b'{"step": 3, "lo', b'{"step": 3}', b"\0\0\0\n", b"[3]\n"])
def test_a_torn_last_line_is_dropped(path, torn):
    log_steps(path, 1, 2)
    with path.open("ab") as file:
        file.write(torn)
    assert steps_of(path) == [1, 2]
    log_steps(path, 3)
    assert steps_of(path) == [1, 2, 3]


def test_a_damaged_line_in_the_middle_is_named(path):
    log_steps(path, 1, 2, 3)
    path.write_bytes(path.read_bytes().replace(b'{"step": 2', b'{"step"; 2'))
    with pytest.raises(DataError, match=r"metrics.jsonl:2: not a line of metrics"):
        read_metrics(path)
    with pytest.raises(DataError, match=r"metrics.jsonl:2"):
        MetricsLogger(path)


@pytest.mark.parametrize(("step", "left"), [(0, []), (2, [1, 2]), (2.5, [1, 2]), (9, [1, 2, 4])])
def test_truncation_drops_later_steps_and_they_can_be_logged_again(path, step, left):
    logger = log_steps(path, 1, 2, 4)
    logger.truncate_after(step)
    assert steps_of(path) == left
    logger.log({"step": 9})
    assert steps_of(path) == [*left, 9]


def test_steps_may_not_fall_or_be_missing(path):
    logger = log_steps(path, 5, 5)
    for metrics in ({"step": 4}, {"loss": 1.0}, {"step": math.nan}):
        with pytest.raises(ValueError, match="must not fall"):
            logger.log(metrics)
    assert steps_of(path) == [5, 5]
    with pytest.raises(ValueError, match="must not fall"):
        MetricsLogger(path).log({"step": 4})


def test_a_missing_or_unwritable_file_is_a_typed_error(tmp_path):
    with pytest.raises(DataError, match="nothing"):
        read_metrics(tmp_path / "nothing")
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="cannot be written"):
        MetricsLogger(tmp_path / "file" / "metrics.jsonl")


def test_every_acknowledged_line_survives_a_kill(path):
    script = """
import pathlib, sys
from robo_rl.train.logger import MetricsLogger
logger = MetricsLogger(pathlib.Path(sys.argv[1]))
for step in range(100_000):
    logger.log({"step": step})
    print(step, flush=True)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for _ in range(30):
        acknowledged = int(process.stdout.readline())
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    MetricsLogger(path)
    steps = steps_of(path)
    assert steps == list(range(len(steps)))
    assert len(steps) > acknowledged


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
    first = smoothed(math.nan, 3.0)
    assert first == 3.0
    assert smoothed(first, 4.0) == pytest.approx(3.02)
