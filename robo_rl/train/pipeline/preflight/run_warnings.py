"""Warns before a run about gates that are unlikely to pass, and settings that make it slow."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from robo_rl.core.errors import Notice
from robo_rl.optim.precision import Precision, cpu_emulates_bf16
from robo_rl.train.pipeline.experiment import Experiment


def emit_run_warnings(experiment: Experiment, labels: Iterable[str]) -> None:
    """Emit each warning about the stages of these labels as a ``Notice``."""
    chosen = list(labels)
    for doubt in find_power_warnings(experiment, chosen):
        warnings.warn(doubt, Notice, stacklevel=2)
    for doubt in find_precision_warnings(experiment, chosen):
        warnings.warn(doubt, Notice, stacklevel=2)


def emit_precision_warnings(experiments: Iterable[Experiment]) -> None:
    """Emit each distinct warning about slow precisions of experiments as a ``Notice``."""
    found = (doubt for each in experiments for doubt in find_precision_warnings(each, each.stages))
    for doubt in dict.fromkeys(found):
        warnings.warn(doubt, Notice, stacklevel=2)


def find_power_warnings(experiment: Experiment, labels: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each gate with too few episodes to pass, except where it is waived.

    Args:
        experiment: Experiment with the number of episodes.
        labels: Labels of the stages to check.
    """
    for label in labels:
        stage = experiment.stages[label]
        if label in experiment.waive:
            continue
        if (doubt := stage.cls.low_power_warning(stage.cfg, experiment.eval)) is not None:
            yield f"stages.{label}: {doubt}"


def find_precision_warnings(experiment: Experiment, labels: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each ``precision: bf16`` on a CPU that emulates it.

    Args:
        experiment: Experiment with the device.
        labels: Labels of the stages to check.
    """
    on_gpu = experiment.device.startswith("cuda") or experiment.place.type == "cuda"
    if on_gpu or not cpu_emulates_bf16():
        return
    for label in labels:
        settings = experiment.stages[label].cfg.model_dump(mode="json")
        for place in _places(settings, f"stages.{label}"):
            yield (
                f"{place}: bf16 takes many times as long as fp32 on this processor, which has no"
                " AVX-512; use fp32, or a GPU"
            )


def _places(settings: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """Yield the dotted keys of bfloat16 among nested settings; lists hold none."""
    for key, value in settings.items():
        place = f"{prefix}.{key}"
        if key == "precision" and value == Precision.BF16.value:
            yield place
        elif isinstance(value, Mapping):
            yield from _places(value, place)
