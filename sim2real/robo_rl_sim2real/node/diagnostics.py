"""Publishes a node's health on ``/diagnostics``, and its heartbeat.

Reports are sent once per second, and immediately after a change of a level. Times are in seconds of
the node's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from robo_rl.bundle.session import PlannedActions
from robo_rl_sim2real.control.events import Tick
from robo_rl_sim2real.control.health import Health
from robo_rl_sim2real.control.inference import Query
from robo_rl_sim2real.control.prefix import PrefixRefresher
from robo_rl_sim2real.core.clock import RecentDurations
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.diagnostics import Level, Status, statuses_to_reading
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading, Values
from robo_rl_sim2real.transport.base import COMMAND, NEWEST, Publisher, Transport

if TYPE_CHECKING:
    from robo_rl_sim2real.node.settings import DeploySettings

_EVERY_S, _BEAT_S = 1.0, 0.1
_LEVELS = {State.FAULTED: Level.ERROR, State.HOLDING: Level.WARN}


class DiagnosticSources(NamedTuple):
    """The content of the reports.

    Args:
        constants: Name → constant value, such as robot, task and hash of the bundle.
        topics: Topics of the policy's observations.
        max_age_s: Age of a reading beyond which it is stale.
        dt_s: Control period.
        health: Returns the node's health.
        inference: Inference times of the policy.
        prefix: Refresher of images and words, if the policy is in two graphs.
        problems: Returns the problems of the transport and of all listeners.
    """

    constants: Mapping[str, str]
    topics: Sequence[str]
    max_age_s: float
    dt_s: float
    health: Callable[[], Health]
    inference: RecentDurations
    prefix: PrefixRefresher | None
    problems: Callable[[], list[str]]


class Diagnostics:
    """A listener that publishes reports; see ``events.Listener``.

    Args:
        subject: Content of the reports.
        report: Publisher of the reports.
        beat: Publisher of the heartbeat: the tick number, ten times per second. The control loop
            publishes it, so the heartbeat stops if the loop hangs.
    """

    def __init__(self, subject: DiagnosticSources, report: Publisher, beat: Publisher) -> None:
        self._subject, self._report, self._beat = subject, report, beat
        self._came = {topic: _ArrivalTimes() for topic in subject.topics}
        self._levels: list[Level] = []
        self._said_s = self._beat_s = -np.inf

    def on_message(self, topic: str, kind: MsgType, reading: Reading) -> None:
        """See ``Listener``."""
        del kind
        if topic in self._came:
            self._came[topic].add(reading.stamp_s)

    def on_tick(self, tick: Tick) -> None:
        """See ``Listener``."""
        now_s = tick.began_s + tick.spent_s
        soon_s = now_s + 0.5 * self._subject.dt_s  # half a period early or late is the nearest tick
        if soon_s - self._beat_s >= _BEAT_S:
            self._beat_s = now_s
            self._beat.send(Reading({"data": np.asarray(tick.number, np.uint64)}, (), 0.0))
        levels = [_level(tick.output.state), *(self._stale(topic, now_s) for topic in self._came)]
        if levels != self._levels or soon_s - self._said_s >= _EVERY_S:
            self._levels, self._said_s = levels, now_s
            self._report.send(
                statuses_to_reading(self.statuses(now_s), self._subject.constants["robot"])
            )

    def on_event(self, event: str, what: str) -> None:
        """See ``Listener``; the health already counts these events."""

    def problems(self) -> list[str]:
        """See ``Listener``."""
        return []

    def statuses(self, now_s: float) -> list[Status]:
        """Return all statuses."""
        health, problems = self._subject.health(), self._subject.problems()
        return [
            _policy(health),
            *(self._topic(topic, now_s) for topic in self._came),
            _inference(self._subject.inference, self._subject.dt_s),
            *([] if self._subject.prefix is None else [_prefix(self._subject.prefix)]),
            _transport(problems),
            Status("bundle", Level.OK, "verified", self._subject.constants),
        ]

    def _stale(self, topic: str, now_s: float) -> Level:
        fresh = self._came[topic].age_s(now_s) <= self._subject.max_age_s
        return Level.OK if fresh else Level.STALE

    def _topic(self, topic: str, now_s: float) -> Status:
        came, level = self._came[topic], self._stale(topic, now_s)
        age_s, rate_hz = came.age_s(now_s), came.rate_hz(now_s)
        values = {"age_ms": _ms(age_s), "rate_hz": f"{rate_hz:.1f}", "messages": str(came.count)}
        message = "fresh" if level is Level.OK else "nothing new" if came.count else "nothing came"
        return Status(f"reading {topic}", level, message, values)


def reporter(
    subject: DiagnosticSources, settings: DeploySettings, transport: Transport
) -> Diagnostics:
    """Return a listener that publishes a node's health on the topics of its settings."""
    report = transport.create_publisher(settings.diagnostics, MsgType.DIAGNOSTICS, COMMAND)
    beat = transport.create_publisher(settings.heartbeat, MsgType.COUNT, NEWEST)
    return Diagnostics(subject, report, beat)


