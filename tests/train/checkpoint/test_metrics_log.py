"""Metrics survive a kill with no step lost or twice."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

from robo_rl.core.errors import CheckpointError, DataError
from robo_rl.train.checkpoint.metrics_log import MetricsLogger, read_metrics


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
from robo_rl.train.checkpoint.metrics_log import MetricsLogger
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
