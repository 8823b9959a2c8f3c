"""Runs a bundle on a robot: the runtime, connected to a transport and timed by a clock."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from robo_rl.bundle.bundle import Bundle
from robo_rl.core.errors import RoboRlError, SpecError
from robo_rl_sim2real.control.commands.publishers import CommandPublishers, PartlySentError
from robo_rl_sim2real.control.commands.safety import Command, Reason
from robo_rl_sim2real.control.events import Listeners, Tick
from robo_rl_sim2real.control.health import Health, HealthCounters
from robo_rl_sim2real.control.runtime import TickOutput
from robo_rl_sim2real.core.clock import Clock, PeriodicTimer
from robo_rl_sim2real.core.lifecycle_states import Event, TransitionError, after
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Inbox, Reading, Values
from robo_rl_sim2real.node import emergency_stop
from robo_rl_sim2real.node.command_checks import exclusive_check, receiver_checks
from robo_rl_sim2real.node.diagnostics import DiagnosticSources, reporter, with_query_times
from robo_rl_sim2real.node.emergency_stop import EmergencyStopListener
from robo_rl_sim2real.node.graph_checks import GraphCheck
from robo_rl_sim2real.node.policy_query import warm_up_session, warm_up_split
from robo_rl_sim2real.node.publisher_monitor import PublisherMonitor
from robo_rl_sim2real.node.requests import PATIENCE_S, Requests
from robo_rl_sim2real.node.services import offer_services
from robo_rl_sim2real.node.settings import DeploySettings, build_runtime
from robo_rl_sim2real.perception.image_thread import ImageWorker
from robo_rl_sim2real.perception.latest_worker import LatestWorker
from robo_rl_sim2real.transport.base import COMMAND, LATCHED, Transport, reading_qos
from robo_rl_sim2real.watchdog.guard import MotionGuard, Unguarded, WatchdogLostError

_CLEAR_S = 5.0
"""Time after which a problem that does not recur is cleared."""
_MAX_UNDELIVERED = 3
"""Consecutive periods without a sent command, after which the watchdog hears of none either."""
_MAX_TEXT = 4096
"""Characters of an instruction or a request, which bounds what a wrong topic can cost."""


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
        clock: Monotonic clock.
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
        self.clock, self.transport, self.dry_run = clock or Clock(), transport, dry_run
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
        words = [topic for topic, kind in self.wiring.readings.items() if kind is MsgType.TEXT]
        takers = {topic: partial(self._take_instruction, topic) for topic in words}
        self.instructions = LatestWorker(takers, self._refuse_instruction, "instructions")
        self.ticks = PeriodicTimer(1.0 / contract.act.rate_hz, self.clock)
        self.record = HealthCounters(
            dry_run=dry_run, clear_after=round(_CLEAR_S * contract.act.rate_hz)
        )
        self._running, self._number, self._said = True, 0, ""
        self._estop, self._estop_age_s = settings.estop, settings.estop_timeout_s
        self._delivered: Values | None = None  # the last command that was sent
        self._undelivered = 0  # consecutive periods whose command was not sent
        self._alone = settings.command.exclusive
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
                if self._estop_is_silent():
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

    def _connect(self, settings: DeploySettings) -> None:
        transport, wiring = self.transport, self.wiring
        self._out = CommandPublishers(wiring.command_topics, transport)
        self._by_velocity = any(way.kind is MsgType.TWIST for way in wiring.command_topics)
        self._state_out = transport.create_publisher(settings.state, MsgType.TEXT, LATCHED)
        self._estop_listener = EmergencyStopListener(
            transport,
            settings.estop,
            self._press,
            self.clock.now_s,
            shared=settings.estop in settings.shared_topics,
        )
        self.publishers = PublisherMonitor(
            transport, wiring.readings, settings.shared_topics, self._graph_checks()
        )
        transport.subscribe(settings.control, MsgType.TEXT, self._request, COMMAND)
        for topic, kind in wiring.readings.items():
            is_text = kind is MsgType.TEXT
            put = partial(self._hear_instruction, topic) if is_text else self._putter(topic, kind)
            transport.subscribe(topic, kind, put, reading_qos(kind))

    def _graph_checks(self) -> list[GraphCheck]:
        """Return what holds the robot beside several publishers of readings."""
        topics, listener = self.wiring.command_topics, self._estop_listener
        button = GraphCheck(
            "the emergency stop is not reliable", listener.poll, emergency_stop.REMEDY
        )
        alone = exclusive_check(topics, lambda: self.guard.writers)
        received = receiver_checks(topics, self._out.answered)
        checks = [alone, button] if self._alone else [button]
        return checks if self.dry_run else [*checks, *received]

    def _putter(self, topic: str, kind: MsgType) -> Callable[[Reading], None]:
        def put(reading: Reading) -> None:
            self.darkroom.put(topic, reading)
            self.listeners.on_message(topic, kind, reading)

        return put

    def _hear_instruction(self, topic: str, reading: Reading) -> None:
        """Hand an instruction to the thread that encodes it, since that takes long."""
        try:
            _short(reading)
        except RoboRlError as error:
            self._refuse_instruction(topic, str(error))
        else:
            self.listeners.on_message(topic, MsgType.TEXT, reading)
            self.instructions.put(topic, reading)

    def _take_instruction(self, topic: str, reading: Reading) -> None:
        """Take up an instruction; one that does not fit leaves the last in effect.

        Raises:
            ConfigError: It does not fit.
        """
        self.runtime.parts.observer.check_words(str(reading.fields["data"]))
        self.inbox.put(topic, reading)

    def _refuse_instruction(self, topic: str, why: str) -> None:
        self.record.count_refusal(why)
        self.listeners.on_event("refused", f"instruction: {why}")

    def _press(self, reading: Reading) -> None:
        self.inbox.put(self._estop, reading)
        self.runtime.life.set_estop(bool(reading.fields["data"]))

    def _request(self, reading: Reading) -> None:
        try:
            self.request(_short(reading))
        except RoboRlError as error:
            self.record.count_refusal(str(error))
            self.listeners.on_event("refused", f"request: {error}")

    def _estop_is_silent(self) -> bool:
        """Return whether a required release signal of the emergency stop is missing."""
        said = self.inbox.get(self._estop)
        age_s = np.inf if said is None else self.clock.now_s() - said.stamp_s
        return 0.0 < self._estop_age_s < age_s

    def _begin(self, what: str, begin: Callable[[Inbox, int], None]) -> None:
        self._demand_still(what)
        if self._estop_is_silent():
            raise RoboRlError(f"cannot {what}: no message on the emergency-stop topic")
        self._demand_readings(what)
        self.guard.check()
        self._estop_listener.begin()
        self._demand_graph(what)
        if self._estop_listener.is_waiting and self.inbox.get(self._estop) is None:
            hint = "request it again in a second"
            raise RoboRlError(f"cannot {what}: the emergency stop is being read", hint=hint)
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

    def _demand_graph(self, what: str) -> None:
        """Refuse a start that the graph forbids, or that its answer delays too long."""
        began_s = self.clock.now_s()
        self.publishers.demand(what)
        spent_s = self.clock.now_s() - began_s
        if spent_s > PATIENCE_S:
            raise RoboRlError(
                f"cannot {what}: the graph answered late",
                expected=f"within {PATIENCE_S:g} s",
                found=f"{spent_s:.1f} s",
                hint="request it again",
            )

    def _demand_still(self, what: str) -> None:
        """Refuse a start that the state, a stop or motion forbids, before any query of the graph.

        Queries take time, in which a robot that moves would get no command.

        Raises:
            TransitionError: Not allowed now.
        """
        life, limiter = self.runtime.life, self.runtime.parts.safety.limiter
        after(life.state, Event(what))
        if life.stopped:
            why = "the emergency stop was pressed" if life.estopped else "a stop was requested"
            raise TransitionError(f"cannot {what}: {why}", hint="reset")
        if not limiter.at_rest:
            raise TransitionError(f"cannot {what}: the robot is still coming to rest")

    def _demand_readings(self, what: str) -> None:
        """Refuse a start without a reading on every topic; without a robot this comes first."""
        topics, get = self.runtime.topics, self.inbox.get
        silent = [topic for topic in sorted(topics) if get(topic) is None]
        if silent:
            raise RoboRlError(
                f"cannot {what}: observations are not fresh",
                found=f"none on {', '.join(silent)}",
                hint=self.inbox.problem(topics) or None,
            )

    def _grant(self) -> None:
        for what, problem in self.requests.process_all():
            if problem:
                self.record.count_refusal(problem)
                self.listeners.on_event("refused", f"{what}: {problem}")
            else:
                self.listeners.on_event("request", what)

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
            self._undelivered += 1
            if isinstance(again, PartlySentError):  # the joints that hear go on with their braking
                self._delivered = None
            elif self._delivered is not None:  # the robot stands there, and not where braking is
                self.runtime.parts.safety.limiter.restart(self._delivered)
        return output

    def _send(self, command: Command | None) -> None:
        motion = self.runtime.parts.safety.limiter.motion  # the motion that ends at the command
        sends = command is not None and not self.dry_run
        if sends and self._by_velocity and self.guard.has_stood():
            limiter = self.runtime.parts.safety.limiter
            limiter.restart(motion.pos)  # the robot stands: its velocity begins anew
            motion = limiter.motion
        if not sends or self._undelivered < _MAX_UNDELIVERED:
            self.guard.report(motion, sending=sends)
        if sends:
            self._out.send(motion)
        self._delivered, self._undelivered = motion.pos if sends else None, 0
        state = self.runtime.state.value
        if state != self._said:
            self._said = state
            self._state_out.send(Reading({"data": np.asarray(state)}, (), 0.0))


def _short(reading: Reading) -> str:
    """Return a text, before anything is done with it.

    Raises:
        SpecError: It is far too long for an instruction or a request.
    """
    said = str(reading.fields["data"])
    if len(said) > _MAX_TEXT:
        expected = f"at most {_MAX_TEXT:,} characters"
        raise SpecError("text is too long", expected=expected, found=f"{len(said):,}")
    return said
