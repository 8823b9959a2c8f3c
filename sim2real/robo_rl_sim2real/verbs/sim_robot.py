"""``robo-rl sim-robot``: a simulated robot behind the real one's topics, in real time."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from robo_rl.config import ConfigModel, compose, validate
from robo_rl.config_files import available
from robo_rl.registry import Component, component, default
from robo_rl_sim2real.sim_robot import SimRobot
from robo_rl_sim2real.sim_world import SimWorld
from robo_rl_sim2real.ticks import settle
from robo_rl_sim2real.verbs.signals import end_by_signal

Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Such as out.latency_s=0.06.")
]


class _Parts(ConfigModel):
    task: Annotated[Component, component("tasks")]
    transport: Annotated[Component, component("transports")]
    backend: Annotated[Component, component("backends")] = default("mujoco_cpu", threads=1)


def run(
    overrides: Overrides = None,
    task: Annotated[str, typer.Option(help="A config in task/, or a task's name.")] = "lift_cube",
    robot: Annotated[str, typer.Option(help="Robot; the task's own if left out.")] = "",
    settings: Annotated[
        str, typer.Option(help="A config of the simulated robot.")
    ] = "deploy/sim_robot",
    transport: Annotated[str, typer.Option(help="Such as dds.")] = "dds",
    domain: Annotated[int, typer.Option(min=0, max=232, help="ROS_DOMAIN_ID.")] = 0,
    services: Annotated[
        bool, typer.Option("--services", help="Over dds: take goals of FollowJointTrajectory, too.")
    ] = False,
    seconds: Annotated[float, typer.Option(min=0.0, help="End after so long; 0 never.")] = 0.0,
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
    parts = validate(wanted, _Parts)
    world = SimWorld(parts.task.build(), parts.backend.build(), 1.0 / cfg.rate_hz)
    simulated = SimRobot(cfg, world, parts.transport.build("sim_robot"))
    end_by_signal(simulated.stop)
    typer.echo(f"{world.robot.name} at {task} on {transport}, domain {domain}", err=True)
    if services or transport != "dds":
        typer.echo(simulated.controllers.no_action or "it takes goals, too", err=True)
    steps = iter(range(round(seconds * cfg.rate_hz) or 1 << 62))
    settle()
    try:
        simulated.run(lambda: next(steps, None) is None)
    finally:
        simulated.close()
    missed = simulated.ticks.missed
    typer.echo(f"{simulated.episode} episodes, {missed} steps missed {simulated.problem}".rstrip())


def _task(name: str) -> dict[str, Any]:
    """The settings of a task: of its config where there is one, else those that it comes with."""
    config = f"task/{name}"
    return compose(config).values["task"] if config in available() else {"name": name}
