"""``robo-rl deploy latency``: estimates a robot's latency from a recording, for training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from robo_rl.api.env import Backend
from robo_rl.api.task import Task
from robo_rl.cli.output import Json, format_table, json_beside
from robo_rl.config.component import Component, component, default
from robo_rl.config.compose import overlay, resolve_tree
from robo_rl.config.models import ConfigModel, to_yaml, validate
from robo_rl_sim2real.convert.conversion_spec import ConversionSpec
from robo_rl_sim2real.simulated.world import SimWorld
from robo_rl_sim2real.twin.identification.latency import (
    LatencyEstimate,
    LatencyFitConfig,
    fit_latency,
)

_RATE_HZ = 100.0


class _LatencyComponents(ConfigModel):
    task: Annotated[Component[Task], component("tasks")]
    backend: Annotated[Component[Backend], component("backends")] = default("mujoco_cpu", threads=1)


def run(
    recording: Annotated[Path, typer.Argument(help="A recording, or a folder of some.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Such as window_s=4.")
    ] = None,
    json_file: Json = None,
) -> None:
    """Estimate a robot's latency by comparing its recorded motion with its simulation."""
    cfg = validate(resolve_tree(overlay(overrides or [])), LatencyFitConfig)
    found = fit_latency(recording, cfg, lambda want: _world(want, cfg.task))
    with json_beside(json_file, _json(found)):
        typer.echo(format_latency(found))
        typer.echo("\n" + to_yaml(found.config()), nl=False)


def format_latency(found: LatencyEstimate) -> str:
    """Return a table of the estimates and their uncertainty."""
    late_s = np.array([shift.delay_s for shift in found.shifts])
    explained = np.array([shift.explained_variance for shift in found.shifts])
    rows = [
        (
            "from a command to its effect",
            _ms(np.median(late_s)),
            f"{_ms(late_s.min())} to {_ms(late_s.max())}",
        ),
        ("scatter of arrivals", _ms(found.arrivals.jitter_s), "by the headers of the readings"),
        ("single readings lost", _share(found.arrivals.loss), "likewise"),
        (
            "control periods without a reading",
            _share(found.period_loss),
            f"at {1.0 / found.dt_s:g} Hz; the setting `loss`",
        ),
        ("pieces", len(late_s), _left_out(found)),
        ("motion explained", _share(np.median(explained)), f"{_share(explained.min())} at least"),
    ]
    return format_table(rows)


def _left_out(found: LatencyEstimate) -> str:
    return (
        f"{found.num_rejected} left out, which the simulation does not explain; "
        f"{found.num_uninformative} tell no delay"
    )


def _world(want: ConversionSpec, task: str) -> SimWorld:
    chosen = {"name": task or want.contract.task, "robot": want.contract.robot}
    parts = validate({"task": chosen}, _LatencyComponents)
    return SimWorld(parts.task.build(), parts.backend.build(), 1.0 / _RATE_HZ)


def _json(found: LatencyEstimate) -> dict[str, object]:
    arrivals = {name: None if np.isnan(v) else v for name, v in found.arrivals._asdict().items()}
    shifts = [shift._asdict() for shift in found.shifts]
    return {
        **found.config(),
        "arrivals": arrivals,
        "num_rejected": found.num_rejected,
        "num_uninformative": found.num_uninformative,
        "dt_s": found.dt_s,
        "windows": shifts,
    }


def _ms(value_s: float) -> str:
    return "unknown" if np.isnan(value_s) else f"{1e3 * value_s:.1f} ms"


def _share(value: float) -> str:
    return "unknown" if np.isnan(value) else f"{value:.1%}"
