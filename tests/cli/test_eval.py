"""What ``robo-rl eval`` prints and writes of an evaluation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from robo_rl.cli.main import main


def number(value: float, unit: str = "1") -> dict[str, Any]:
    ends = {"low": value - 0.1, "high": value + 0.1}
    return {"value": value, **ends, "n": 20, "unit": unit, "protocol": "ab"}


class Result:
    """The numbers of an env of two tasks."""

    def __init__(self, measure: str) -> None:
        self.measure = measure

    def report_numbers(self) -> dict[str, dict[str, Any]]:
        parts = {"success": number(0.5), "success/lift": number(0.4), "success/reach": number(0.6)}
        return {**(parts if self.measure == "success" else {}), "return": number(3.0, "reward")}


@pytest.mark.parametrize("measure", ["success", "return"])
def test_all_numbers_are_printed_and_written(
    measure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    asked: dict[str, Any] = {}

    def evaluate_path(path: Path, **settings: Any) -> Result:
        asked.update(settings, path=path)
        return Result(measure)

    monkeypatch.setattr("robo_rl.train.pipeline.reevaluate.evaluate_path", evaluate_path)
    words = ["task.robot=so101", "device=cpu", "--json", str(tmp_path / "a.json")]
    assert main(["eval", "somewhere", *words]) == 0
    assert asked["device"] == "cpu"
    assert asked["world_changes"] == {"task": {"robot": "so101"}}
    out, written = capsys.readouterr().out, json.loads((tmp_path / "a.json").read_text())
    assert written["value"] == {"success": 0.5, "return": 3.0}[measure]
    assert written["numbers"] == Result(measure).report_numbers()
    assert ("  lift 40.0 % [30.0, 50.0] of 20" in out) == (measure == "success")
