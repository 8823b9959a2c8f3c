"""Cameras that show nothing worth acting on are found within a second."""

from __future__ import annotations

import numpy as np
import pytest

from robo_rl.core.errors import SpecError
from robo_rl_sim2real.perception.camera_guard import CameraGuard

RNG = np.random.default_rng(0)
SCENE = RNG.integers(0, 256, (48, 64, 3), np.uint8)


def guard(**cfg: float) -> CameraGuard:
    return CameraGuard(CameraGuard.Config.model_validate(cfg))


def noisy(level: int) -> np.ndarray:
    """A scene of that brightness, with a sensor's noise."""
    return np.clip(level + RNG.normal(0.0, 3.0, SCENE.shape), 0, 255).astype(np.uint8)


def frozen_after(guard: CameraGuard, period_s: float) -> float:
    for number in range(1000):
        try:
            guard.check_not_frozen("/front", SCENE, 7.0 + number * period_s)
        except SpecError:
            return number * period_s
    return np.inf


@pytest.mark.parametrize("rate_hz", [5.0, 15.0, 30.0, 60.0])
def test_a_frozen_camera_is_found_within_a_second(rate_hz):
    assert 0.5 < frozen_after(guard(), 1.0 / rate_hz) < 1.0


@pytest.mark.parametrize("buffers", [2, 3])
def test_a_driver_that_repeats_its_buffers_is_frozen(buffers):
    eye, images = guard(), [noisy(100) for _ in range(buffers)]
    for number in range(15):
        eye.check_not_frozen("/front", images[number % buffers], number / 30.0)
    with pytest.raises(SpecError, match="the camera is frozen"):
        eye.check_not_frozen("/front", images[0], 0.6)


def test_a_camera_without_noise_may_be_told_to_be_one():
    assert frozen_after(guard(frozen_timeout_s=0.0), 0.1) == np.inf


def test_a_frozen_camera_that_goes_on_is_alive_again():
    eye = guard()
    for stamp_s in (0.0, 0.3, 0.45):
        eye.check_not_frozen("/front", SCENE, stamp_s)
    with pytest.raises(SpecError, match=r"the same for 0\.60 s"):
        eye.check_not_frozen("/front", SCENE, 0.6)
    eye.check_not_frozen("/front", noisy(100), 0.7)
    eye.check_not_frozen("/front", SCENE, 0.8)


def test_one_pixel_that_changes_is_another_picture():
    eye = guard()
    for number in range(50):
        changed = SCENE.copy()
        changed[0, 0, 0] = number
        eye.check_not_frozen("/front", changed, 0.1 * number)


@pytest.mark.parametrize(
    ("image", "what"),
    [
        (noisy(5), "black"),
        (np.zeros_like(SCENE), "black"),
        (noisy(270), "saturated"),
        (np.zeros((48, 64, 1), np.float32), "without depth"),
    ],
)
def test_a_picture_that_shows_nothing_is_refused(image, what):
    with pytest.raises(SpecError, match=f"the picture is {what}"):
        guard().check_exposure(image)


@pytest.mark.parametrize("level", [40, 128, 220])
def test_dim_and_bright_scenes_pass(level):
    guard().check_exposure(noisy(level))


def test_depth_with_holes_passes():
    depth = np.full((48, 64, 1), 0.7, np.float32)
    depth[:30] = 0.0
    guard().check_exposure(depth)


def test_one_camera_on_two_topics_is_found_and_two_are_not():
    both = guard()
    both.check_not_frozen("/front", SCENE, 1.0)
    both.check_not_duplicate("/front")
    both.check_not_frozen("/wrist", noisy(90), 1.01)
    both.check_not_duplicate("/wrist")
    both.check_not_frozen("/wrist", SCENE, 1.02)
    with pytest.raises(SpecError, match="the same picture as on '/front'"):
        both.check_not_duplicate("/wrist")


def test_of_one_camera_on_two_topics_not_every_picture_needs_its_double():
    """Half of either's pictures are looked at, in turn: some are double, none passes for long."""
    both, passed = guard(), list[float]()
    for number in range(60):
        now_s, image = 1.0 + number / 30.0, noisy(90)
        topics = {0: ("/front",), 1: ("/wrist",), 2: ("/front", "/wrist")}[number % 3]
        for topic in topics:
            both.check_not_frozen(topic, image, now_s)
            try:
                both.check_not_duplicate(topic)
            except SpecError:
                continue
            passed += [now_s] * (topic == "/wrist")
    assert passed == [pytest.approx(1.0 + 1 / 30.0)]  # before the first double


def test_a_topic_is_its_own_again_a_second_after_its_last_double():
    both = guard()
    both.check_not_frozen("/front", SCENE, 1.0)
    both.check_not_frozen("/wrist", SCENE, 1.0)
    for at_s, fine in ((1.0, False), (1.9, False), (2.1, True)):
        both.check_not_frozen("/wrist", SCENE if at_s == 1.0 else noisy(90), at_s)
        if fine:
            both.check_not_duplicate("/wrist")
        else:
            with pytest.raises(SpecError, match="the same picture"):
                both.check_not_duplicate("/wrist")
