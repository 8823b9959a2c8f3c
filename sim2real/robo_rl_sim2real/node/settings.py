"""Settings of a deployment: ``configs/deploy/*.yaml``, for every transport.

Empty fields are taken from the robot's description.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from robo_rl.api.robot import Robot
from robo_rl.bundle.manifest import Contract
from robo_rl.config.component import Component, component, default
from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import ConfigError
from robo_rl.language.base import TextEncoder
from robo_rl_sim2real.control.chunk_scheduler import ChunkScheduler, MergeMode
from robo_rl_sim2real.control.commands.braking import Limits
from robo_rl_sim2real.control.commands.contract import CommandSpec, command_spec
from robo_rl_sim2real.control.commands.limiter import check_computable
from robo_rl_sim2real.control.commands.publishers import (
    CommandConfig,
    make_command_topics,
    position_indices,
)
from robo_rl_sim2real.control.commands.safety import Safety
from robo_rl_sim2real.control.commands.topic import CommandTopic
from robo_rl_sim2real.control.feedback import Feedback
from robo_rl_sim2real.control.feedback_checks import FeedbackChecker
from robo_rl_sim2real.control.inference import (
    InferenceRunner,
    InlineInferenceRunner,
    Query,
    ThreadedInferenceRunner,
)
from robo_rl_sim2real.control.lifecycle import Lifecycle
from robo_rl_sim2real.control.plausibility import PlausibilityCheck
from robo_rl_sim2real.control.policy_queries import PolicyQueries
from robo_rl_sim2real.control.prefix import Encode, PrefixConfig, PrefixRefresher
from robo_rl_sim2real.control.runtime import Runtime, RuntimeParts
from robo_rl_sim2real.control.teleop.teleop import Teleop
from robo_rl_sim2real.core.graph_problems import GraphProblems
from robo_rl_sim2real.messages.ee_pose import EePoseAxes
from robo_rl_sim2real.messages.kinds import MsgType, RequiredTopicName, TopicName
from robo_rl_sim2real.perception.camera_guard import CameraGuard
from robo_rl_sim2real.perception.cameras import CameraPreprocessor, make_preprocessors
from robo_rl_sim2real.perception.observer import Observer, Source
from robo_rl_sim2real.recording.recorder import FlightRecorder
from robo_rl_sim2real.transport.base import Transport
from robo_rl_sim2real.watchdog.guard import Watchdog

if TYPE_CHECKING:
    from typing_extensions import Self

_ROUNDING = 1e-4
"""Distance of a start pose beyond a limit, in rad or m, that is a rounded number."""


class DeploySettings(ConfigModel):
    """A deployment.

    Args:
        robot: Robot to run on.
        observe: Item of the observation → its source.
        joint_states: Topic of the measured joints; empty for the robot's.
        ee_pose: Topic of the end effector's pose, if it is commanded; empty for the robot's.
        command: Where commands are sent.
        estop: Topic of the emergency stop: true presses it, false releases it. Without a publisher
            there is none; one that cannot be heard prevents a start and holds the robot.
        estop_timeout_s: Age of the last emergency-stop message beyond which the stop counts as
            pressed; 0 if no message is required.
        control: Topic of requests: ``activate``, ``deactivate``, ``reset``, ``stop`` …; empty for
            none, so that only services and the command line request.
        state: Topic on which the state is published.
        diagnostics: Topic on which the health is published.
        heartbeat: Topic of the control loop's heartbeat.
        start_pose: Pose near which the policy may start, within the limits of ``safety``; empty for
            the robot's home.
        transport: Transport of the node.
        inference: Whether inference runs within a tick or in a thread of its own.
        prefix: Rate at which images and words are encoded, for a bundle in two graphs; null runs
            the whole policy at every query. ``safety.max_chunk_age_s`` bounds their age too.
        lifecycle: Starting, resuming and ending.
        safety: Safety thresholds.
        plausibility: Thresholds of the plausibility of measurements.
        shared_topics: Topics of readings, or of the emergency stop, with several allowed
            publishers.
        chunks: How chunks are merged.
        teleop: Teleoperation input.
        watchdog: Watchdog that stops the robot if this process dies or hangs.
        cameras: When an image is unusable.
        record: What is recorded.
    """

    robot: Annotated[Component[Robot], component("robots")]
    observe: dict[str, Source]
    joint_states: TopicName = ""
    ee_pose: TopicName = ""
    command: CommandConfig = CommandConfig()
    estop: RequiredTopicName = "/estop"
    estop_timeout_s: float = Field(default=0.0, ge=0.0)
    control: TopicName = "/policy/control"
    state: RequiredTopicName = "/policy/state"
    diagnostics: RequiredTopicName = "/diagnostics"
    heartbeat: RequiredTopicName = "/policy/heartbeat"
    start_pose: tuple[float, ...] = ()
    transport: Annotated[Component[Transport], component("transports")] = default("dds")
    inference: Literal["inline", "thread"] = "inline"
    prefix: PrefixConfig | None = None
    lifecycle: Lifecycle.Config = Lifecycle.Config()
    safety: Safety.Config = Safety.Config()
    plausibility: PlausibilityCheck.Config = PlausibilityCheck.Config()
    shared_topics: tuple[RequiredTopicName, ...] = ()
    chunks: ChunkScheduler.Config = ChunkScheduler.Config()
    teleop: Teleop.Config = Teleop.Config()
    watchdog: Watchdog.Config = Watchdog.Config()
    cameras: CameraGuard.Config = CameraGuard.Config()
    record: FlightRecorder.Config = FlightRecorder.Config()

    @model_validator(mode="after")
    def _one_kind_of_graph(self) -> Self:
        if self.prefix is not None and self.chunks.uses_inpainting:
            raise ValueError("prefix: the two graphs do not continue a plan; set chunks.merge=soft")
        return self


class Wiring(NamedTuple):
    """Topics of a runtime.

    Args:
        readings: Topic → interface, for all readings.
        command_topics: Topics of commands.
        preprocessors: Topic → preprocessor of its images.
    """

    readings: dict[str, MsgType]
    command_topics: tuple[CommandTopic, ...]
    preprocessors: dict[str, CameraPreprocessor]


def build_runtime(
    settings: DeploySettings,
    contract: Contract,
    query: Query,
    now_s: Callable[[], float],
    *,
    sends: bool = True,
    graph: Callable[[], GraphProblems] = GraphProblems,
    encoder: TextEncoder | None = None,
    encode: Encode | None = None,
) -> tuple[Runtime, Wiring]:
    """Return a runtime for a contract, and its topics.

    Args:
        settings: Settings of the deployment.
        contract: Contract of the bundle.
        query: Policy of the bundle.
        now_s: Monotonic clock.
        sends: Whether commands reach the robot.
        graph: Returns the problems of the graph.
        encoder: Encoder of the bundle's instructions; None builds that of the contract.
        encode: The graph of the prefix of a policy in two graphs, whose query is then that of the
            expert.

    Raises:
        BundleError: The bundle does not fit the robot.
        ConfigError: An item of the observation has no source, a topic has two interfaces,
            ``start_pose`` has another length or exceeds a limit, chunks are longer than
            ``max_chunk_age_s``, or the limiter is too slow for the rate.
    """
    robot: Robot = settings.robot.build()
    found = command_spec(contract, robot)
    observer = Observer(contract, settings.observe, encoder, robot.frames.base)
    measured = _measured(settings, robot, found)
    ways = make_command_topics(settings.command, robot, found.names, found.limits.dt_s)
    placed = position_indices(ways, len(found.names))
    safety = Safety(
        settings.safety, found.limits, found.home, found.tracks_command, placed, found.names
    )
    witness = FeedbackChecker(
        settings.plausibility, measured, found.limits, found.tracks_command, placed
    )
    teleop = Teleop(settings.teleop, found.names, safety.limits, EePoseAxes.of(robot))
    shown = make_preprocessors(observer.specs, observer.sources, robot, settings.cameras)
    heard = {**observer.topics, **observer.text_topics, **teleop.topics}
    readings = _readings(heard, measured.topics)
    wiring = Wiring({**readings, **_calibrations(shown)}, ways, shown)
    _check_age(settings, contract)
    _check_overlap(settings.chunks, contract)
    start = _start(settings, found, safety.limits)
    life = Lifecycle(settings.lifecycle, found.names, start, found.units)
    check_computable(safety.limits)
    policy = _policy(settings, contract, query, encode, now_s)  # last, as it may start threads
    parts = RuntimeParts(observer, policy, safety, life, teleop, witness)
    return Runtime(parts, measured, now_s, sends=sends, graph=graph), wiring


def _policy(
    settings: DeploySettings,
    contract: Contract,
    query: Query,
    encode: Encode | None,
    now_s: Callable[[], float],
) -> PolicyQueries:
    prefix = None
    if settings.prefix is not None and encode is not None:
        prefix = PrefixRefresher(encode, settings.prefix, now_s)
    chunks = ChunkScheduler(settings.chunks, contract.exec_horizon)
    return PolicyQueries(_PLANNERS[settings.inference](query, now_s), chunks, prefix)


_PLANNERS: dict[str, Callable[[Query, Callable[[], float]], InferenceRunner]] = {
    "inline": lambda query, _: InlineInferenceRunner(query),
    "thread": ThreadedInferenceRunner,
}


def _measured(settings: DeploySettings, robot: Robot, found: CommandSpec) -> Feedback:
    hand = EePoseAxes.of(robot)
    moves_hand = bool({*found.names} & {*hand.names})
    only_hand = {*found.names} <= {*hand.names}
    return Feedback(
        "" if only_hand else settings.joint_states or robot.topics.joint_states,
        found.names,
        found.deltas,
        (settings.ee_pose or robot.topics.ee_pose) if moves_hand else "",
        hand,
    )


def _readings(topics: dict[str, MsgType], measured: dict[str, MsgType]) -> dict[str, MsgType]:
    for topic, kind in measured.items():
        found = topics.get(topic, kind)
        if found is not kind:
            raise ConfigError(f"observe: topic '{topic}'", expected=kind.value, found=found.value)
    return {**topics, **measured}


def _calibrations(shown: dict[str, CameraPreprocessor]) -> dict[str, MsgType]:
    checks = [check for eye in shown.values() for check in eye.calibrations]
    return {check.expected.topic: MsgType.CAMERA_INFO for check in checks}


def _check_age(settings: DeploySettings, contract: Contract) -> None:
    whole = settings.chunks.merge is not MergeMode.NEWEST  # merged actions rest on older chunks
    ticks = contract.horizon if whole else contract.exec_horizon
    played_s, waits_s = ticks / contract.act.rate_hz, 0.0
    if settings.prefix is not None:
        waits_s = settings.prefix.period_s
    if played_s + waits_s > settings.safety.max_chunk_age_s:
        what = f"chunks are {'merged over' if whole else 'played for'} longer"
        what += ", after images that are prefix.period_s old" if waits_s else ""
        raise ConfigError(
            f"safety.max_chunk_age_s: {what}",
            expected=f"at least {played_s + waits_s:g} s",
            found=settings.safety.max_chunk_age_s,
        )


def _check_overlap(chunks: ChunkScheduler.Config, contract: Contract) -> None:
    """Refuse inpainting if a chunk has no actions left when the next one is requested."""
    if chunks.uses_inpainting and contract.exec_horizon - chunks.prefetch_ticks >= contract.horizon:
        raise ConfigError(
            "chunks.merge: nothing is left of a chunk when the next one is asked for",
            expected=f"chunks.prefetch_ticks above {contract.exec_horizon - contract.horizon}",
            found=chunks.prefetch_ticks,
            hint="or a policy whose exec_horizon is below its horizon",
        )


def _start(settings: DeploySettings, found: CommandSpec, limits: Limits) -> np.ndarray:
    """Return the start pose (n,), which lies within the limits.

    Raises:
        ConfigError: ``start_pose`` has another length, or exceeds a limit.
    """
    if not settings.start_pose:
        return found.home
    if len(settings.start_pose) != len(found.names):
        expected = f"{len(found.names)} positions, of {', '.join(found.names)}"
        raise ConfigError("start_pose", expected=expected, found=len(settings.start_pose))
    start = np.array(settings.start_pose)
    inside = (limits.low - _ROUNDING <= start) & (start <= limits.high + _ROUNDING)
    for i in np.flatnonzero(~inside):
        low, high, unit = limits.low[i], limits.high[i], found.units[i]
        raise ConfigError(
            f"start_pose: '{found.names[i]}' lies outside its limits",
            expected=f"{low:.4g} to {high:.4g} {unit}",
            found=f"{start[i]:g}",
            hint=_unit_hint(float(start[i]), unit),
        )
    return start


def _unit_hint(value: float, unit: str) -> str:
    if unit == "rad":
        return f"positions are in rad and m: {value:g} degrees are {np.radians(value):.4g} rad"
    return "positions are in rad and m, within safety.position_margin of the robot's limits"
