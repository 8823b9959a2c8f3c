"""Faults of cameras: images that must make the node stop following the policy.

The node processes images in a separate thread, in real time, while the rest of the test runs on the
testbed's clock. A tick therefore waits until the images are processed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from _fault_stage import DT_S, SETTINGS, FaultTestbed
from _fault_table import TOLERANCE, TrialCounts
from numpy.typing import NDArray

from robo_rl.bundle.bundle import Bundle
from robo_rl.core.spec import ObsSpec, TensorSpec
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.transport.loopback import Loopback

SIZE = (32, 40, 3)
CAMERAS = ("/front", "/wrist")
SEEN_S = 1.0  # time limit for the detection of a fault
BEFORE, DURING, AFTER = 6, 36, 40  # ticks
LOOK_S = 0.003  # real time; an image of this size takes a tenth of a ms
Array = NDArray[Any]
Spoil = Callable[[Array, Array], Array]
"""(previous image, the other camera's image) → faulty image."""

SPOILS: dict[str, Spoil] = {
    "frozen camera": lambda last, other: last,
    "black camera": lambda last, other: np.zeros_like(other),
    "saturated camera": lambda last, other: np.full_like(other, 255),
    "one camera on two topics": lambda last, other: other.copy(),
    "grey instead of colour": lambda last, other: other[..., :1],
    "depth instead of colour": lambda last, other: other[..., :1] / np.float32(100.0),
}


class CameraTestbed(FaultTestbed):
    """The panda with two cameras, whose images have noise like real ones."""

    def __init__(self, bundle: Bundle, seed: int) -> None:
        observe = {**SETTINGS["observe"]}
        observe |= {
            _item(topic): {"topic": topic, "kind": MsgType.IMAGE.value} for topic in CAMERAS
        }
        super().__init__(
            shown(bundle), observe=observe, lifecycle={**SETTINGS["lifecycle"], "resume_s": 0.0}
        )
        robot, self.rng = Loopback(self.bus), np.random.default_rng(seed)
        for topic in CAMERAS:
            self.outs[topic] = robot.create_publisher(topic, MsgType.IMAGE)
        self.spoil: Spoil | None = None
        self.last = self._picture()

    def say(self) -> list[tuple[str, Reading]]:
        """Return joint states and an image of each camera; the wrist's image may be faulty."""
        front, wrist = self._picture(), self._picture()
        self.last = wrist if self.spoil is None else self.spoil(self.last, front)
        shots = zip(CAMERAS, (front, self.last), strict=True)
        pictures = [(t, Reading({"image": shot}, (), self.now_s)) for t, shot in shots]
        return [*super().say(), *pictures]

    def settle(self) -> None:
        """Wait many times longer than the image thread needs."""
        time.sleep(LOOK_S)

    def _picture(self) -> Array:
        return self.rng.integers(0, 256, SIZE, np.uint8)


def shown(bundle: Bundle) -> Bundle:
    """Return the bundle with images as further inputs that its policy ignores."""
    path = bundle.path.with_name("shown")
    if path.exists():
        return Bundle.load(path)
    agreed, picture = bundle.manifest.contract, TensorSpec(shape=SIZE, dtype="uint8")
    items = {**agreed.obs.items, **{_item(topic): picture for topic in CAMERAS}}
    contract = agreed.model_copy(update={"obs": ObsSpec(items=items)})
    manifest = bundle.manifest.model_copy(update={"contract": contract, "files": {}})
    return Bundle.write(path, manifest, {"policy.onnx": bundle.read("policy.onnx")})


def pictures(spoil: Spoil, bundle: Bundle, first: int, number: int) -> TrialCounts:
    """Run trials: images are good, then faulty, then good again.

    A trial checks how long the policy is followed after the first faulty image, and that it is
    followed again at the end.
    """
    violations, slowest, stage = 0, 0, CameraTestbed(bundle, first)
    for _ in range(number):
        stage.begin()
        for _ in range(int(stage.rng.integers(BEFORE, 2 * BEFORE))):
            stage.tick()
        stage.spoil = spoil
        followed = [_follows(stage) for _ in range(DURING)]
        stage.spoil = None
        back = [_follows(stage) for _ in range(AFTER)]
        seen = DURING - followed[::-1].index(True) if any(followed) else 0
        slowest = max(slowest, seen)
        violations += seen * DT_S > SEEN_S or not back[-1]
    stage.node.close()
    excess = stage.excess()
    worst = {"followed for s": slowest * DT_S, "excess": excess}
    return TrialCounts(number, violations + (excess > TOLERANCE), worst)


def _follows(stage: CameraTestbed) -> bool:
    command = stage.tick().command
    return command is not None and command.reason is None and stage.state is State.RUNNING


def _item(topic: str) -> str:
    return topic.removeprefix("/")
