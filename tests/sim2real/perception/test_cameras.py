"""From pictures to items of an observation, and cameras that are not the policy's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from robo_rl.config.registry import load
from robo_rl.core.errors import ConfigError, SpecError
from robo_rl.core.images import crop_and_resize, resize
from robo_rl.core.spec import TensorSpec
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.perception.calibration import field_of_view
from robo_rl_sim2real.perception.camera_guard import CameraGuard
from robo_rl_sim2real.perception.cameras import CameraPreprocessor, make_preprocessors
from robo_rl_sim2real.perception.observer import Source

ROBOT = load("robots", "panda")
FRONT = ROBOT.topics.images["front"]
SCENE = np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)
SQUARE = (0, 8, 48, 48)
SPEC = TensorSpec(shape=(16, 16, 3), dtype="uint8")


def eye(spec: TensorSpec = SPEC, **source: Any) -> CameraPreprocessor:
    fields = {"topic": FRONT, "msg_type": MsgType.IMAGE, "crop": SQUARE, **source}
    sources = {"rgb": Source(**fields)}
    return make_preprocessors({"rgb": spec}, sources, ROBOT, CameraGuard.Config())[fields["topic"]]


def shown(image: np.ndarray = SCENE, stamp_s: float = 3.0) -> Reading:
    return Reading({"image": image}, (), stamp_s)


def info(fovy: float, height: int = 48, width: int = 64) -> Reading:
    focal = height / 2 / math.tan(math.radians(fovy) / 2)
    k = np.array([[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]])
    return Reading({"k": k, "size": np.array([height, width], float)}, (), 0.0)


def calibrate(seeing: CameraPreprocessor, fovy: float) -> None:
    for calibration in seeing.calibrations:
        calibration.on_camera_info(info(fovy))


def test_an_item_is_the_part_that_is_meant_at_the_size_of_training():
    found = eye().process(shown())
    np.testing.assert_array_equal(found.fields["rgb"], crop_and_resize(SCENE, SPEC.shape, SQUARE))
    assert found.stamp_s == 3.0


def test_a_compressed_picture_is_the_same_item():
    cv2 = pytest.importorskip("cv2", reason="pip install 'robo-rl[images]'")
    data = cv2.imencode(".png", SCENE[..., ::-1])[1]
    reading = Reading({"data": data, "format": np.asarray("png")}, (), 3.0)
    found = eye(msg_type=MsgType.COMPRESSED).process(reading)
    np.testing.assert_array_equal(found.fields["rgb"], crop_and_resize(SCENE, SPEC.shape, SQUARE))


def test_one_topic_serves_items_with_crops_of_their_own():
    specs = {"near": SPEC, "all": TensorSpec(shape=(3, 24, 32), dtype="uint8")}
    near = Source(topic=FRONT, msg_type=MsgType.IMAGE, crop=(0.5, 0.5, 0.5, 0.375))
    sources = {"near": near, "all": Source(topic=FRONT, msg_type=MsgType.IMAGE)}
    found = (
        make_preprocessors(specs, sources, ROBOT, CameraGuard.Config())[FRONT]
        .process(shown())
        .fields
    )
    np.testing.assert_array_equal(found["near"], resize(SCENE[24:, 32:56], 16, 16))
    np.testing.assert_array_equal(found["all"], resize(SCENE, 24, 32).transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("change", "image", "message"),
    [
        ({"crop": None}, SCENE, r"obs 'rgb': sides of an image.*crop: \[0, 8, 48, 48\]"),
        ({"crop": (0, 0, 60, 60)}, SCENE, "obs 'rgb': crop"),
        ({}, SCENE[..., :1], "obs 'rgb': channels"),
        ({}, SCENE[..., :3].astype(np.float32) + 1.0, "obs 'rgb'; expected uint8, found float32"),
        ({}, np.zeros_like(SCENE), "the picture is black"),
    ],
)
def test_a_picture_that_does_not_fit_is_an_error_that_names_the_item(change, image, message):
    with pytest.raises(SpecError, match=message):
        eye(**change).process(shown(image))


def test_a_crop_in_pixels_is_of_the_first_size_and_one_in_fractions_of_any():
    """The same part of a picture with more pixels is another view."""
    large = SCENE.repeat(2, axis=0).repeat(2, axis=1)
    pixels, fractions = eye(), eye(crop=(0.0, 0.125, 1.0, 0.75))
    for seeing in (pixels, fractions):
        assert seeing.process(shown()).fields
    assert fractions.process(shown(large, 3.1)).fields
    late = eye()
    with pytest.raises(SpecError, match="obs 'rgb': crop"):
        late.process(shown(SCENE[:24]))
    assert late.process(shown(stamp_s=3.1)).fields
    with pytest.raises(SpecError, match=r"expected 48 x 64 as the first image, found 96 x 128"):
        pixels.process(shown(large, 3.1))
    assert pixels.process(shown(SCENE[::-1], 3.2)).fields


def test_a_camera_with_the_field_of_view_of_training_is_heard_and_another_is_not():
    seeing = eye(camera_info="/front_camera/camera_info")
    with pytest.raises(SpecError, match="/front_camera/camera_info: calibration: no message yet"):
        seeing.process(shown())
    calibrate(seeing, 45.0)
    assert seeing.process(shown()).fields
    calibrate(seeing, 70.0)
    with pytest.raises(SpecError, match=r"expected 45.0°, found 70.0°"):
        seeing.process(shown(stamp_s=3.1))
    calibrate(seeing, 46.0)
    assert seeing.process(shown(stamp_s=3.2)).fields


def test_two_swapped_cameras_are_told_apart_by_their_calibration():
    """The panda's front camera has 45° and its wrist camera 70°."""
    seeing = eye(topic="/any", camera_info="/info", camera="wrist")
    calibrate(seeing, 45.0)
    with pytest.raises(SpecError, match=r"expected 70.0°, found 45.0°"):
        seeing.process(shown())


