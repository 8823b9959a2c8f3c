"""Collects the facts for the checks: listens like the node, without sending commands.

Times are in seconds of one monotonic clock.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from robo_rl.bundle.bundle import Bundle
from robo_rl.bundle.manifest import Contract, Manifest
from robo_rl.core.errors import RoboRlError
from robo_rl_sim2real.control.inference import Query
from robo_rl_sim2real.control.runtime import Runtime
from robo_rl_sim2real.core.clock import Clock
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Inbox, Reading
from robo_rl_sim2real.node.emergency_stop import EmergencyStopListener
from robo_rl_sim2real.node.policy_query import warm_up_session, warm_up_split, zero_observation
from robo_rl_sim2real.node.settings import DeploySettings, Wiring, build_runtime
from robo_rl_sim2real.perception.image_thread import ImageWorker
from robo_rl_sim2real.transport.base import Endpoint, Transport, reading_qos

_QUERIES, _FEW = 200, 5
"""Number of timed queries, normally and while another node steers the robot."""
_NAPS = 50
_NAP_S = 0.005


class ArrivalTimes:
    """The messages on a topic and their arrival times."""

    def __init__(self) -> None:
        self.stamps_s = list[float]()
        self.window_s: tuple[float, ...] = ()
        """Start and end of listening."""
        self.newest: Reading | None = None

    def add(self, reading: Reading) -> None:
        """Add a reading."""
        self.stamps_s.append(reading.stamp_s)
        self.newest = reading

    @property
    def rate_hz(self) -> float:
        """Mean rate; 0 with fewer than two readings."""
        stamps = self.stamps_s
        return (len(stamps) - 1) / (stamps[-1] - stamps[0]) if len(stamps) > 1 else 0.0

    @property
    def gap_s(self) -> float:
        """The longest time without a reading, also before the first and after the last one."""
        if len(self.stamps_s) < 2:
            return np.inf
        times = [*self.window_s[:1], *self.stamps_s, *self.window_s[1:]]
        return float(np.diff(times).max())


class SurveyResult(NamedTuple):
    """The collected facts.

    Args:
        settings: Settings of the deployment.
        contract: Contract of the bundle.
        runtime: Runtime as in the node.
        wiring: Topics as in the node.
        arrivals: Topic → its messages.
        endpoints: Topic → its other publishers and subscribers.
        inbox: The newest readings, with processed images.
        problems: Problems of the transport.
        query: The policy.
        query_s: Durations of some queries.
        wake_delay_s: Delays of wake-ups after sleeping for a control period.
        loaded_wake_delay_s: Delays of wake-ups under CPU load; empty if another node steers the
            robot.
        seconds: Duration of listening.
        prefix_s: Durations of some refreshes of images and words; empty for a policy in one graph.
    """

    settings: DeploySettings
    contract: Contract
    runtime: Runtime
    wiring: Wiring
    arrivals: dict[str, ArrivalTimes]
    endpoints: dict[str, list[Endpoint]]
    inbox: Inbox
    problems: list[str]
    query: Query
    query_s: np.ndarray
    wake_delay_s: np.ndarray
    seconds: float
    loaded_wake_delay_s: np.ndarray
    manifest: Manifest
    prefix_s: np.ndarray


def survey(
    settings: DeploySettings,
    bundle: Bundle,
    connect: Callable[[], Transport],
    seconds: float,
    clock: Clock | None = None,
) -> SurveyResult:
    """Listen to the topics, and time the policy on this machine.

    Args:
        settings: Settings of the deployment.
        bundle: Verified bundle.
        connect: Makes a transport, which is closed at the end.
        seconds: Duration of listening.
        clock: Monotonic clock.

    Raises:
        BundleError: The bundle does not fit the robot.
        ConfigError: The settings do not fit the bundle.
    """
    clock, asked = clock or Clock(), _queries(settings, bundle)
    query = asked.whole
    contract, inline = bundle.manifest.contract, settings.model_copy(update={"inference": "inline"})
    runtime, wiring = build_runtime(
        inline, contract, query, clock.now_s, encoder=bundle.text_encoder()
    )
    inbox, transport = Inbox(), connect()
    darkroom = ImageWorker(wiring.preprocessors, inbox)
    try:
        heard = _listen(transport, wiring.readings, darkroom)
        pressed = ArrivalTimes()
        button = EmergencyStopListener(transport, settings.estop, pressed.add, clock.now_s)
        heard[settings.estop] = pressed
        for outlet in wiring.command_topics:
            if outlet.action:
                transport.create_goal_publisher(outlet.topic)  # refuses actions as the node would
        topics = (*heard, "/clock")
        _ends(transport, topics, wiring)  # the first call starts discovery
        late_s = _late(1.0 / contract.act.rate_hz, clock)
        rivals = any(end.writes for ends in _ends(transport, (), wiring).values() for end in ends)
        number = _FEW if rivals else _QUERIES
        query_s = _timed(asked.repeated, clock, number)
        prefix_s = np.zeros(0) if asked.prefix is None else _timed(asked.prefix, clock, number)
        loaded_late_s = np.zeros(0) if rivals else _loaded_late(clock)
        for arrivals in heard.values():  # excludes messages during the timing
            arrivals.stamps_s.clear()
        button.poll(transport)
        began_s = clock.now_s()
        clock.sleep(seconds)
        for arrivals in heard.values():
            arrivals.window_s = (began_s, clock.now_s())
        ends, problems = _ends(transport, topics, wiring), transport.problems()
    finally:
        darkroom.close()
        transport.close()
    found = runtime, wiring, heard, ends, inbox, problems, query, query_s, late_s, seconds
    return SurveyResult(settings, contract, *found, loaded_late_s, bundle.manifest, prefix_s)


class _Queries(NamedTuple):
    """The whole policy; what a decision runs; and what a refresh of images and words runs."""

    whole: Query
    repeated: Callable[[], object]
    prefix: Callable[[], object] | None


def _queries(settings: DeploySettings, bundle: Bundle) -> _Queries:
    zeros = zero_observation(bundle.manifest.contract)
    if settings.prefix is None:
        query = warm_up_session(bundle, 0, inpaint=settings.chunks.uses_inpainting)
        return _Queries(query, lambda: query(zeros, None), None)
    session, expert = warm_up_split(bundle, 0)
    given, noise = {**zeros, **session.encode(zeros)}, np.random.default_rng(0)
    return _Queries(
        lambda obs, plan: session.act(obs, noise, plan),
        lambda: expert(given, None),
        lambda: session.encode(zeros),
    )


def _ends(transport: Transport, topics: Iterable[str], wiring: Wiring) -> dict[str, list[Endpoint]]:
    out = {
        each.topic: transport.endpoints(each.topic, action=each.action)
        for each in wiring.command_topics
    }
    return {**{topic: transport.endpoints(topic) for topic in topics}, **out}


def _listen(
    transport: Transport, topics: dict[str, MsgType], darkroom: ImageWorker
) -> dict[str, ArrivalTimes]:
    """Subscribe with the node's QoS."""
    heard = {topic: ArrivalTimes() for topic in topics}
    for topic, kind in topics.items():
        transport.subscribe(topic, kind, _taker(topic, heard[topic], darkroom), reading_qos(kind))
    return heard