class _ArrivalTimes:
    """Arrival times on one topic; one thread adds, another reads."""

    def __init__(self) -> None:
        self.count, self._newest_s = 0, -np.inf
        self._before = (0, -np.inf)

    def add(self, stamp_s: float) -> None:
        self.count, self._newest_s = self.count + 1, stamp_s

    def age_s(self, now_s: float) -> float:
        return now_s - self._newest_s

    def rate_hz(self, now_s: float) -> float:
        """Return the rate since the last call; 0 at the first call."""
        (before, then_s), count = self._before, self.count
        self._before = count, now_s
        return (count - before) / (now_s - then_s) if now_s > then_s else 0.0


def with_query_times(query: Query, now_s: Callable[[], float]) -> tuple[Query, RecentDurations]:
    """Return the query with its duration measured, and the measured durations."""
    taken = RecentDurations()

    def asked(obs: Mapping[str, Values], plan: PlannedActions | None) -> Values:
        began_s = now_s()
        try:
            return query(obs, plan)
        finally:
            taken.add(now_s() - began_s)

    return asked, taken


def _level(state: State) -> Level:
    return _LEVELS.get(state, Level.OK)


def _policy(health: Health) -> Status:
    said = health.state + (f": {health.reason}" if health.reason else "")
    said += " (dry run: no command is sent)" if health.dry_run else ""
    values = {
        "ticks": str(health.ticks),
        "missed_ticks": str(health.missed),
        "clamped_ticks": str(health.clamped),
        "refused_requests": str(health.refused),
        "holds": str(health.holds),
        **_percentiles("reading_to_command", health.latency_s),
        **_percentiles("tick", health.tick_s),
        "problem": health.problem,
        "dry_run": str(health.dry_run).lower(),
    }
    return Status("policy", _level(State(health.state)), said, values)


def _inference(taken: RecentDurations, dt_s: float) -> Status:
    p50_s, p99_s = taken.percentiles()
    slow = p99_s > dt_s
    said = "one in a hundred takes longer than a control period" if slow else "within the period"
    values = _percentiles("inference", (p50_s, p99_s))
    return Status("inference", Level.WARN if slow else Level.OK, said, values)


def _prefix(refresher: PrefixRefresher) -> Status:
    """Return the age of what the policy has seen and read, and the times of its refreshes."""
    age_s = refresher.age_s
    times = refresher.refreshes.percentiles()
    slow = times[1] > refresher.cfg.period_s
    said = f"{age_s:.2f} s old" if np.isfinite(age_s) else "nothing seen yet"
    said += "; one refresh in a hundred takes longer than prefix.period_s" if slow else ""
    values = {"prefix_age_ms": _ms(age_s), **_percentiles("refresh", times)}
    return Status("prefix", Level.WARN if slow else Level.OK, said, values)


def _transport(problems: list[str]) -> Status:
    values = {str(number): problem for number, problem in enumerate(problems, start=1)}
    said = problems[0] if problems else "nothing amiss"
    return Status("transport", Level.WARN if problems else Level.OK, said, values)


def _percentiles(name: str, seconds: tuple[float, float]) -> dict[str, str]:
    return {f"{name}_p50_ms": _ms(seconds[0]), f"{name}_p99_ms": _ms(seconds[1])}


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2f}"
