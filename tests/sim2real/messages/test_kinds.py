"""Messages that do not add up are an error, and those of other cameras are understood."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from robo_rl.core.errors import SpecError
from robo_rl_sim2real.messages.kinds import MsgType, to_message, to_reading
from robo_rl_sim2real.messages.message_factory import MessageFactory
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.messages.rosbags_types import message_factory, type_store

RGB = np.random.default_rng(0).integers(0, 256, (4, 3, 3), np.uint8)


def image(encoding: str, pixels: np.ndarray, pad: int = 0) -> SimpleNamespace:
    rows = np.pad(pixels.reshape(len(pixels), -1), ((0, 0), (0, pad)))
    height, step = rows.shape
    return SimpleNamespace(
        encoding=encoding,
        is_bigendian=0,
        height=height,
        width=3,
        step=step,
        data=rows.flatten(),
    )


@pytest.mark.parametrize(
    ("encoding", "pixels"),
    [
        ("rgb8", RGB),
        ("bgr8", RGB[..., ::-1]),
        ("rgba8", np.dstack([RGB, np.full((4, 3), 9, np.uint8)])),
        ("bgra8", np.dstack([RGB[..., ::-1], np.full((4, 3), 9, np.uint8)])),
    ],
)
@pytest.mark.parametrize("pad", [0, 5])
def test_pixels_are_red_green_blue_whatever_the_camera_says(encoding, pixels, pad):
    found = to_reading(MsgType.IMAGE, image(encoding, pixels, pad), 1.0).fields["image"]
    np.testing.assert_array_equal(found, RGB)


@pytest.mark.parametrize(
    "pixels",
    [RGB, RGB[..., :1], (RGB[..., :1] / 100).astype(np.float32)],
    ids=["colour", "grey", "depth"],
)
def test_images_are_written_as_they_are(pixels: np.ndarray):
    """So that a recording has them too where a transport hands on no bytes."""
    dialect = message_factory(type_store("jazzy"))
    message = to_message(MsgType.IMAGE, Reading({"image": pixels}, (), 1.0), dialect)
    found = to_reading(MsgType.IMAGE, message, 1.0).fields["image"]
    assert found.dtype == pixels.dtype
    np.testing.assert_array_equal(found, pixels)
    with pytest.raises(SpecError, match="float64 × 1"):
        to_message(MsgType.IMAGE, Reading({"image": np.zeros((4, 3, 1))}, (), 1.0), dialect)


def test_grey_and_depth_have_one_channel_and_depth_is_in_metres():
    grey = to_reading(MsgType.IMAGE, image("mono8", RGB[..., :1]), 1.0).fields["image"]
    np.testing.assert_array_equal(grey, RGB[..., :1])
    depth = np.array([[500, 1500, 0]], np.uint16)
    for order, big in (("<u2", 0), (">u2", 1)):
        message = image("16UC1", depth.astype(order).view(np.uint8), pad=3)
        message.is_bigendian = big
        found = to_reading(MsgType.IMAGE, message, 1.0).fields["image"]
        np.testing.assert_allclose(found[..., 0], [[0.5, 1.5, 0.0]])
    metres = np.array([[0.5, np.nan, np.inf]], np.float32).view(np.uint8)
    found = to_reading(MsgType.IMAGE, image("32FC1", metres), 1.0).fields["image"]
    assert found.ravel().tolist() == [0.5, 0.0, 0.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encoding": "yuv422"}, "image encoding"),
        ({"height": 5}, "image; expected 45 bytes, found 36"),
        ({"width": 4}, "image"),
        ({"width": 0}, "image without pixels"),
        ({"data": np.zeros(0, np.uint8)}, "image"),
    ],
)
def test_an_image_that_does_not_add_up_is_an_error(change: dict[str, Any], message: str):
    broken = SimpleNamespace(**{**vars(image("rgb8", RGB)), **change})
    with pytest.raises(SpecError, match=message):
        to_reading(MsgType.IMAGE, broken, 1.0)


def test_a_trajectory_that_does_not_add_up_is_an_error():
    span = SimpleNamespace(sec=0, nanosec=0)
    points = [SimpleNamespace(positions=[1.0], time_from_start=span)]
    broken = SimpleNamespace(joint_names=["a", "b"], points=points)
    with pytest.raises(SpecError, match="2 positions a point"):
        to_reading(MsgType.TRAJECTORY, broken, 1.0)


def test_headers_say_when_it_was_measured_and_commands_say_now():
    made = MessageFactory(lambda name: SimpleNamespace, *(lambda value: value,) * 3)

    def age_s(stamp_s: float) -> float:
        reading = Reading({"position": np.zeros(2)}, ("a", "b"), stamp_s)
        stamp = to_message(MsgType.JOINT_STATES, reading, made).header.stamp
        return time.time() - (stamp.sec + 1e-9 * stamp.nanosec)

    assert age_s(time.monotonic() - 5.0) == pytest.approx(5.0, abs=0.5)
    assert age_s(0.0) == pytest.approx(0.0, abs=0.5)
