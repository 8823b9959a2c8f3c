"""Processes that train together: as many as have a device each, and the reason of their end."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import torch
from small_runs import write_experiment

from robo_rl.core.errors import DeviceError, ParallelError
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.processes.launch import _explain, _Relay, num_processes


@pytest.mark.parametrize(
    ("device", "processes", "says"),
    [
        ("auto", 2, "launch: processes that train together need a GPU each; expected at most 1"),
        ("cuda:0", 2, "device: processes that train together .* expected device: auto or cuda"),
        ("auto", 1, ""),
        ("cpu", 2, ""),
    ],
)
def test_two_processes_do_not_share_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, processes: int, says: str
):
    place = torch.device("cpu" if device == "cpu" else "cuda:0")
    monkeypatch.setattr(Experiment, "place", property(lambda _: place))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    config = str(write_experiment(tmp_path, device=device))
    words = [f"launch.processes={processes}"]
    if not says:
        assert num_processes(config, words) == processes
        return
    with pytest.raises(DeviceError, match=says):
        num_processes(config, words)


def test_what_all_processes_ran_into_is_said(tmp_path: Path):
    """Where each has lost the others, the cause is what one of them wrote."""
    (tmp_path / "0.log").write_text("")
    (tmp_path / "1.log").write_text(
        "noise\nrobo-rl: another process has ended; found … Duplicate GPU\n"
    )
    with pytest.raises(ParallelError, match=r"lost each other; found another .* Duplicate GPU"):
        _explain({0: 4, 1: 4}, 2, tmp_path)


def test_the_cause_is_what_robo_rl_says_and_no_noise_behind_it(tmp_path: Path):
    said = {1: "noise\nrobo-rl: warning: few envs\n", 2: "robo-rl: the cause\nnoise\n"}
    for rank, text in said.items():
        (tmp_path / f"{rank}.log").write_text(text)
    with pytest.raises(ParallelError, match=r"lost each other; found the cause;"):
        _explain({0: 4, 1: 4, 2: 4}, 3, tmp_path)


def test_the_cause_of_one_process_is_what_it_says_and_else_the_end_of_its_traceback(tmp_path: Path):
    (tmp_path / "1.log").write_text("robo-rl: the cause\nrobo-rl: warning: few envs\nnoise\n")
    for end, cause in ((2, "the cause"), (1, "noise")):
        with pytest.raises(ParallelError, match=f"process 1 of 2: {cause}$"):
            _explain({0: 4, 1: end}, 2, tmp_path)


def test_an_ignored_repeat_does_not_change_the_signal_of_the_end():
    relay = _Relay([])
    relay.on_signal(signal.SIGTERM, None)
    relay.on_signal(signal.SIGHUP, None)
    assert (relay.heard, relay.urgent) == (signal.SIGTERM, False)
