"""Pictures made smaller and larger: against arithmetic by hand, and what must hold for all."""

from __future__ import annotations

import numpy as np
import pytest

from robo_rl.core.errors import SpecError
from robo_rl.core.images import channels_first, crop_and_resize, crop_window, resize

SIZES = [(480, 640), (128, 128), (97, 31), (3, 5)]


def picture(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (height, width, channels), np.uint8)


def column(*values: int) -> np.ndarray:
    return np.array(values, np.uint8)[:, None, None]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("wanted", SIZES)
def test_a_plain_picture_stays_plain(size, wanted):
    for value in (0, 1, 128, 255):
        plain = np.full((*size, 3), value, np.uint8)
        found = resize(plain, *wanted)
        assert found.shape == (*wanted, 3)
        assert (found == value).all()


def test_shrinking_averages_exactly_what_a_pixel_covers():
    assert resize(column(10, 20, 30, 40), 2, 1).ravel().tolist() == [15, 35]
    # 3 to 2: (2/3 of 30 + 1/3 of 60) and (1/3 of 60 + 2/3 of 90).
    assert resize(column(30, 60, 90), 2, 1).ravel().tolist() == [40, 80]
    assert resize(column(1, 2), 1, 1).ravel().tolist() == [2]  # halves are rounded up


def test_shrinking_is_the_integral_over_an_area():
    """Repeat every pixel as often as the new one has parts: then a mean of blocks is exact."""
    image = picture(7, 9)
    fine = image.repeat(4, axis=0).repeat(5, axis=1).astype(np.float64)
    means = fine.reshape(4, 7, 5, 9, 3).mean(axis=(1, 3))
    found = resize(image, 4, 5)
    assert np.abs(found - means).max() <= 0.5 + 1e-3


def test_growing_interpolates_between_centres():
    found = resize(column(0, 100), 4, 1).ravel().tolist()
    assert found == [0, 25, 75, 100]


@pytest.mark.parametrize("wanted", SIZES)
def test_a_picture_turned_over_is_turned_over_after_it_too(wanted):
    image = picture(48, 64)
    found = resize(image[::-1, ::-1], *wanted).astype(int)
    assert np.abs(found - resize(image, *wanted)[::-1, ::-1]).max() <= 1


def test_the_same_picture_gives_the_same_bytes_however_it_lies_in_memory():
    image = picture(120, 160)
    apart = np.asfortranarray(image)
    assert resize(image, 32, 32).tobytes() == resize(apart, 32, 32).tobytes()


def test_depth_is_sampled_not_averaged():
    depth = np.where(np.arange(64) < 32, 0.5, 3.0).astype(np.float32)
    found = resize(np.tile(depth, (64, 1))[..., None], 10, 10)
    assert set(found.ravel().tolist()) == {0.5, 3.0}
    assert found.dtype == np.float32


def test_the_channels_axis_is_where_the_spec_has_it():
    image = picture(20, 30)
    last = crop_and_resize(image, (10, 15, 3))
    np.testing.assert_array_equal(crop_and_resize(image, (3, 10, 15)), last.transpose(2, 0, 1))
    assert not channels_first((3, 8, 3))
    with pytest.raises(SpecError, match=r"\(h, w, C\) or \(C, h, w\)"):
        channels_first((8, 8, 4))


def test_a_crop_is_a_share_or_pixels_and_lies_within():
    assert crop_window((0.0, 0.125, 1.0, 0.75), 480, 640) == (0, 80, 480, 480)
    assert crop_window((0, 80, 480, 480), 480, 640) == (0, 80, 480, 480)
    image = picture(480, 640)
    np.testing.assert_array_equal(
        crop_and_resize(image, (96, 96, 3), (0.0, 0.125, 1.0, 0.75)),
        resize(image[:, 80:560], 96, 96),
    )
    for crop in ((0, 200, 480, 480), (-1, 0, 10, 10), (0, 0, 0, 10), (0.0, 0.5, 1.0, 0.75)):
        with pytest.raises(SpecError, match=r"within 480 x 640"):
            crop_window(crop, 480, 640)


def test_a_picture_is_not_squeezed_and_the_error_says_which_crop_would_do():
    image = picture(480, 640)
    with pytest.raises(SpecError, match=r"crop: \[0, 80, 480, 480\]"):
        crop_and_resize(image, (96, 96, 3))
    assert crop_and_resize(image, (96, 96, 3), (0, 80, 480, 480)).shape == (96, 96, 3)
    assert crop_and_resize(image, (135, 180, 3)).shape == (135, 180, 3)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros((0, 4, 3), np.uint8), "without pixels"),
        (np.zeros((4, 4), np.uint8), "without pixels"),
        (np.zeros((4, 4, 3), np.int32), "uint8 or float"),
    ],
)
def test_what_is_no_picture_is_refused(image, message):
    with pytest.raises(SpecError, match=message):
        resize(image, 2, 2)


def test_another_number_of_channels_is_refused():
    with pytest.raises(SpecError, match="expected 3, found 1"):
        crop_and_resize(picture(8, 8, 1), (4, 4, 3))
