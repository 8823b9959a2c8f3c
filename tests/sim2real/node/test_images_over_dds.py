"""Pictures over the real wire: what a camera's driver sends is what the policy sees."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_bundles import make_bundle, with_items
from small_domains import free_domain

from robo_rl.config.models import validate_strict
from robo_rl.config.registry import load
from robo_rl.core.images import crop_and_resize
from robo_rl.core.spec import TensorSpec
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.node.node import Node
from robo_rl_sim2real.node.settings import DeploySettings
from robo_rl_sim2real.transport.base import SENSOR

pytest.importorskip("cyclonedds", reason="pip install 'robo-rl[dds]'")

from robo_rl_sim2real.transport.dds.transport import Dds

cv2 = pytest.importorskip("cv2", reason="pip install 'robo-rl[images]'")

ROBOT = load("robots", "panda")
RGB = TensorSpec(shape=(48, 48, 3), dtype="uint8")
SQUARE = (0, 80, 480, 480)
OBSERVE = {
    "pos": {"topic": "/joint_states", "field": "position"},
    "raw": {"topic": "/raw", "msg_type": MsgType.IMAGE.value, "crop": list(SQUARE)},
    "small": {"topic": "/small", "msg_type": MsgType.COMPRESSED.value, "crop": list(SQUARE)},
}


class Camera:
    """A driver: noise around a picture, in a process's own participant."""

    def __init__(self, dds: Dds) -> None:
        self.raw = dds.create_publisher("/raw", MsgType.IMAGE, SENSOR)
        self.small = dds.create_publisher("/small", MsgType.COMPRESSED, SENSOR)
        self.rng = np.random.default_rng(0)

    def picture(self) -> np.ndarray:
        return self.rng.integers(0, 256, (480, 640, 3), np.uint8)

    def show(self, image: np.ndarray) -> None:
        self.raw.send(Reading({"image": image}, (), 0.0))

    def pack(self, data: np.ndarray, format_: str = "bgr8; png compressed bgr8") -> None:
        self.small.send(Reading({"data": data, "format": np.asarray(format_)}, (), 0.0))


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Node, Camera]]:
    domain = free_domain()
    bundle = make_bundle(tmp_path / "bundle", ROBOT)
    fields: dict[str, Any] = {"robot": {"name": "panda"}, "observe": OBSERVE}
    shown = with_items(tmp_path / "shown", bundle, raw=RGB, small=RGB)
    dds = Dds(Dds.Config(domain=domain), "camera")
    node = Node(
        validate_strict(fields, DeploySettings), shown, Dds(Dds.Config(domain=domain), "node")
    )
    yield node, Camera(dds)
    node.close()
    dds.close()


def until(done: Callable[[], object], say: Callable[[], None]) -> None:
    end_s = time.monotonic() + 20.0
    while not done() and time.monotonic() < end_s:
        say()
        time.sleep(0.02)
    assert done()


def test_a_picture_raw_or_compressed_is_the_item_that_training_made(both):
    node, camera = both
    image, other = camera.picture(), camera.picture()
    until(lambda: node.inbox.get("/raw"), lambda: camera.show(image))
    found = node.inbox.get("/raw").fields["raw"]
    np.testing.assert_array_equal(found, crop_and_resize(image, RGB.shape, SQUARE))
    data = cv2.imencode(".png", other[..., ::-1])[1].ravel()
    until(lambda: node.inbox.get("/small"), lambda: camera.pack(data))
    found = node.inbox.get("/small").fields["small"]
    np.testing.assert_array_equal(found, crop_and_resize(other, RGB.shape, SQUARE))


def test_whatever_comes_as_a_picture_the_node_lives_and_says_what_it_was(both):
    node, camera = both
    good = cv2.imencode(".jpg", camera.picture())[1].ravel()
    bomb = np.frombuffer(
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\xff\xff\0\0\xff\xff\x08\x02\0\0\0", np.uint8
    )
    bad = {
        "a JPEG without its end": good[: len(good) // 2],
        "expected JPEG or PNG": np.zeros(1, np.uint8),
        "65535 x 65535": bomb,
        "crop; expected": cv2.imencode(".jpg", camera.picture()[:, :300])[1].ravel(),
    }
    for problem, data in bad.items():
        until(
            lambda problem=problem: problem in node.inbox.problem(["/small"]),
            lambda data=data: camera.pack(data),
        )
    assert node.inbox.get("/small") is None
    until(lambda: node.inbox.get("/small"), lambda: camera.pack(good))
    assert node.inbox.problem(["/small"]) == ""
