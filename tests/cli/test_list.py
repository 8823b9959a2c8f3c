"""``robo-rl list`` names everything that a config can name."""

from __future__ import annotations

import pytest

from robo_rl.cli.main import main
from robo_rl.config.registry import names
from robo_rl.config.search_path import available_configs


def test_one_kind(capsys: pytest.CaptureFixture[str]):
    assert main(["list", "tasks"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["kind", "name", "from", "where"]
    assert [line[1] for line in lines[1:]] == names("tasks")
    assert {line[2] for line in lines[1:]} >= {"robo-rl"}


def test_estimators(capsys: pytest.CaptureFixture[str]):
    assert main(["list", "estimators"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert {line[1] for line in lines} >= {"dr", "fqe", "rollouts"}


def test_configs(capsys: pytest.CaptureFixture[str]):
    assert main(["list", "configs"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in available_configs())


def test_a_mistyped_kind_is_corrected(capsys: pytest.CaptureFixture[str]):
    assert main(["list", "polices"]) == 2
    assert "did you mean 'policies'?" in capsys.readouterr().err
