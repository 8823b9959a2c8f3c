"""``robo-rl deploy``: run a bundle on a robot."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from robo_rl.bundle.bundle import Bundle
from robo_rl.bundle.manifest import Contract
from robo_rl.config.models import compose, validate
from robo_rl.core.atomic_files import write_file
from robo_rl.core.errors import DeviceError
from robo_rl_sim2real.cli.signals import stop_on_signal
from robo_rl_sim2real.cli.watchdog import with_watchdog
from robo_rl_sim2real.control.health import Health
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

_PATIENCE_S = 20.0
_YOUNG_S = 2.0  # tolerance on the start time of this run's recording

Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Such as safety.speed_scale=0.5.")
]
BundlePath = Annotated[Path, typer.Argument(help="An export bundle.")]
SettingsName = Annotated[
    str, typer.Option(help="A config; deploy/ROBOT_TASK of the bundle's if left out.")
]
Over = Annotated[str, typer.Option("--transport", help="Such as dds; the settings' if left out.")]


def run(
    bundle: BundlePath,
    overrides: Overrides = None,
    settings: SettingsName = "",
    transport: Over = "",
    dry_run: Annotated[bool, typer.Option(help="Compute commands and send none.")] = False,
    home: Annotated[bool, typer.Option(help="Move to the start pose first, slowly.")] = False,
    activate: Annotated[bool, typer.Option(help="Request activation at the start.")] = False,
    seconds: Annotated[float, typer.Option(min=0.0, help="End after so long; 0 never.")] = 0.0,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="File to write its health to.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(help="Folder to record to; in full unless record.mode=ring.")
    ] = None,
) -> None:
    """Run a bundle's policy on a robot, until Ctrl-C.

    Exit status: 0 on success; 2 for an error, a fault, or a policy that never started; 137
    (128 + 9) if the watchdog or another process killed this process. The watchdog reports the
    reason.
    """
    loaded = Bundle.load(bundle)
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
            typer.echo(
                f"waiting for the request 'activate' on {chosen.control}; --activate sends it",
                err=True,
            )
        if said := ramp_warning(chosen, loaded.manifest):
            typer.echo(f"warning: {said}", err=True)
        wanted = [what for what, is_wanted in (("home", home), ("activate", activate)) if is_wanted]
        view, starter = StatusDisplay(node), RequestSequence(node, wanted)
        freeze_garbage_collector()
        node.run(lambda: starter.poll() or 0.0 < seconds <= node.age_s)
        ended = node.runtime.state
    bags = [str(bag) for bag in recorder.bags] if recorder else []
    if json_file is not None:
        health = {**node.health._asdict(), "ended": "in order", "recorded": bags}
        write_file(json_file, json.dumps(health, indent=2).encode() + b"\n")
    view.close()
    typer.echo(status_line(node))
    for bag in bags:
        typer.echo(f"recorded: {bag}")
    _check_end(node, ended, starter.wanted)


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
        health="" if json_file is None else str(json_file.absolute()),
        recordings=str(recorder.folder.absolute()) if recorder else "",
        since_s=now_s - _YOUNG_S,
    )


def read_settings(name: str, contract: Contract, overrides: list[str]) -> DeploySettings:
    """Return the named settings, or the settings for the bundle's robot and task.

    Raises:
        ConfigError: The settings do not exist or are invalid.
    """
    return validate(
        compose(name or f"deploy/{contract.robot}_{contract.task}", overrides), DeploySettings
    )


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


class RequestSequence:
    """Submits requests to a node one after another, each until it is granted or times out.

    It submits nothing after a stop, or after a request from another source.

    Args:
        node: The node.
        wanted: Requests in order; granted requests are removed.
    """

    def __init__(self, node: Node, wanted: list[str]) -> None:
        self._node, self.wanted, self._since_s = node, wanted, 0.0
        self._asking, self._made, self._granted = False, 0, 0
        self._every = max(round(0.5 / node.ticks.dt_s), 1)

    def poll(self) -> bool:
        """Advance after a tick; return False, because the sequence never ends a run."""
        node = self._node
        # a way home may be over within the period of its request
        granted = self._asking and node.requests.granted[self.wanted[0]] > self._granted
        if granted or node.runtime.state is not State.INACTIVE:
            self.wanted, self._since_s = self.wanted[self._asking :], node.age_s
            self._asking = False
        elif self.wanted and self._may and node.record.count % self._every == 0:
            self._asking, self._made = True, self._made + 1
            self._granted = node.requests.granted[self.wanted[0]]
            node.request(self.wanted[0])
        return False

    @property
    def _may(self) -> bool:
        node = self._node
        theirs = node.runtime.life.stop_count > 0 or node.requests.made > self._made
        return not theirs and node.age_s - self._since_s < _PATIENCE_S


class StatusDisplay:
    """Prints one live line per second on a terminal, or one plain line every 10 s elsewhere.

    It runs in a thread of its own, so that a blocked reader does not stop the robot.

    Args:
        node: The node.
    """

    def __init__(self, node: Node) -> None:
        self._node, self._live, self._over = node, sys.stderr.isatty(), threading.Event()
        self._thread = threading.Thread(target=self._show, name="view", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop printing; wait at most 1 s for a blocked line."""
        self._over.set()
        self._thread.join(timeout=1.0)

    def _show(self) -> None:
        start, end = ("\r\x1b[K", "") if self._live else ("", "\n")
        while not self._over.wait(1.0 if self._live else 10.0):
            sys.stderr.write(f"{start}{status_line(self._node)}{end}")
            sys.stderr.flush()


def status_line(node: Node) -> str:
    """Return state and health as one line."""
    health: Health = node.health
    p50, p99 = (1e3 * value for value in health.latency_s)
    parts = [
        *(["dry run: no command is sent"] if node.dry_run else []),
        f"{health.state}{f' ({health.reason})' if health.reason else ''}",
        f"{health.ticks} ticks, {health.missed} missed",
        f"reading to command {p50:.1f} / {p99:.1f} ms",
        f"{health.clamped} clamped",
        *node.transport.problems(),
        *node.listeners.problems(),
        *([health.problem] if health.problem else []),
    ]
    return " · ".join(parts)
