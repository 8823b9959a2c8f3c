"""Checks of topics: publishers, types, rates, QoS, and competing nodes."""

from __future__ import annotations

from collections.abc import Iterator

from robo_rl_sim2real.check.check_result import CheckResult, failed, ok, warning
from robo_rl_sim2real.check.survey import SurveyResult
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.node.publisher_monitor import REMEDY, competing_publishers
from robo_rl_sim2real.transport.base import (
    COMMAND,
    NEWEST,
    Endpoint,
    Qos,
    qos_incompatibility,
    reading_qos,
)


def check_readings(facts: SurveyResult) -> Iterator[CheckResult]:
    """Check every topic of readings."""
    spoken = {source.topic for source in facts.settings.observe.values() if source.text}
    for topic, kind in facts.wiring.readings.items():
        if topic in spoken and not facts.endpoints[topic]:
            continue  # the words of the settings are in effect
        amiss = list(_writers(topic, kind, reading_qos(kind), facts.endpoints[topic]))
        yield from amiss
        if topic not in facts.settings.shared_topics:
            yield from _alone(topic, kind, facts.endpoints[topic])
        came = len(facts.arrivals[topic].stamps_s)
        if kind is MsgType.TEXT and facts.arrivals[topic].newest is not None:
            yield ok(topic, f"{kind.value}, an instruction")
        elif came:
            yield _pace(facts, topic)
        elif not amiss:
            text = f"{kind.value} is published, but nothing came in {facts.seconds:g} s"
            yield failed(topic, text, f"look with: ros2 topic hz {topic}")


def check_images(facts: SurveyResult) -> Iterator[CheckResult]:
    """Check the processing of images."""
    for topic, eye in facts.wiring.preprocessors.items():
        if not facts.arrivals[topic].stamps_s:
            continue
        ready, items = facts.inbox.get(topic), ", ".join(view.name for view in eye.views)
        if problem := facts.inbox.problem([topic]):
            yield failed(f"{topic} picture", problem, f"mend the camera, or observe of {items}")
        elif ready is not None:
            shapes = ", ".join(f"{name} {value.shape}" for name, value in ready.fields.items())
            yield ok(f"{topic} picture", f"made ready: {shapes}")


def check_command_topics(facts: SurveyResult) -> Iterator[CheckResult]:
    """Check that each command topic has one controller and no other source of commands."""
    for outlet in facts.wiring.command_topics:
        topic, ends = outlet.topic, facts.endpoints[outlet.topic]
        if rivals := [end for end in ends if end.writes]:
            text = f"{_names(rivals)} publishes commands too"
            yield failed(topic, text, "two must not steer: stop the other")
        yield _obeyed(topic, outlet.interface, [end for end in ends if not end.writes])


def check_estop(facts: SurveyResult) -> Iterator[CheckResult]:
    """Check that the emergency stop is published if required, and released."""
    topic, age_s = facts.settings.estop, facts.settings.estop_timeout_s
    ends = [end for end in facts.endpoints[topic] if end.writes]
    amiss = list(_writers(topic, MsgType.FLAG, COMMAND, ends)) if ends else []
    yield from amiss
    if topic not in facts.settings.shared_topics:
        yield from _alone(topic, MsgType.FLAG, ends)
    newest = facts.arrivals[topic].newest
    if newest is not None and bool(newest.fields["data"]):
        yield failed(topic, "the emergency stop is pressed", "release it, then reset")
    elif newest is None and age_s > 0.0:
        remedy = "start what publishes it, or set estop_timeout_s to 0"
        yield failed(topic, f"no message came, one is required every {age_s:g} s", remedy)
    elif 0.0 < age_s < (gap_s := facts.arrivals[topic].gap_s):
        text = f"silent for {gap_s:.2f} s, a message is required every {age_s:g} s"
        yield failed(topic, text, "publish it more often, or raise estop_timeout_s")
    elif ends and newest is None and not amiss:
        text = f"{_names(ends)} publishes, and has not said whether it is pressed"
        yield warning(topic, text, "press and release it, or make that publisher latched")
    elif not amiss:
        yield ok(topic, f"{_names(ends)} publishes: released" if ends else "not pressed")


