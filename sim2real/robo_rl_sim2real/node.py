"""A bundle on a robot: the runtime, connected with a transport and kept in time."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from robo_rl.errors import RoboRlError
from robo_rl.export.bundle import Bundle
from robo_rl_sim2real.messages import Kind
from robo_rl_sim2real.planner import Query
from robo_rl_sim2real.readings import Inbox, Reading, Values
from robo_rl_sim2real.runtime import Output
from robo_rl_sim2real.safety import Command
from robo_rl_sim2real.settings import Settings, assemble
from robo_rl_sim2real.states import State
from robo_rl_sim2real.ticks import Clock, Recent, Ticks
from robo_rl_sim2real.transport.base import COMMAND, LATCHED, SENSOR, Transport

_WARM_UP = 20


class Health(NamedTuple):
    """How it has been going.

    Args:
        ticks: Control periods so far.
        missed: Periods that were left out because the one before took too long.
        latency_s: From the arrival of the oldest reading to the command: median, 99th percentile.
        tick_s: From the beginning of a period to its command, likewise.
        clamped: Periods in which a limit changed the command.
        refused: Requests that were not granted.
        problem: The latest thing that was wrong, empty for nothing.
    """

    ticks: int
    missed: int
    latency_s: tuple[float, float]
    tick_s: tuple[float, float]
    clamped: int
    refused: int
    problem: str


class Node:
    """The policy of a bundle, on a robot.

    Requests come on a topic, from any thread and at any time; they are granted between ticks.

    Args:
        settings: Of the deployment.
        bundle: Verified.
        transport: Its own; closed with it.
        clock: Monotonic.
        dry_run: Whether commands are worked out and not sent.
        seed: Of the noise that chains start from.

    Raises:
        BundleError: The bundle does not fit the robot.
        ConfigError: The settings do not fit the bundle.
    """

    def __init__(
        self,
        settings: Settings,
        bundle: Bundle,
        transport: Transport,
        *,
        clock: Clock | None = None,
        dry_run: bool = False,
        seed: int = 0,
    ) -> None:
        contract = bundle.manifest.contract
        self.clock, self.transport, self.dry_run = clock or Clock(), transport, dry_run
        query = _warm(bundle, seed)
        self.runtime, wiring = assemble(settings, contract, query)
        self.inbox, self._requests = Inbox(), queue.SimpleQueue[str]()
        self.ticks = Ticks(1.0 / contract.act.rate_hz, self.clock)
        self.latency, self.spent = Recent(), Recent()
        self.count = self.clamped = self.refused = 0
        self.problem, self._running = "", True
        for topic, kind in wiring.readings.items():
            transport.subscribe(topic, kind, self._putter(topic), SENSOR)
        transport.subscribe(settings.estop, Kind.FLAG, self._press, COMMAND)
        transport.subscribe(settings.control, Kind.TEXT, self._request, COMMAND)
        topic, self._out_kind = wiring.command
        self._order = wiring.order
        self._names = tuple(self.runtime.joints.names[i] for i in wiring.order)
        self._out = transport.advertise(topic, self._out_kind, COMMAND)
        self._state_out = transport.advertise(settings.state, Kind.TEXT, LATCHED)
        self._said: State | None = None
        self.runtime.configure()

    @property
    def age_s(self) -> float:
        """For how long it has been running."""
        return self.count * self.ticks.dt_s

    @property
    def health(self) -> Health:
        """As it stands."""
        return Health(
            self.count,
            self.ticks.missed,
            self.latency.percentiles(),
            self.spent.percentiles(),
            self.clamped,
            self.refused,
            self.problem,
        )

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Go on until ``stop``, or until that is so."""
        for now_s in self.ticks:
            self.tick(now_s)
            if not self._running or until():
                break

    def rest(self) -> None:
        """Come to rest and say nothing more: what to do before ``close``."""
        if self.runtime.state.moves:
            self.request("deactivate")
        for now_s in self.ticks:
            if self.tick(now_s).command is None:
                break

    def stop(self) -> None:
        """End ``run`` after the present tick; from any thread."""
        self._running = False

    def close(self) -> None:
        """Leave the transport and end the policy's thread."""
        self.runtime.parts.planner.close()
        self.transport.close()

    def tick(self, now_s: float) -> Output:
        """One control period, whatever it brings."""
        self._grant(now_s)
        try:
            output = self.runtime.tick(self.inbox, now_s)
        except Exception as error:  # a robot in motion is brought to rest before anyone asks why
            self.problem = f"{type(error).__name__}: {error}"
            output = self.runtime.fail(now_s)
        self.count += 1
        if output.command is not None and not self.dry_run:
            self._send(output.command)
        self._keep(output, now_s)
        return output

    def request(self, what: str) -> None:
        """Ask for ``activate``, ``deactivate`` or ``reset``; granted before the next tick."""
        self._requests.put(what)

    def _putter(self, topic: str) -> Callable[[Reading], None]:
        return lambda reading: self.inbox.put(topic, reading)

    def _press(self, reading: Reading) -> None:
        self.runtime.estop = bool(reading.fields["data"])

    def _request(self, reading: Reading) -> None:
        self.request(str(reading.fields["data"]))

    def _grant(self, now_s: float) -> None:
        while not self._requests.empty():
            what = self._requests.get()
            try:
                self._granted(what, now_s)
            except RoboRlError as error:
                self.refused, self.problem = self.refused + 1, str(error)

    def _granted(self, what: str, now_s: float) -> None:
        if what == "activate":
            self.runtime.activate(self.inbox, now_s)
        elif what == "deactivate":
            self.runtime.deactivate(now_s)
        elif what == "reset":
            self.runtime.reset()
        else:
            raise RoboRlError(f"no request '{what}'", hint="activate, deactivate or reset")

    def _send(self, command: Command) -> None:
        if self._out_kind is Kind.ARRAY:
            fields: dict[str, Values] = {"data": command.pos[self._order]}
        else:
            row = command.pos[self._order][None]
            fields = {"positions": row, "times": np.array([self.ticks.dt_s])}
        self._out.send(Reading(fields, self._names, 0.0))

    def _keep(self, output: Output, now_s: float) -> None:
        """Statistics, and the state where it changed."""
        done_s = self.clock.now_s()
        self.spent.add(done_s - now_s)
        self.problem = output.problem or self.problem
        if output.command is not None and output.command.reason is None:
            self.latency.add(done_s - self.runtime.seen_s)
            self.clamped += bool((output.command.clamped > 1e-9).any())
        if output.state is not self._said:
            self._said = output.state
            self._state_out.send(Reading({"data": np.asarray(output.state.value)}, (), 0.0))


def _warm(bundle: Bundle, seed: int) -> Query:
    """The bundle's policy, asked a few times, for the first answers take long."""
    session, noise = bundle.session(), np.random.default_rng(seed)
    contract = bundle.manifest.contract
    nothing = {
        name: np.zeros((1, contract.obs_horizon, *spec.shape), spec.dtype)
        for name, spec in contract.obs.items.items()
    }
    for _ in range(_WARM_UP):
        session.act(nothing, noise)
    return lambda obs: session.act(obs, noise)
