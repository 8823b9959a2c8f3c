"""What a bundle is given of the stages before it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from robo_rl.train.pipeline.stage import Report
from robo_rl.train.stages import export
from robo_rl.train.stages.export import Export


def test_a_number_of_an_evaluation_that_lost_a_world_is_one_of_a_bundle(
    monkeypatch: pytest.MonkeyPatch,
):
    number = {"value": 0.9, "low": 0.8, "high": 0.95, "n": 40, "unit": "1", "protocol": "ab"}
    report = Report("bc", numbers={"success": {**number, "lost": 1}, "steps": 7})
    monkeypatch.setattr(export, "world_of", lambda _: {})
    monkeypatch.setattr(Export, "_teacher_latency", lambda *_: {})
    experiment = SimpleNamespace(model_dump=lambda **_: {})
    context: Any = SimpleNamespace(earlier=[(Path(), report)], experiment=experiment)
    store: Any = SimpleNamespace(digest=lambda: "cd")
    found = Export(Export.Config())._evidence(context, store, {})
    assert found.evaluation["bc.success"].model_dump() == number
    assert found.evaluation.keys() == {"bc.success"}
