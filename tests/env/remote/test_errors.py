"""What keeps a remote env from starting is one typed error that says what to do; exit status 2."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from small_remote import FAULTS, NAN_REW, OKAY, OSERROR, faults, remote, seconds

from robo_rl.cli.main import main
from robo_rl.core.errors import ConfigError, DeviceError, PluginError, SpecError
from robo_rl.env.remote.env import RemoteEnv


@pytest.fixture
def no_interpreters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ROBO_RL_ENVS", str(tmp_path))
    return tmp_path


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_an_unknown_adapter_is_named_with_its_neighbour():
    with pytest.raises(ConfigError, match="unknown adapter 'robosuit'; did you mean 'robosuite'"):
        remote("robosuit")
    with pytest.raises(ConfigError, match=r"nowhere.py: no such adapter"):
        remote("nowhere.py")


def test_a_simulator_without_an_interpreter_says_how_to_make_one(no_interpreters):
    with pytest.raises(DeviceError, match=r"no interpreter for 'mjlab'.*env create mjlab"):
        remote("mjlab")


def test_an_interpreter_that_is_not_there_is_named():
    with pytest.raises(DeviceError, match=r"/nowhere/python: no such interpreter.*No such file"):
        remote("robosuite", python="/nowhere/python")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("exit 0", "found exit status 0"),
        ("echo 'cannot execute: wrong planet' >&2; exit 126", "exit status 126: cannot execute: w"),
    ],
)
def test_a_program_that_is_no_python_is_an_error_with_what_it_said(tmp_path: Path, text, match):
    with pytest.raises(PluginError, match=match):
        remote("robosuite", python=script(tmp_path / "python", text))


def test_a_python_that_is_too_old_is_an_error(tmp_path: Path):
    code = "import sys, runpy; sys.version_info = (3, 9, 1); sys.version = '3.9.1 (old)'"
    code += "; sys.argv.pop(0); runpy.run_path(sys.argv[0], run_name='__main__')"
    python = script(tmp_path / "python", f'exec {sys.executable} -c "{code}" "$@"')
    with pytest.raises(PluginError, match=r"needs Python 3.10 or later, and this is 3.9.1"):
        remote("point_mass", python=python)


@pytest.mark.parametrize(
    "adapter",
    ["robosuite", *(pytest.param(n, marks=pytest.mark.slow) for n in ("isaaclab", "mjlab"))],
)
def test_an_interpreter_without_the_simulator_is_an_error(adapter: str):
    if find_spec(adapter):
        pytest.skip(f"{adapter} is installed beside us")
    with pytest.raises(DeviceError, match=r"'\w+' is missing there; .*robo-rl env create"):
        remote(adapter, num_envs=1, python=sys.executable)


@pytest.mark.parametrize(
    ("fault", "error", "match"),
    [
        ("import", DeviceError, "'simulator_that_nobody_has' is missing there"),
        ("make", PluginError, "make raised RuntimeError: cannot be made"),
        ("file", PluginError, "make raised FileNotFoundError.*a_mesh.stl"),
        ("numpy", SpecError, "not JSON: Object of type float32"),
        ("huge", SpecError, "is too large"),
        ("never ends", SpecError, "does not fit"),
        (
            "die",
            PluginError,
            "did not start; found it exited with 3: the licence server is on fire",
        ),
        ("spec", SpecError, "low has 1 entries for a last axis of 4"),
        ("name", SpecError, r"names of letters, digits, _ and -, found \['arm/state'\]"),
    ],
)
def test_a_world_that_cannot_be_made_is_an_error(fault: str, error: type, match: str):
    with pytest.raises(error, match=match):
        remote(kwargs={"fault": fault})


def test_a_server_has_its_own_interpreter():
    with pytest.raises(ValidationError, match="python: the server behind socket has its own"):
        RemoteEnv.Config(adapter="point_mass", python="python3.12", socket="serve.sock")


def test_an_error_of_the_systems_is_the_worlds_own_and_no_end_of_the_connection():
    """A file that the simulator does not find is named; its worker is not taken for lost."""
    with closing(remote()) as env:
        env.reset(0)
        with pytest.raises(PluginError, match=r"step raised FileNotFoundError.*a_texture.png"):
            env.step(faults(OKAY, OSERROR, OKAY, OKAY))
        env.reset(0)
        assert env.step(torch.zeros(4, 2)).valid.all()
        assert env.worker_restarts == 0


def test_a_step_whose_reward_is_not_finite_counts_for_nothing():
    with closing(remote()) as env:
        env.reset(0)
        step = env.step(faults(OKAY, NAN_REW, OKAY, OKAY))
        assert step.valid.tolist() == [True, False, True, True]
        assert step.rew.tolist() == [0.0] * 4
        assert step.metrics["success"].tolist() == [0.0] * 4


@pytest.mark.parametrize("huge", ["huge reward", "huge obs"])
def test_a_step_that_is_too_large_for_float32_counts_for_nothing(huge: str):
    with closing(remote(num_envs=1, workers=1, kwargs={"fault": huge})) as env:
        before = env.reset(0)
        step = env.step(torch.zeros(1, 2))
        assert (step.valid.tolist(), step.truncated.tolist()) == ([False], [True])
        assert step.rew.tolist() == [0.0]
        assert torch.equal(step.next_obs["state"], before["state"])


def test_a_success_that_is_neither_0_nor_1_is_refused():
    with closing(remote(num_envs=1, workers=1, kwargs={"fault": "half a success"})) as env:
        env.reset(0)
        with pytest.raises(SpecError, match=r"metric 'success'; expected 0 or 1.*found 0\.5"):
            env.step(torch.zeros(1, 2))


def test_an_episode_that_begins_with_what_is_not_finite_is_refused():
    wrong = pytest.raises(SpecError, match="an episode begins with a 'state' not finite")
    with closing(remote(kwargs={"fault": "nan start"})) as env, wrong:
        env.reset(0)


@pytest.mark.slow
def test_two_that_hang_are_waited_for_at_once():
    with closing(remote(heartbeat_timeout_s=2.0)) as env:
        env.reset(0)
        for pid in env.worker_pids:
            os.kill(pid, signal.SIGSTOP)
        took, step = seconds(lambda: env.step(torch.zeros(4, 2)))
        assert took < 2.0 + 1.8, "the second had been silent for as long"
        assert not step.valid.any()


def test_worlds_are_closed_before_they_are_ended(tmp_path: Path):
    note = tmp_path / "note"
    remote(kwargs={"closes": str(note)}).close()
    assert note.read_text() == "closed\n" * 4


def test_demonstrating_before_a_reset_is_refused():
    with closing(remote("point_mass")) as env, pytest.raises(PluginError, match="reset it first"):
        env.demonstrate()


def test_arguments_that_the_adapter_does_not_know_are_named():
    with pytest.raises(PluginError, match="unexpected keyword argument 'colour'"):
        remote(kwargs={"colour": "red"})


def test_a_world_that_is_not_made_in_time_is_an_error(tmp_path: Path):
    slow = tmp_path / "slow.py"
    slow.write_text("import time\ntime.sleep(60)\n")
    start = time.monotonic()
    with pytest.raises(PluginError, match="did not start; found no answer within 2 s"):
        remote(str(slow), start_timeout_s=2.0)
    assert time.monotonic() - start < 10.0


def test_the_command_line_gives_one_line_and_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    kwargs = "env.kwargs={fault: die}"
    words = ["run", "gym_growth", f"env={{name: remote, adapter: {FAULTS}}}", kwargs]
    assert main([*words, "name=broken"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("robo-rl: remote env '")
    assert "the licence server is on fire" in error
    assert error.count("\n") == 1