def _taker(topic: str, arrivals: ArrivalTimes, darkroom: ImageWorker) -> Callable[[Reading], None]:
    def take(reading: Reading) -> None:
        arrivals.add(reading)
        darkroom.put(topic, reading)

    return take


def _timed(query: Callable[[], object], clock: Clock, number: int) -> np.ndarray:
    """Return (n,) durations of queries, within about 2 s."""
    spent = list[float]()
    until_s = clock.now_s() + 2.0
    while len(spent) < number and (clock.now_s() < until_s or not spent):
        began_s = clock.now_s()
        query()
        spent.append(clock.now_s() - began_s)
    return np.array(spent)


def _late(period_s: float, clock: Clock, number: int = _NAPS) -> np.ndarray:
    """Return (n,) delays of wake-ups in s; they are measured for at most about 1 s."""
    found = list[float]()
    until_s = clock.now_s() + 1.0
    while len(found) < number and clock.now_s() < until_s:
        began_s = clock.now_s()
        clock.sleep(period_s)
        found.append(clock.now_s() - began_s - period_s)
    return np.array(found or [0.0])


def _loaded_late(clock: Clock) -> np.ndarray:
    """Return (n,) delays of short sleeps in s, under a load of two busy processes per core."""
    with cpu_load(2 * (os.cpu_count() or 1)):
        return _late(_NAP_S, clock, number=round(1.0 / _NAP_S))


@contextmanager
def cpu_load(number: int) -> Generator[list[subprocess.Popen[bytes]]]:
    """Run that many busy processes inside the context, for 10 s at most."""
    code = "import time; end = time.monotonic() + 10\nwhile time.monotonic() < end: pass"
    made = [subprocess.Popen([sys.executable, "-I", "-S", "-c", code]) for _ in range(number)]
    try:
        yield made
    finally:
        for process in made:
            process.kill()
            process.wait()


def current_observation(facts: SurveyResult) -> tuple[dict[str, np.ndarray] | None, str]:
    """Return the policy's present observation, None without one; and the problem."""
    observer = facts.runtime.parts.observer
    try:
        frame = observer.read_frame(facts.inbox)
    except RoboRlError as error:
        return None, str(error)
    return (None, "") if frame is None else (observer.observation(frame, 0), "")
