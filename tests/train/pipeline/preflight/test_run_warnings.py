"""Settings that make a run slow are named before the run, each with its place."""

from __future__ import annotations

import platform
import warnings
from typing import Any

import pytest
import torch
from small_runs import EXPERIMENT

from robo_rl.config.models import validate
from robo_rl.core.errors import Notice
from robo_rl.optim.precision import cpu_emulates_bf16
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.preflight import run_warnings
from robo_rl.train.pipeline.preflight.run_warnings import (
    emit_precision_warnings,
    emit_run_warnings,
    find_precision_warnings,
)

LABELS = ["bc", "online"]


def experiment(device: str = "cpu", bf16: tuple[str, ...] = ("bc", "online")) -> Experiment:
    stages: dict[str, Any] = {label: dict(cfg) for label, cfg in EXPERIMENT["stages"].items()}
    if "bc" in bf16:
        stages["bc"]["precision"] = "bf16"
    if "online" in bf16:
        stages["online"]["algo"] = {**stages["online"].get("algo", {}), "precision": "bf16"}
    return validate({**EXPERIMENT, "stages": stages, "device": device}, Experiment)


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_warnings, "cpu_emulates_bf16", lambda: True)


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize(
    ("bf16", "places"),
    [
        ((), []),
        (("bc",), ["stages.bc.precision"]),
        (("bc", "online"), ["stages.bc.precision", "stages.online.algo.precision"]),
    ],
)
def test_bfloat16_on_a_cpu_that_emulates_it_is_named_beforehand(
    bf16: tuple[str, ...], places: list[str]
):
    found = list(find_precision_warnings(experiment(bf16=bf16), LABELS))
    assert [each.split(":")[0] for each in found] == places


@pytest.mark.usefixtures("emulated")
def test_a_stage_that_is_not_run_is_not_named():
    found = find_precision_warnings(experiment(), ["online"])
    assert [each.split(":")[0] for each in found] == ["stages.online.algo.precision"]
    with pytest.warns(Notice, match="use fp32, or a GPU"):
        emit_run_warnings(experiment(), ["online"])


@pytest.mark.usefixtures("emulated")
def test_on_a_gpu_it_is_not_named(monkeypatch: pytest.MonkeyPatch):
    assert not list(find_precision_warnings(experiment("cuda"), LABELS))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    assert not list(find_precision_warnings(experiment("auto"), LABELS))


@pytest.mark.parametrize(
    ("machine", "capability", "emulated"),
    [
        ("x86_64", "AVX2", True),
        ("x86_64", "DEFAULT", True),
        ("x86_64", "AVX512", False),
        ("AMD64", "NO AVX", True),
        ("aarch64", "DEFAULT", False),  # unknown, so that nothing is said
    ],
)
def test_which_processors_emulate_it(
    monkeypatch: pytest.MonkeyPatch, machine: str, capability: str, emulated: bool
):
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert cpu_emulates_bf16() is emulated


@pytest.mark.usefixtures("emulated")
def test_cells_of_a_suite_say_the_same_once():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        emit_precision_warnings([experiment(), experiment(), experiment(bf16=("bc",))])
    assert [str(each.message).split(":")[0] for each in told] == [
        "stages.bc.precision",
        "stages.online.algo.precision",
    ]


def test_a_processor_with_products_in_bfloat16_is_not_warned(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run_warnings, "cpu_emulates_bf16", lambda: False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        emit_run_warnings(experiment(), LABELS)
