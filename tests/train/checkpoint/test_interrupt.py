"""Ctrl-C, SIGTERM, SIGHUP: what is under way is finished and saved, and gone on with to the bit."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from small_runs import STAGES, Runner, outcome, write_experiment

from robo_rl.train.checkpoint.interrupt import (
    SIGNALS,
    Interrupted,
    SafePoint,
    between_updates,
    raising_interrupted,
)

RARELY = {"checkpoint_every": 1000}
CHANGES: dict[str, Any] = {
    "collect": {"episodes": 16, "num_envs": 2},
    "bc": {**STAGES["bc"], **RARELY, "steps": 160},
    "online": {**STAGES["online"], **RARELY, "updates": 25},
    "distill": {**STAGES["distill"], "rounds": 2, "steps": 130},
}


@pytest.fixture(autouse=True)
def heard():
    """Also where the tests run in the background of a shell, or under ``nohup``."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    hung_up = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGINT, before)
    signal.signal(signal.SIGHUP, hung_up)


def noted(stage: Path, patterns: str, number: int) -> Callable[[], None]:
    """Returns once a stage has written so many lines or files of a pattern."""

    def count() -> int:
        files = list(stage.glob(patterns))
        lines = [file.read_bytes().count(b"\n") for file in files if file.suffix == ".jsonl"]
        return sum(lines) if lines else len(files)

    def wait() -> None:
        deadline = time.monotonic() + 30
        while count() < number:
            assert time.monotonic() < deadline
            time.sleep(0.002)

    return wait


@pytest.mark.slow
def test_a_run_that_is_interrupted_in_every_stage_ends_as_one_that_was_not(
    runner: Runner, tmp_path: Path
):
    config = write_experiment(tmp_path, stages=CHANGES)
    ended = runner.run("run", config, "--out", tmp_path / "whole")
    assert ended.status == 0, ended.output
    run, words = tmp_path / "torn" / "tiny", ("run", config, "--out", tmp_path / "torn")
    moments = [
        ("00-collect", "data.zarr/commits.jsonl", 2, "episodes"),
        ("01-bc", "metrics.jsonl", 1, "steps of 'clone'"),
        ("02-online", "metrics.jsonl", 2, "updates"),
        ("03-distill", "metrics.jsonl", 1, "steps of 'distil'"),
    ]
    for (stage, pattern, number, unit), by in zip(moments, [*SIGNALS, SIGNALS[0]], strict=True):
        ended = runner.run(*words, kill_when=noted(run / stage, pattern, number), by=by)
        assert ended.status == 128 + by, ended.output
        assert f" {unit} are kept, the same command resumes there" in ended.output
        assert "Traceback" not in ended.output
        assert not (run / stage / "report.json").exists()
    ended = runner.run(*words)
    assert ended.status == 0, ended.output
    saved = {stage: len(list((run / stage / "ckpt").glob("0*"))) for stage, *_ in moments[1:]}
    assert saved == {"01-bc": 2, "02-online": 2, "03-distill": 3}  # where it stopped, and ends
    assert outcome(run) == outcome(tmp_path / "whole" / "tiny")


def interrupted(work: Callable[[], None]) -> Interrupted:
    """How it ended."""
    with pytest.raises(Interrupted) as ended:
        work()
    return ended.value


def test_a_signal_waits_for_the_next_checkpoint_and_leaves_there(capfd: pytest.CaptureFixture[str]):
    saved = list[int]()

    def train() -> None:
        with between_updates() as pause:
            for done in range(1, 100):
                if done == 5:
                    os.kill(os.getpid(), signal.SIGTERM)
                save = partial(saved.append, done)
                pause.checkpoint(save, due=done % 3 == 0, kept=f"{done} updates")

    ended = interrupted(train)
    assert saved == [3, 5]
    assert (ended.status, ended.kept) == (143, "5 updates")
    assert "once more ends at once" in capfd.readouterr().err


def test_a_second_signal_ends_at_once():
    def train() -> None:
        with between_updates():
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)
            raise AssertionError("went on")

    ended = interrupted(train)
    assert (ended.status, ended.kept) == (130, None)


def test_a_signal_behind_the_last_checkpoint_is_not_lost():
    def train() -> None:
        with between_updates() as pause:
            pause.checkpoint(lambda: None, due=True, kept="all")
            os.kill(os.getpid(), signal.SIGINT)

    assert interrupted(train).kept == "all"


@pytest.mark.parametrize("number", SIGNALS)
def test_elsewhere_all_signals_end_at_once_and_handlers_are_put_back(number: int):
    def evaluate() -> None:
        with raising_interrupted():
            with between_updates():
                pass
            os.kill(os.getpid(), number)
            raise AssertionError("went on")

    before = [signal.getsignal(each) for each in SIGNALS]
    assert interrupted(evaluate).status == 128 + number
    assert [signal.getsignal(each) for each in SIGNALS] == before


def test_a_closed_terminal_that_says_so_twice_is_waited_for_once():
    """The shell passes SIGHUP on, and the kernel sends another when the shell ends."""
    saved = []

    def train() -> None:
        with raising_interrupted(), between_updates() as pause:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGHUP)
            pause.checkpoint(lambda: saved.append(1), due=False, kept="3 updates")

    found = interrupted(train)
    assert (found.status, found.kept, saved) == (129, "3 updates", [1])


def test_a_second_hang_up_does_not_cut_the_clean_up_short():
    closed = []

    def train() -> None:
        with raising_interrupted():
            try:
                with between_updates() as pause:
                    os.kill(os.getpid(), signal.SIGHUP)
                    pause.checkpoint(lambda: None, due=False, kept="3 updates")
            finally:
                os.kill(os.getpid(), signal.SIGHUP)
                closed.append(1)

    found = interrupted(train)
    assert (found.status, found.kept, closed) == (129, "3 updates", [1])


def test_a_hang_up_does_not_cut_the_clean_up_after_a_second_signal_short():
    closed = []

    def train() -> None:
        with raising_interrupted():
            try:
                with between_updates():
                    os.kill(os.getpid(), signal.SIGTERM)
                    os.kill(os.getpid(), signal.SIGINT)
            finally:
                os.kill(os.getpid(), signal.SIGHUP)
                closed.append(1)

    assert (interrupted(train).status, closed) == (130, [1])


def test_all_processes_wait_for_the_one_that_saves(monkeypatch: pytest.MonkeyPatch):
    """A process that ends earlier would have the launcher count the time, and kill the other."""
    done: list[str] = []
    monkeypatch.setattr(SafePoint, "_asked", lambda _: done.append("met") or 15)
    with pytest.raises(Interrupted):
        SafePoint().checkpoint(lambda: done.append("saved"), due=False, kept="all")
    assert done == ["met", "saved", "met"]


def test_an_ignored_signal_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with raising_interrupted(), between_updates():
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_another_thread_trains_undisturbed():
    found = list[SafePoint]()

    def train() -> None:
        with between_updates() as pause:
            pause.checkpoint(lambda: found.append(pause), due=True, kept="all")

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert len(found) == 1
