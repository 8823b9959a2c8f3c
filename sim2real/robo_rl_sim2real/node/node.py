"""Runs a bundle on a robot: the runtime, connected to a transport and timed by a clock."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from robo_rl.bundle.bundle import Bundle
from robo_rl.core.errors import RoboRlError
from robo_rl_sim2real.control.commands.publishers import CommandPublishers
from robo_rl_sim2real.control.commands.safety import Command, Reason
from robo_rl_sim2real.control.events import Listeners, Tick
from robo_rl_sim2real.control.health import Health, HealthCounters
from robo_rl_sim2real.control.runtime import TickOutput
from robo_rl_sim2real.core.clock import Clock, PeriodicTimer, boot_clock
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Inbox, Reading
from robo_rl_sim2real.messages.text import read_text
from robo_rl_sim2real.node.command_checks import exclusive_check, receiver_checks
from robo_rl_sim2real.node.command_sender import CommandSender
from robo_rl_sim2real.node.diagnostics import DiagnosticSources, reporter, with_query_times
from robo_rl_sim2real.node.emergency_stop import EmergencyStopListener
from robo_rl_sim2real.node.graph_checks import GraphCheck
from robo_rl_sim2real.node.policy_query import warm_up_session, warm_up_split
from robo_rl_sim2real.node.publisher_monitor import PublisherMonitor
from robo_rl_sim2real.node.requests import Requests
from robo_rl_sim2real.node.services import offer_services
from robo_rl_sim2real.node.settings import DeploySettings, build_runtime
from robo_rl_sim2real.node.start_checks import StartChecks
from robo_rl_sim2real.perception.image_thread import ImageWorker
from robo_rl_sim2real.perception.instruction_thread import InstructionWorker
from robo_rl_sim2real.transport.base import COMMAND, LATCHED, Put, Qos, Transport, reading_qos
from robo_rl_sim2real.watchdog.guard import MotionGuard, Unguarded, WatchdogLostError

_CLEAR_S = 5.0
"""Time after which a problem that does not recur is cleared."""


class Node:
    """Runs the policy of a bundle on a robot.

    Requests arrive on a topic, from any thread and at any time; the node grants them between ticks.
    Motion begins and goes on only while each topic of readings has one publisher, the emergency
    stop has no publisher or one that is heard and stays, and the commands have a receiver and no
    other publisher.
    The ``guard`` receives every command before it is sent. Without a live guard the robot stops
    moving.

    Args:
        settings: Settings of the deployment.
        bundle: Verified bundle.
        transport: The node's own transport; closed with the node.
        clock: Monotonic clock; by default one that advances while the computer is suspended, so
            that readings, chunks and requests from before are old.
        dry_run: Whether commands are computed and not sent.
        seed: Seed of the initial noise of denoising chains.

    Raises:
        BundleError: The bundle does not fit the robot.
        ConfigError: The settings do not fit the bundle.
    """

    def __init__(
        self,
        settings: DeploySettings,
        bundle: Bundle,
        transport: Transport,
        *,
        clock: Clock | None = None,
        dry_run: bool = False,
        seed: int = 0,
    ) -> None:
        contract = bundle.manifest.contract
        self.clock, self.transport, self.dry_run = clock or boot_clock(), transport, dry_run
        now_s, encode = self.clock.now_s, None
        if settings.prefix is None:
            query = warm_up_session(bundle, seed, inpaint=settings.chunks.uses_inpainting)
        else:
            session, query = warm_up_split(bundle, seed)
            encode = session.encode
        query, self.inference = with_query_times(query, now_s)
        self.runtime, self.wiring = build_runtime(
            settings,
            contract,
            query,
            now_s,
            sends=not dry_run,
            graph=lambda: self.publishers.problems,
            encoder=bundle.text_encoder(),
            encode=encode,
        )
        self.guard: MotionGuard = Unguarded()
        self.inbox, self.listeners = Inbox(), Listeners()
        self.darkroom = ImageWorker(self.wiring.preprocessors, self.inbox)
        self.instructions = InstructionWorker(
            [topic for topic, kind in self.wiring.readings.items() if kind is MsgType.TEXT],
            self.runtime.parts.observer.check_words,
            self.inbox,
            self.listeners.on_message,
            partial(self._refuse, "instruction"),
        )
        self.ticks = PeriodicTimer(1.0 / contract.act.rate_hz, self.clock)
        self.record = HealthCounters(
            dry_run=dry_run, clear_after=round(_CLEAR_S * contract.act.rate_hz)
        )
        self._running, self._number, self._said = True, 0, ""
        life = self.runtime.life
        self.requests = Requests(self._grants(), lambda: life.stop_count, now_s)
        self._connect(settings)
        self.listeners.add(reporter(self._subject(bundle), settings, transport))
        self.served = offer_services(
            transport, self.requests, life.request_stop, lambda: self.runtime.state
        )
        life.configure()

    def _grants(self) -> dict[str, Callable[[], None]]:
        """Return request → what grants it."""
        life = self.runtime.life
        return {
            "activate": partial(self._begin, "activate", self._activate),
            "home": partial(self._begin, "home", self.runtime.home),
            "deactivate": life.deactivate,
            "reset": self.runtime.reset,
            "stop": life.request_stop,
            "configure": life.configure,
            "cleanup": life.cleanup,
            "shutdown": self.stop,
        }

    def _subject(self, bundle: Bundle) -> DiagnosticSources:
        """Return the content of the diagnostics."""
        contract = bundle.manifest.contract
        return DiagnosticSources(
            {"robot": contract.robot, "task": contract.task, "sha256": bundle.digest},
            tuple(sorted(self.runtime.topics)),
            self.runtime.parts.safety.max_age_s,
            self.ticks.dt_s,
            lambda: self.health,
            self.inference,
            self.runtime.parts.policy.prefix,
            lambda: self.transport.problems() + self.listeners.problems(),
        )

    @property
    def age_s(self) -> float:
        """Time since the node started to run."""
        return self._number * self.ticks.dt_s

    @property
    def health(self) -> Health:
        """The node's health."""
        return self.record.health(self.ticks.missed)

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Run control periods until ``stop``, or until ``until`` returns True."""
        with self.publishers.running():
            for number in self.ticks:
                self.tick(number)
                if not self._running or until():
                    break

    def stop(self) -> None:
        """End ``run`` after the present tick; from any thread or signal handler."""
        self._running = False

    def come_to_rest(self, patience_s: float = 10.0) -> None:
        """Bring the robot to rest and end all commands, before ``close``. No request is granted."""
        self.requests.open = False
        if self.runtime.state.moves:
            self.runtime.life.deactivate()
        begun, before_s = self._number - self.ticks.number, self.clock.now_s()
        for number in self.ticks:
            silent = self.tick(begun + number).command is None
            if silent or self.clock.now_s() - before_s > patience_s:
                break

    def close(self) -> None:
        """Close the transport and stop the threads."""
        try:
            self.publishers.close()
            self.runtime.parts.policy.close()
            self.darkroom.close()
            self.instructions.close()
        finally:
            self.transport.close()

    def tick(self, number: int) -> TickOutput:
        """Run control period ``number``; an error in it brings the robot to rest."""
        began_s, self._number, output = self.clock.now_s(), number, None
        try:
            if self.runtime.state.moves:
                self.guard.check()
                if self._estop.is_silent:
                    self.runtime.life.set_estop(True)
            self._grant()
            output = self.runtime.tick(self.inbox, number)
            self._send(output.command)
        except Exception as error:  # the robot comes to rest on any error
            output = self._broken(error, number, None if output is None else output.command)
        done_s = self.clock.now_s()
        seen_s, spent_s = self.runtime.seen_s, done_s - began_s
        self.record.count_tick(output, spent_s=spent_s, age_s=done_s - seen_s)
        self.listeners.on_tick(Tick(number, began_s, spent_s, output, seen_s, not self.dry_run))
        return output

    def request(self, what: str) -> None:
        """Submit a request such as ``activate`` or ``home``; granted before the next tick."""
        self.requests.submit(what)

    def register(self, what: str, grant: Callable[[], None]) -> None:
        """Add a request that the node grants."""
        self.requests.register(what, grant)

    def subscribe(self, topic: str, kind: MsgType, put: Put, qos: Qos) -> None:
        """Subscribe to a topic, with the times of arrival on the node's clock."""

        def put_converted(reading: Reading) -> None:
            put(reading._replace(stamp_s=self.clock.from_monotonic(reading.stamp_s)))

        self.transport.subscribe(topic, kind, put_converted, qos)

    def _connect(self, settings: DeploySettings) -> None:
        transport, wiring, now_s = self.transport, self.wiring, self.clock.now_s

        def guard() -> MotionGuard:
            return self.guard  # which may be another one later

        self._out = CommandPublishers(wiring.command_topics, transport)
        self._sender = CommandSender(
            self._out,
            self.runtime.parts.safety,
            guard,
            by_velocity=any(way.kind is MsgType.TWIST for way in wiring.command_topics),
            dry_run=self.dry_run,
        )
        self._state_out = transport.create_publisher(settings.state, MsgType.TEXT, LATCHED)
        self._estop = EmergencyStopListener(
            transport,
            settings.estop,
            self._press,
            now_s,
            shared=settings.estop in settings.shared_topics,
            timeout_s=settings.estop_timeout_s,
        )
        self.publishers = PublisherMonitor(
            transport, wiring.readings, settings.shared_topics, self._graph_checks(settings), now_s
        )
        self._start_checks = StartChecks(
            self.runtime, self.inbox, self._estop, self.publishers, guard, now_s
        )
        if settings.control:
            self.subscribe(settings.control, MsgType.TEXT, self._request, COMMAND)
        for topic, kind in wiring.readings.items():
            is_text = kind is MsgType.TEXT
            put = partial(self.instructions.put, topic) if is_text else self._putter(topic, kind)
            self.subscribe(topic, kind, put, reading_qos(kind))

    def _graph_checks(self, settings: DeploySettings) -> list[GraphCheck]:
        """Return what holds the robot beside several publishers of readings."""
        topics = self.wiring.command_topics
        alone = exclusive_check(topics, lambda: self.guard.writers)
        received = receiver_checks(topics, self._out.answered)
        checks = [alone, self._estop.check] if settings.command.exclusive else [self._estop.check]
        return checks if self.dry_run else [*checks, *received]

    def _putter(self, topic: str, kind: MsgType) -> Callable[[Reading], None]:
        def put(reading: Reading) -> None:
            self.darkroom.put(topic, reading)
            self.listeners.on_message(topic, kind, reading)

        return put

    def _press(self, reading: Reading) -> None:
        self.runtime.life.set_estop(bool(reading.fields["data"]))

    def _request(self, reading: Reading) -> None:
        try:
            self.request(read_text(reading))
        except RoboRlError as error:
            self._refuse("request", str(error))

    def _begin(self, what: str, begin: Callable[[Inbox, int], None]) -> None:
        self._start_checks.demand(what)
        begin(self.inbox, self._number)

    def _activate(self, inbox: Inbox, number: int) -> None:
        """Activate with the words that were published last.

        Raises:
            RoboRlError: They are still being encoded, or see ``Runtime.activate``.
        """
        if self.instructions.is_busy:
            hint = "request it again in a second"
            raise RoboRlError("cannot activate: the instruction is being encoded", hint=hint)
        self.runtime.activate(inbox, number)

    def _grant(self) -> None:
        for what, problem in self.requests.process_all():
            if problem:
                self._refuse(what, problem)
            else:
                self.listeners.on_event("request", what)

    def _refuse(self, what: str, why: str) -> None:
        self.record.count_refusal(why)
        self.listeners.on_event("refused", f"{what}: {why}")

    def _broken(self, error: Exception, number: int, unsent: Command | None) -> TickOutput:
        """Handle an error in a tick: bring the robot to rest and report the error."""
        self.record.problem = f"{type(error).__name__}: {error}"
        unwatched = isinstance(error, WatchdogLostError)
        reason = Reason.UNWATCHED if unwatched else Reason.BROKEN
        output = self.runtime.fail(number, unsent, reason)._replace(problem=self.record.problem)
        try:
            self._send(output.command)
        except Exception as again:  # the transport fails; the next tick tries again
            self.record.problem += f"; then {type(again).__name__}: {again}"
            self._sender.count_failure(again)
        return output

    def _send(self, command: Command | None) -> None:
        """Send a command, and the state where it has changed."""
        self._sender.send(command)
        state = self.runtime.state.value
        if state != self._said:
            self._said = state
            self._state_out.send(Reading({"data": np.asarray(state)}, (), 0.0))