def check_clock(facts: SurveyResult) -> Iterator[CheckResult]:
    """Check the machine's timing, and warn about simulated time."""
    if any(end.writes for end in facts.endpoints["/clock"]):
        text = f"{_names(facts.endpoints['/clock'])} publishes simulated time"
        remedy = "the policy runs in real time: so must the simulator"
        yield warning("/clock", text, remedy)
    period_s, late_s = 1.0 / facts.contract.act.rate_hz, float(facts.wake_delay_s.max())
    text = f"wakes at most {1e3 * late_s:.1f} ms late, of a period of {1e3 * period_s:.0f} ms"
    if late_s > 0.5 * period_s:
        yield warning("clock", text, "end what else runs here, or raise the node's priority")
    else:
        yield ok("clock", text)
    for problem in facts.problems:
        yield warning("transport", problem, "correct the sender")


def _writers(topic: str, kind: MsgType, reader: Qos, ends: list[Endpoint]) -> Iterator[CheckResult]:
    """Yield the problems that keep a topic from being received."""
    writers = [end for end in ends if end.writes]
    fitting = [end for end in writers if end.type == kind.value]
    if not writers:
        yield failed(topic, "no publisher", f"start what publishes {kind.value} there")
    elif not fitting:
        found = ", ".join(sorted({end.type for end in writers}))
        text = f"{_names(writers)} publishes {found}, expected {kind.value}"
        yield failed(topic, text, "set the topic's msg_type in the settings' observe")
    for end in fitting:
        if why := qos_incompatibility(end.qos, reader):
            yield failed(topic, f"{_names([end])}: {why}", "make that publisher reliable")


def _alone(topic: str, kind: MsgType, ends: list[Endpoint]) -> Iterator[CheckResult]:
    """Yield a failure if several nodes publish a topic that has one source."""
    if several := competing_publishers(kind, ends):
        yield failed(topic, several, REMEDY)


def _obeyed(topic: str, interface: str, readers: list[Endpoint]) -> CheckResult:
    """Check that exactly one controller receives the commands of a topic."""
    fitting = [
        end for end in readers if end.type == interface and not qos_incompatibility(NEWEST, end.qos)
    ]
    if len(fitting) == 1:
        return ok(topic, f"{_names(fitting)} subscribes to commands, {interface}")
    if fitting:
        return warning(topic, f"{len(fitting)} subscribers: {_names(fitting)}", "keep one")
    if not readers:
        return failed(
            topic, "no subscriber for commands", "start the controller, or set command.topic"
        )
    others = [end for end in readers if end.type != interface]
    if not others:
        why = qos_incompatibility(NEWEST, readers[0].qos)
        return failed(topic, f"{_names(readers)}: {why}", "make that subscription volatile")
    found = ", ".join(sorted({end.type for end in others}))
    text = f"{_names(others)} subscribes to {found}, but commands are {interface}"
    return failed(topic, text, "set command.kind, or command.topic")


def _pace(facts: SurveyResult, topic: str) -> CheckResult:
    """Check a topic's rate against the needs of the policy and the safety checks."""
    came, safety = facts.arrivals[topic], facts.runtime.parts.safety
    rate_hz, oldest_s = facts.contract.act.rate_hz, safety.max_age_s
    text = f"{came.rate_hz:.1f} Hz, longest gap {1e3 * came.gap_s:.0f} ms"
    if topic not in facts.runtime.topics:
        return ok(topic, text)  # a calibration is needed once
    if came.rate_hz < 1.0 / oldest_s:
        text += f"; readings older than {1e3 * oldest_s:.0f} ms hold the robot"
        return failed(topic, text, f"publish at {rate_hz:g} Hz or more")
    if came.gap_s > oldest_s:
        return warning(topic, f"{text}, above {1e3 * oldest_s:.0f} ms: holds", "mend the network")
    if came.rate_hz < 0.95 * rate_hz:
        text += f", below the policy's {rate_hz:g} Hz"
        return warning(topic, text, "it was trained on fresh readings every period")
    return ok(topic, text)


def _names(ends: list[Endpoint]) -> str:
    return ", ".join(sorted({end.node or "unnamed node" for end in ends}))
