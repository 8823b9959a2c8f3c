"""``robo-rl deploy``: run a bundle on a robot."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from robo_rl.bundle.bundle import Bundle
from robo_rl.bundle.manifest import Contract
from robo_rl.cli.output import Json, is_stream, json_beside
from robo_rl.config.models import compose, validate
from robo_rl.config.search_path import available_configs
from robo_rl.core.errors import ConfigError, DeviceError
from robo_rl.core.suggestions import nearest
from robo_rl_sim2real.cli.bundle_argument import load_bundle
from robo_rl_sim2real.cli.request_sequence import RequestSequence
from robo_rl_sim2real.cli.signals import end_on_signal, stop_on_signal
from robo_rl_sim2real.cli.status_display import StatusDisplay, status_line
from robo_rl_sim2real.cli.watchdog import with_watchdog
from robo_rl_sim2real.core.clock import freeze_garbage_collector
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.node.episode_length import ramp_warning
from robo_rl_sim2real.node.node import Node
from robo_rl_sim2real.node.recorded_run import recording_node
from robo_rl_sim2real.node.settings import DeploySettings
from robo_rl_sim2real.transport.base import POLICY
from robo_rl_sim2real.watchdog.job import UnfinishedOutputs

if TYPE_CHECKING:
    from robo_rl_sim2real.recording.recorder import FlightRecorder

_HELP = "An export bundle. `deploy check` and `deploy latency` are verbs of their own."
_YOUNG_S = 2.0  # tolerance on the start time of this run's recording

Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Such as safety.speed_scale=0.5.")
]
SettingsName = Annotated[
    str, typer.Option(help="A config; deploy/ROBOT_TASK of the bundle's if left out.")
]
Over = Annotated[str, typer.Option("--transport", help="Such as dds; the settings' if left out.")]


def run(
    bundle: Annotated[Path, typer.Argument(help=_HELP)],
    overrides: Overrides = None,
    settings: SettingsName = "",
    transport: Over = "",
    dry_run: Annotated[bool, typer.Option(help="Compute commands and send none.")] = False,
    home: Annotated[bool, typer.Option(help="Move to the start pose first, slowly.")] = False,
    activate: Annotated[bool, typer.Option(help="Request activation at the start.")] = False,
    seconds: Annotated[float, typer.Option(min=0.0, help="End after so long; 0 never.")] = 0.0,
    json_file: Json = None,
    record: Annotated[
        Path | None, typer.Option(help="Folder to record to; in full unless record.mode=ring.")
    ] = None,
) -> None:
    """Run a bundle's policy on a robot, until Ctrl-C.

    Exit status: 0 on success; 2 for an error, a fault, or a policy that never started; 137
    (128 + 9) if the watchdog or another process killed this process. The watchdog reports the
    reason.
    """
    loaded = load_bundle(bundle)
    over = [f"transport.name={transport}"] if transport else []
    chosen = read_settings(settings, loaded.manifest.contract, over + (overrides or []))
    if record is not None:
        chosen = chosen.model_copy(update={"record": chosen.record.with_folder(str(record))})
    with (
        connected_node(chosen, loaded, dry_run=dry_run) as node,
        recording_node(node, loaded, chosen) as recorder,
        with_watchdog(node, chosen, _estate(json_file, recorder, time.time())),
        rest_on_exit(node),
    ):
        typer.echo(node.served, err=True)
        if dry_run:
            typer.echo("dry run: commands are computed, and none is sent", err=True)
        if not (home or activate):
            where = f" on {chosen.control}" if chosen.control else ""
            typer.echo(f"waiting for the request 'activate'{where}; --activate sends it", err=True)
        if said := ramp_warning(chosen, loaded.manifest):
            typer.echo(f"warning: {said}", err=True)
        wanted = [what for what, is_wanted in (("home", home), ("activate", activate)) if is_wanted]
        view, starter = StatusDisplay(node), RequestSequence(node, wanted)
        freeze_garbage_collector()
        node.run(lambda: starter.poll() or 0.0 < seconds <= node.age_s)
        ended = node.runtime.state
    recorded, said = _recordings(recorder)
    view.close()
    end_on_signal()
    health = {**node.health._asdict(), "ended": "in order", **recorded}
    with json_beside(json_file, health):
        typer.echo(status_line(node))
        for line in said:
            typer.echo(line)
        _check_end(node, ended, starter.wanted)


def _recordings(recorder: FlightRecorder | None) -> tuple[dict[str, list[str]], list[str]]:
    """Return the recordings and their problems for the JSON, and the lines on them."""
    if recorder is None:
        return {"recorded": [], "recording_problems": []}, []
    # Imported after the run, because rosbags loads slowly.
    from robo_rl_sim2real.recording.recovery import is_truncated

    bags, problems, said = [bag for bag in recorder.bags if bag.exists()], recorder.problems(), []
    for bag in bags:
        torn = is_truncated(bag)
        problems += [f"{bag}: cut off; `robo-rl data recover {bag}` saves its start"] * torn
        said += [] if torn else [f"recorded: {bag}"]
    fields = {"recorded": [str(bag) for bag in bags], "recording_problems": problems}
    return fields, [*said, *problems]


def _check_end(node: Node, ended: State, unmet: list[str]) -> None:
    """Refuse a run that ended in a fault, or whose requests were never granted."""
    health = node.health
    if ended is State.FAULTED:
        reason = health.problem or health.reason or "no reason"
        raise DeviceError("the policy ended in a fault", found=reason)
    if unmet:
        never = {"home": "the robot never went to its start", "activate": "the policy never began"}
        raise DeviceError(never[unmet[0]], found=health.problem or "no reason")


def _estate(
    json_file: Path | None, recorder: FlightRecorder | None, now_s: float
) -> UnfinishedOutputs:
    """Return the outputs that the watchdog finishes if this process dies, by absolute paths."""
    return UnfinishedOutputs(
        health="" if json_file is None or is_stream(json_file) else str(json_file.resolve()),
        recordings=str(recorder.folder.absolute()) if recorder else "",
        since_s=now_s - _YOUNG_S,
    )


def read_settings(name: str, contract: Contract, overrides: list[str]) -> DeploySettings:
    """Return the named settings, or the settings for the bundle's robot and task.

    Raises:
        ConfigError: The settings do not exist or are invalid.
    """
    if not name:
        name = _settings_of(contract)
    return validate(compose(name, overrides), DeploySettings)


def _settings_of(contract: Contract) -> str:
    """Return the name of the settings for a robot and a task; they are not part of a bundle."""
    name, known = f"deploy/{contract.robot}_{contract.task}", available_configs()
    if name not in known:
        near = nearest(name, [each for each in known if each.startswith("deploy/")])
        hint = f"write configs/{name}.yaml, or name a config by --settings"
        hint += f", such as {near}" if near else ""
        raise ConfigError(f"no config '{name}'", hint=hint)
    return name


@contextmanager
def connected_node(settings: DeploySettings, bundle: Bundle, *, dry_run: bool) -> Generator[Node]:
    """Yield a node on its transport; the transport is closed on any exit."""
    transport = settings.transport.build(POLICY)
    try:
        node = Node(settings, bundle, transport, dry_run=dry_run)
    except BaseException:
        transport.close()
        raise
    with closing(node):
        yield node


@contextmanager
def rest_on_exit(node: Node) -> Generator[None]:
    """Bring the robot to rest on any exit, including Ctrl-C and ``kill``."""
    stop_on_signal(node.stop)
    try:
        yield
    finally:
        node.come_to_rest()
