"""``robo-rl deploy check``: compares a bundle's contract with the live graph before a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated

import typer

from robo_rl.bundle.bundle import Bundle
from robo_rl.cli.output import Json, format_table, json_beside
from robo_rl.core.errors import BundleError, ConfigError
from robo_rl_sim2real.check import machine, robot, topics
from robo_rl_sim2real.check.check_result import CheckResult, Severity, failed
from robo_rl_sim2real.check.survey import SurveyResult, survey
from robo_rl_sim2real.cli.bundle_argument import BundlePath, load_bundle
from robo_rl_sim2real.cli.deploy import Over, Overrides, SettingsName, read_settings
from robo_rl_sim2real.node.settings import DeploySettings
from robo_rl_sim2real.transport.base import Transport

RULES: tuple[Callable[[SurveyResult], Iterator[CheckResult]], ...] = (
    *(
        robot.check_contract,
        topics.check_readings,
        topics.check_images,
        robot.check_joints,
        robot.check_observation,
    ),
    *(
        robot.check_inference_time,
        robot.check_prefix_time,
        topics.check_command_topics,
        topics.check_estop,
        topics.check_clock,
        machine.check_timing_under_load,
        machine.check_ramp,
    ),
)
"""The checks, in the order of the report."""


def run(
    bundle: BundlePath,
    overrides: Overrides = None,
    settings: SettingsName = "",
    transport: Over = "",
    seconds: Annotated[float, typer.Option(min=0.5, help="How long to listen.")] = 3.0,
    json_file: Json = None,
) -> None:
    """Compare a bundle with the robot's present state, without commands. Exit status 2: failed."""
    loaded = load_bundle(bundle)
    over = [f"transport.name={transport}"] if transport else []
    chosen = read_settings(settings, loaded.manifest.contract, over + (overrides or []))
    found = run_checks(chosen, loaded, lambda: chosen.transport.build("robo_rl_check"), seconds)
    passed = all(finding.severity is not Severity.FAILED for finding in found)
    tree = {"bundle": loaded.digest, "passed": passed, "seconds": seconds}
    tree["findings"] = [finding._asdict() for finding in found]
    with json_beside(json_file, tree):
        typer.echo(format_results(found))
    raise typer.Exit(0 if passed else 2)


def run_checks(
    settings: DeploySettings, bundle: Bundle, connect: Callable[[], Transport], seconds: float
) -> list[CheckResult]:
    """Return all results; if bundle, robot and settings do not fit, only that error."""
    try:
        facts = survey(settings, bundle, connect, seconds)
    except (BundleError, ConfigError) as error:
        subject = "contract" if isinstance(error, BundleError) else "settings"
        return [failed(subject, str(error), "nothing else was looked at: mend this first")]
    return [finding for rule in RULES for finding in rule(facts)]


def format_results(found: Iterable[CheckResult]) -> str:
    """Return a table of the results, followed by the remedies."""
    found = list(found)
    rows = format_table(
        [(finding.severity.value, finding.subject, finding.text) for finding in found]
    )
    remedies = [f"{finding.subject}: {finding.remedy}" for finding in found if finding.remedy]
    return "\n".join([rows, *remedies])
