"""``robo-rl doctor``: a line a check, a remedy a failure, and a status that a script can use."""

from __future__ import annotations

import platform
import sys
from typing import Any

import pytest

from robo_rl.cli import doctor
from robo_rl.cli.doctor import MachineCheck
from robo_rl.cli.main import main
from robo_rl.config.provenance import machine_info
from robo_rl.core.errors import DeviceError, PluginError


def test_this_machine_has_the_basics(capsys: pytest.CaptureFixture[str]):
    assert main(["doctor", "python", "machine"]) == 0
    shown = capsys.readouterr().out
    assert f"cores, {machine_info()['processor']}" in shown
    assert "GiB of memory" in shown
    assert "GiB free" in shown


def test_a_failure_gives_its_remedy_and_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setitem(
        doctor.CHECKS, "machine", lambda: iter([MachineCheck("FAIL", "no disk", "buy one")])
    )
    assert main(["doctor", "machine"]) == 1
    assert "machine: buy one" in capsys.readouterr().out


def test_broken_rendering_fails_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("MUJOCO_GL", "nonsense")
    assert main(["doctor", "rendering"]) == 1
    shown = capsys.readouterr().out
    assert "FAIL  rendering  MUJOCO_GL=nonsense" in shown
    assert "apt-get install libegl1" in shown


def test_a_library_that_does_not_load_fails_and_hides_no_other_check(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def broken() -> Any:
        raise OSError("libcudart.so: cannot open shared object file")

    monkeypatch.setitem(doctor.CHECKS, "torch", broken)
    assert main(["doctor", "torch", "python"]) == 1
    said = capsys.readouterr().out
    assert "OSError: libcudart.so: cannot open" in said
    assert platform.python_version() in said


def test_a_missing_extra_is_a_note(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert main(["doctor", "onnxruntime"]) == 0
    assert "robo-rl[export]" in capsys.readouterr().out


def test_other_versions_than_tested_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(doctor, "_constraints", lambda: iter([("numpy", "0.1"), ("nope", "1")]))
    assert main(["doctor", "packages"]) == 0
    assert "(tested: 0.1)" in capsys.readouterr().out


def test_the_tested_versions_are_found():
    assert {"numpy", "torch", "mujoco"} <= {name for name, _ in doctor._constraints()}


def test_an_unknown_check_is_corrected(capsys: pytest.CaptureFixture[str]):
    assert main(["doctor", "rendring"]) == 2
    assert "did you mean 'rendering'?" in capsys.readouterr().err


def test_a_broken_plugin_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def load(kind: str, name: str) -> object:
        raise PluginError("fails to load") if name == "reach" else DeviceError("needs an extra")

    monkeypatch.setattr("robo_rl.config.registry.load", load)
    assert main(["doctor", "plugins"]) == 1
    shown = capsys.readouterr().out
    assert "FAIL  plugins  tasks.reach: fails to load" in shown
    assert "robots.panda, robots.so101" in next(x for x in shown.splitlines() if "extra" in x)
