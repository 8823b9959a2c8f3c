"""What a script keeps counts for the settings that made it and for no others."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from robo_rl.core.errors import DataError

CONTENT: dict[str, Any] = {
    "base": ["task/reach", "policy/flow"],
    "stages": {
        "dataset": {"path": "/somewhere/logs.zarr"},
        "bc": {},
        "offline": {"algo": "parl"},
    },
}


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return import_module("_kept")


def test_it_is_given_back_for_the_same_settings_wherever_files_lie(
    module: ModuleType, tmp_path: Path
):
    elsewhere = {**CONTENT, "stages": {**CONTENT["stages"], "dataset": {"path": "logs.zarr"}}}
    module.save_result(
        tmp_path / "a.json", module.resolve_experiment(CONTENT), {"value": [1.0, 2.0]}
    )
    again = module.load_result(tmp_path / "a.json", module.resolve_experiment(elsewhere))
    assert again == {"value": [1.0, 2.0]}
    assert module.load_result(tmp_path / "b.json", module.resolve_experiment(CONTENT)) is None


def test_a_default_that_changed_is_another_question_and_an_option_that_came_later_is_none(
    module: ModuleType, tmp_path: Path
):
    settings, path = module.resolve_experiment(CONTENT), tmp_path / "a.json"
    module.save_result(path, settings, {"value": 1.0})
    settings["stages"]["offline"]["algo"]["an_option"] = 3
    assert module.load_result(path, settings) == {"value": 1.0}
    settings["stages"]["offline"]["algo"]["step_size"] *= 5.0
    assert module.load_result(path, settings) is None


def test_of_files_without_settings_nothing_is_known(module: ModuleType, tmp_path: Path):
    (tmp_path / "a.json").write_text(json.dumps({"value": 1.0}))
    assert module.load_result(tmp_path / "a.json", module.resolve_experiment(CONTENT)) is None


def test_a_result_from_before_a_default_changed_says_so(
    module: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    settings, path = module.resolve_experiment(CONTENT), tmp_path / "a.json"
    older = json.loads(json.dumps(settings))
    assert older["policy"].pop("train_times") == "grid"
    module.save_result(path, older, {"value": 1.0})
    assert module.load_result(path, settings) == {"value": 1.0}
    assert "a.json: made before the default changed from train_times: uniform" in (
        capsys.readouterr().err
    )


def test_a_damaged_result_is_named(module: ModuleType, tmp_path: Path):
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(DataError, match=r"a\.json: cannot be read"):
        module.load_result(tmp_path / "a.json", {})
