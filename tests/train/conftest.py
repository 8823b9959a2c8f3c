"""Stages write no metric that the table of metrics does not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from robo_rl.train.checkpoint.metric_names import declared
from robo_rl.train.checkpoint.metrics_log import MetricsLogger


@pytest.fixture(autouse=True)
def only_declared_metrics(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest):
    if request.path.parent.name == "checkpoint":  # the logger itself, by names of no stage
        return
    log = MetricsLogger.log

    def checked(logger: MetricsLogger, metrics: Mapping[str, Any]) -> None:
        unknown = [name for name in metrics if declared(name) is None]
        assert not unknown, f"{logger.path}: {unknown} are in no row of metric_names.METRICS"
        log(logger, metrics)

    monkeypatch.setattr(MetricsLogger, "log", checked)
