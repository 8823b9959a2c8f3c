"""A made-up robot on a made-up clock: joints that follow, a policy that answers after a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from small_limits import JOINTS, limits

from robo_rl.bundle.manifest import Contract
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl_sim2real.control.chunk_scheduler import ChunkScheduler
from robo_rl_sim2real.control.commands.deltas import DeltaActions
from robo_rl_sim2real.control.commands.safety import Safety
from robo_rl_sim2real.control.feedback import Feedback
from robo_rl_sim2real.control.feedback_checks import FeedbackChecker
from robo_rl_sim2real.control.inference import InferenceRequest, InferenceResult
from robo_rl_sim2real.control.lifecycle import Lifecycle
from robo_rl_sim2real.control.plausibility import PlausibilityCheck
from robo_rl_sim2real.control.policy_queries import PolicyQueries
from robo_rl_sim2real.control.runtime import Runtime, RuntimeParts, TickOutput
from robo_rl_sim2real.control.teleop.teleop import Teleop
from robo_rl_sim2real.messages.readings import Inbox, Reading
from robo_rl_sim2real.perception.observer import Observer, Source

Array = NDArray[np.float64]
NAMES = tuple(f"joint{i}" for i in range(JOINTS))
HORIZON, EXEC = 8, 4
TOPIC = "/joint_states"
READINGS = 9


def contract(obs_horizon: int = 1) -> Contract:
    """Joint positions in, joint targets out, at 50 Hz."""
    return Contract(
        policy="flow",
        robot="made_up",
        task="made_up",
        obs=ObsSpec(items={"pos": TensorSpec(shape=(JOINTS,), unit="rad", names=NAMES)}),
        obs_horizon=obs_horizon,
        act=ActSpec(shape=(JOINTS,), unit="rad", names=NAMES, rate_hz=50.0),
        horizon=HORIZON,
        exec_horizon=EXEC,
        num_steps=1,
    )


class SlowPolicy:
    """A planner on the made-up clock: what it answers, and after how long.

    Args:
        act: Tick of the question → chunk.
        delay_s: How long it thinks.
    """

    def __init__(self, act: Callable[[int], Array], delay_s: float) -> None:
        self.act, self.delay_s, self.now_s = act, delay_s, 0.0
        self.open: InferenceRequest | None = None
        self.since_s = 0.0

    @property
    def idle(self) -> bool:
        return self.open is None

    def submit(self, question: InferenceRequest) -> None:
        assert self.open is None
        self.open, self.since_s = question, self.now_s
        self.answer = self.act(question.tick)

    def poll(self) -> InferenceResult | None:
        if self.open is None or self.now_s < self.since_s + self.delay_s - 1e-9:
            return None
        question, self.open = self.open, None
        return InferenceResult(question, self.answer)

    def pending_s(self) -> float:
        return 0.0 if self.open is None else self.now_s - self.since_s

    def close(self) -> None:
        pass


def wave(tick: int) -> Array:
    """A chunk of a slow swing that all chunks agree upon."""
    phase = 0.02 * np.arange(tick, tick + HORIZON)
    return 0.15 * (1.0 - np.cos(phase))[:, None] * np.ones(JOINTS)


class Bench:
    """A runtime, its robot and the clock.

    Args:
        act: The policy's answers.
        delay_s: How long it thinks.
        lag: Share of the way to its command that the robot makes in a tick.
        ramp_s: Of the runtime.
        safety: Fields of its config.
        obs_horizon: Of the policy.
        teleop: Fields of its config.
        life: Fields of the lifecycle's config.
    """

    def __init__(
        self,
        act: Callable[[int], Array] = wave,
        *,
        delay_s: float = 0.0,
        lag: float = 0.5,
        ramp_s: float = 0.0,
        safety: dict[str, Any] | None = None,
        merge: str = "newest",
        relative: bool = False,
        obs_horizon: int = 1,
        teleop: dict[str, Any] | None = None,
        **life: float,
    ) -> None:
        self.limits, self.lag, self.now_s = limits(), lag, 100.0
        self.policy, self.inbox = SlowPolicy(act, delay_s), Inbox()
        sources = {"pos": Source(topic=TOPIC, field="position")}
        chunks = ChunkScheduler.Config.model_validate({"merge": merge})
        cfg = Lifecycle.Config(
            **{"ramp_s": ramp_s, "resume_s": 0.0, "start_tolerance_rad": 0.5, **life}
        )
        far = np.full(JOINTS, 1e6)
        measured = Feedback(
            TOPIC, NAMES, DeltaActions(np.ones(JOINTS, bool), -far, far) if relative else None
        )
        self.runtime = Runtime(
            RuntimeParts(
                Observer(contract(obs_horizon), sources),
                PolicyQueries(self.policy, ChunkScheduler(chunks, EXEC)),
                Safety(Safety.Config(**(safety or {})), self.limits, np.zeros(JOINTS)),
                Lifecycle(cfg, NAMES, np.zeros(JOINTS)),
                Teleop(Teleop.Config.model_validate(teleop or {}), NAMES, self.limits),
                FeedbackChecker(
                    PlausibilityCheck.Config(), measured, self.limits, *np.ones((2, JOINTS), bool)
                ),
            ),
            measured,
            self.read,
        )
        self.life = self.runtime.life
        self.number = 0
        self.pos, self.sent, self.outputs = np.zeros(JOINTS), [np.zeros(JOINTS)], list[TickOutput]()
        self.tell()

    def read(self) -> float:
        """The clock."""
        return self.now_s

    def tell(self, **fields: Any) -> None:
        """The robot says where it is; in another order than the policy's."""
        reading = Reading({"position": self.pos[::-1], **fields}, NAMES[::-1], self.now_s)
        self.inbox.put(TOPIC, reading)

    def begin(self) -> Bench:
        """Configured, watched for a while, and active."""
        self.life.configure()
        self.watch()
        self.runtime.activate(self.inbox, self.number)
        return self

    def watch(self) -> None:
        """Not active: the robot is where it is, and is seen there."""
        for _ in range(READINGS):
            self.tell()
            self.runtime.tick(self.inbox, self.number)
            self.now_s += self.limits.dt_s
        self.tell()

    def tick(self, *, silent: bool = False) -> TickOutput:
        """One control period."""
        if not silent:
            self.tell()
        self.policy.now_s = self.now_s
        output = self.runtime.tick(self.inbox, self.number)
        if output.command is not None:
            self.sent.append(output.command.pos)
            self.pos = self.pos + self.lag * (output.command.pos - self.pos)
        self.outputs.append(output)
        self.number += 1
        self.now_s += self.limits.dt_s
        return output

    def run(self, ticks: int, *, silent: bool = False) -> list[TickOutput]:
        """Several."""
        return [self.tick(silent=silent) for _ in range(ticks)]
