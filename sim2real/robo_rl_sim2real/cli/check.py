"""``robo-rl deploy check``: a bundle's contract against the live graph, before anything moves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from robo_rl.bundle.bundle import Bundle
from robo_rl.cli.show import table
from robo_rl.core.atomic_files import write_file
from robo_rl.core.errors import BundleError, ConfigError
from robo_rl_sim2real.check import machine, robot, topics
from robo_rl_sim2real.check.finding import Finding, Mark, failed
from robo_rl_sim2real.check.survey import Facts, survey
from robo_rl_sim2real.cli.deploy import Over, Overrides, read_settings
from robo_rl_sim2real.node.settings import Settings
from robo_rl_sim2real.transport.base import Transport

RULES: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    *(robot.contract, topics.readings, topics.pictures, robot.joints, robot.observation),
    *(robot.policy, topics.command, topics.estop, topics.clock, machine.load, machine.ramp),
)
"""In the order in which they are told."""


def run(
    bundle: Annotated[Path, typer.Argument(help="An export bundle.")],
    overrides: Overrides = None,
    settings: Annotated[
        str, typer.Option(help="A config; deploy/ROBOT_TASK of the bundle's if left out.")
    ] = "",
    transport: Over = "",
    seconds: Annotated[float, typer.Option(min=0.5, help="How long to listen.")] = 3.0,
    json_file: Annotated[Path | None, typer.Option("--json", help="File to write it to.")] = None,
) -> None:
    """Compare a bundle with the robot as it is now; sends no command. Exit status 2 if it fails."""
    loaded = Bundle.load(bundle)
    over = [f"transport.name={transport}"] if transport else []
    chosen = read_settings(settings, loaded.manifest.contract, over + (overrides or []))
    found = check(chosen, loaded, lambda: chosen.transport.build("robo_rl_check"), seconds)
    typer.echo(text(found))
    passed = all(finding.mark is not Mark.FAILED for finding in found)
    if json_file is not None:
        tree = {"bundle": loaded.digest, "passed": passed, "seconds": seconds}
        tree["findings"] = [finding._asdict() for finding in found]
        write_file(json_file, json.dumps(tree, indent=2).encode() + b"\n")
    raise typer.Exit(0 if passed else 2)


def check(
    settings: Settings, bundle: Bundle, connect: Callable[[], Transport], seconds: float
) -> list[Finding]:
    """All findings; where bundle, robot and settings disagree there is nothing to listen for."""
    try:
        facts = survey(settings, bundle, connect, seconds)
    except (BundleError, ConfigError) as error:
        subject = "contract" if isinstance(error, BundleError) else "settings"
        return [failed(subject, str(error), "nothing else was looked at: mend this first")]
    return [finding for rule in RULES for finding in rule(facts)]


def text(found: Iterable[Finding]) -> str:
    """A table, and below it what is to be done."""
    found = list(found)
    rows = table([(finding.mark.value, finding.subject, finding.text) for finding in found])
    remedies = [f"{finding.subject}: {finding.remedy}" for finding in found if finding.remedy]
    return "\n".join([rows, *remedies])
