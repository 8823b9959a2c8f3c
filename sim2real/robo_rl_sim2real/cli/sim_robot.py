"""``robo-rl sim-robot``: a simulated robot behind the real one's topics, in real time."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from robo_rl.api.env import Backend
from robo_rl.api.task import Task
from robo_rl.cli.output import Json, json_beside
from robo_rl.config.component import Component, component, default
from robo_rl.config.models import ConfigModel, compose, validate
from robo_rl.config.search_path import available_configs
from robo_rl_sim2real.cli.signals import end_on_signal, stop_on_signal
from robo_rl_sim2real.core.clock import freeze_garbage_collector
from robo_rl_sim2real.simulated.robot import SimRobot
from robo_rl_sim2real.simulated.world import SimWorld
from robo_rl_sim2real.transport.base import Transport

_TOLD = ("episodes", "succeeded", "failed", "unfinished", "missed_steps")

Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Such as sensor_delay.latency_s=0.06."),
]


class _SimRobotComponents(ConfigModel):
    task: Annotated[Component[Task], component("tasks")]
    transport: Annotated[Component[Transport], component("transports")]
    backend: Annotated[Component[Backend], component("backends")] = default("mujoco_cpu", threads=1)


def run(
    overrides: Overrides = None,
    task: Annotated[str, typer.Option(help="A config in task/, or a task's name.")] = "lift_cube",
    robot: Annotated[str, typer.Option(help="Robot; the task's own if left out.")] = "",
    settings: Annotated[
        str, typer.Option(help="A config of the simulated robot.")
    ] = "deploy/sim_robot",
    transport: Annotated[str, typer.Option(help="Such as dds.")] = "dds",
    domain: Annotated[int, typer.Option(min=0, max=232, help="DDS domain.")] = 0,
    services: Annotated[
        bool, typer.Option("--services", help="Over dds: take goals of FollowJointTrajectory, too.")
    ] = False,
    seconds: Annotated[float, typer.Option(min=0.0, help="End after so long; 0 never.")] = 0.0,
    json_file: Json = None,
) -> None:
    """Simulate a robot in real time, until Ctrl-C."""
    cfg = validate(compose(settings, overrides or []), SimRobot.Config)
    wanted = {
        "task": {**_task(task), **({"robot": robot} if robot else {})},
        "transport": {
            **{"name": transport, "domain": domain},
            **({"services": True} if services else {}),
        },
    }
    parts = validate(wanted, _SimRobotComponents)
    world = SimWorld(parts.task.build(), parts.backend.build(), 1.0 / cfg.rate_hz)
    simulated = SimRobot(cfg, world, parts.transport.build("sim_robot"))
    stop_on_signal(simulated.stop)
    typer.echo(f"{world.robot.name} at {task} on {transport}, domain {domain}", err=True)
    if services or transport != "dds":
        typer.echo(simulated.controllers.no_action or "it takes goals, too", err=True)
    steps = iter(range(round(seconds * cfg.rate_hz) or 1 << 62))
    freeze_garbage_collector()
    try:
        simulated.run(lambda: next(steps, None) is None)
    finally:
        simulated.close()
    end_on_signal()
    found = summary(simulated)
    with json_beside(json_file, found):
        typer.echo(summary_line(found))


def summary(simulated: SimRobot) -> dict[str, Any]:
    """Return a summary of the episodes; the last one may be unfinished."""
    over, succeeded = len(simulated.outcomes), sum(simulated.outcomes)
    return {
        "episodes": simulated.episode,
        "succeeded": succeeded,
        "failed": over - succeeded,
        "unfinished": simulated.episode - over,
        "outcomes": simulated.outcomes,
        "missed_steps": simulated.ticks.missed,
        "problem": simulated.problem,
    }


def summary_line(found: dict[str, Any]) -> str:
    """Return a summary as one line."""
    parts = [f"{found[name]} {name.replace('_', ' ')}" for name in _TOLD]
    return ", ".join([*parts, *([found["problem"]] if found["problem"] else [])])


def _task(name: str) -> dict[str, Any]:
    """Return the settings of a task: its config if there is one, else its defaults."""
    config = f"task/{name}"
    return compose(config).values["task"] if config in available_configs() else {"name": name}
