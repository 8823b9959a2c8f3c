"""A suite in seconds, and kept cells that nobody ran."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml
from small_runs import EXPERIMENT

from robo_rl.bench.results.cell_record import CellRecord

SUITE: dict[str, Any] = {
    "description": "Two ways to explore from one clone.",
    "experiment": {
        **{key: EXPERIMENT[key] for key in ("task", "policy", "eval")},
        "stages": {
            "collect": EXPERIMENT["stages"]["collect"],
            "bc": EXPERIMENT["stages"]["bc"],
            "online": {**EXPERIMENT["stages"]["online"], "updates": 4},
            "distill": EXPERIMENT["stages"]["distill"],
        },
    },
    "tasks": {"near": {}, "far": {"task": {"success_m": 0.1}}},
    "methods": {
        "default": {},
        "sde": {
            "stages": {
                "online": {"exploration": {"sampler": "flow_sde"}, "algo": {"ratio": "single_step"}}
            }
        },
        "gaussian": {"policy": {"name": "gaussian", "horizon": 4, "exec_horizon": 4}},
    },
    "seeds": [0, 1],
    "report": {"window": 8, "thresholds": [0.1, 0.9]},
}


def write_suite(folder: Path, name: str = "tiny", **changes: Any) -> Path:
    """The suite with some of its keys replaced, in ``FOLDER/configs/suite/``."""
    path = folder / "configs" / "suite" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({**copy.deepcopy(SUITE), **changes}, sort_keys=False))
    return path


def kept(
    task: str,
    method: str,
    seed: int,
    success: float = 0.9,
    *,
    curve: list[tuple[int, float, int, int]] | None = None,
    numbers: dict[str, Any] | None = None,
    one_step: float = 0.8,
    **changes: Any,
) -> CellRecord:
    """A cell of a suite ``made_up``: what its policies are worth, and its curve."""
    measured = {"success": {"value": success, "n": 100}, "success_before": {"value": 0.5}}
    online = {"numbers": numbers or measured, "seconds": 60.0}
    student = {"numbers": {"success": {"value": one_step}, "teacher_success": {"value": success}}}
    common = {"status": "passed", "gate": "", "shared": False}
    stages = {
        "bc": {"seconds": 30.0, "numbers": {}, **common, "shared": True},
        "online": {**online, **common},
        "distill": {"seconds": 30.0, **student, **common},
    }
    fields: dict[str, Any] = {
        "suite": "made_up",
        "task": task,
        "method": method,
        "seed": seed,
        "digest": "0123",
        "ended": "2026-01-01T00:00:00+00:00",
        "jobs": 1,
        "threads": 2,
        "versions": {"robo-rl": "0.1.0"},
        "machine": {"cores": 2, "processor": "x86_64", "system": "Linux"},
        "stages": stages,
        "curve": [(*point, None) for point in curve or []],
        "config": {},
    }
    return CellRecord.model_validate({**fields, **changes})