@pytest.mark.parametrize("second", [{"camera": "wrist"}, {"crop": (12, 8, 24, 24)}])
def test_every_item_of_one_topic_has_its_calibration_checked(second: dict[str, Any]):
    """A narrower crop of the same camera shows less than its field of view."""
    front = {"topic": FRONT, "msg_type": MsgType.IMAGE, "crop": SQUARE, "camera_info": "/info"}
    sources = {"rgb": Source(**front), "other": Source(**{**front, **second})}
    specs = {"rgb": SPEC, "other": SPEC}
    seeing = make_preprocessors(specs, sources, ROBOT, CameraGuard.Config())[FRONT]
    assert len(seeing.calibrations) == 2
    calibrate(seeing, 45.0)
    with pytest.raises(SpecError, match="another vertical field of view"):
        seeing.process(shown())


def test_a_crop_narrows_the_field_of_view():
    reading = info(60.0)
    k, size = reading.fields["k"], reading.fields["size"]
    assert math.degrees(field_of_view(k, size, None)) == pytest.approx(60.0)
    half = field_of_view(k, size, (0.25, 0.0, 0.5, 1.0))
    assert math.tan(half / 2) == pytest.approx(math.tan(math.radians(30.0)) / 2)
    with pytest.raises(SpecError, match="the camera has none"):
        field_of_view(np.zeros((3, 3)), size, None)


@pytest.mark.parametrize(
    ("source", "spec", "message"),
    [
        ({"msg_type": MsgType.JOINT_STATES}, SPEC, "are for images"),
        ({}, TensorSpec(shape=(7,)), "the contract's is no image"),
        ({"topic": "/any", "camera_info": "/info"}, SPEC, "no such camera"),
        ({"camera_info": "/info", "camera": "wirst"}, SPEC, "did you mean 'wrist'"),
    ],
)
def test_settings_that_cannot_be_are_refused(source, spec, message):
    with pytest.raises(ConfigError, match=message):
        eye(spec, **source)
