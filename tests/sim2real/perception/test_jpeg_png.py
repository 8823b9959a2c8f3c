"""Compressed pictures: real ones, and all that pretends to be one."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from robo_rl.core.errors import SpecError
from robo_rl_sim2real.perception.jpeg_png import MAX_PIXELS, decode, read_header

cv2 = pytest.importorskip("cv2", reason="pip install 'robo-rl[images]'")

PLAIN = np.zeros((48, 64, 3), np.uint8) + np.array([200, 100, 20], np.uint8)
NOISE = np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)


def packed(image: np.ndarray, kind: str = ".png") -> np.ndarray:
    """RGB in, as a driver that holds BGR would compress it."""
    done, data = cv2.imencode(kind, image[..., ::-1] if image.shape[-1] == 3 else image)
    assert done
    return data


def png(width: int, height: int) -> bytes:
    """A PNG that is all header."""
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))


def jpeg(width: int, height: int) -> bytes:
    """A JPEG that is all header: a comment, a frame, the end."""
    frame = b"\xff\xc0" + struct.pack(">HBHHB", 17, 8, height, width, 3) + bytes(9)
    return b"\xff\xd8\xff\xfe\0\5abc" + frame + b"\xff\xd9"


def test_a_png_comes_out_as_it_was():
    np.testing.assert_array_equal(decode(packed(NOISE), "bgr8; png compressed bgr8"), NOISE)
    grey = NOISE[..., :1]
    np.testing.assert_array_equal(decode(packed(grey), "mono8; png compressed "), grey)


def test_a_jpeg_is_red_green_blue():
    found = decode(packed(PLAIN, ".jpg"), "jpeg").astype(int)
    assert found.shape == PLAIN.shape
    assert np.abs(found - PLAIN).max() < 6


def test_who_compressed_rgb_as_if_it_were_bgr_says_so():
    data = packed(PLAIN[..., ::-1], ".jpg")
    found = decode(data, "rgb8; jpeg compressed rgb8").astype(int)
    assert np.abs(found - PLAIN).max() < 6


def test_depth_is_in_metres():
    depth = np.arange(48 * 64, dtype=np.uint16).reshape(48, 64)
    found = decode(packed(depth[..., None]), "16UC1; png compressed ")
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[..., 0], 1e-3 * depth, rtol=1e-6)


def test_headers_are_read_without_decoding():
    assert read_header(png(640, 480))[:2] == (480, 640)
    assert read_header(jpeg(640, 480))[:2] == (480, 640)
    assert read_header(packed(NOISE[..., :1], ".jpg").tobytes()).grey


@pytest.mark.parametrize("make", [png, jpeg])
@pytest.mark.parametrize("size", [(60000, 60000), (0, 480), (480, 0), (4097, 4096)])
def test_bombs_and_nothing_are_refused_by_their_header(make, size, monkeypatch):
    monkeypatch.setattr(cv2, "imdecode", lambda *_: pytest.fail("it was decoded"))
    with pytest.raises(SpecError, match=f"expected 1 to {MAX_PIXELS} px"):
        decode(np.frombuffer(make(*size), np.uint8), "")


@pytest.mark.parametrize("kind", [".png", ".jpg"])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.5, 0.999])
def test_what_was_cut_is_an_error(kind, share):
    data = packed(NOISE, kind)
    with pytest.raises(SpecError):
        decode(data[: int(share * len(data))], "")


def test_a_png_in_which_a_bit_fell_over_is_an_error():
    data, rng = packed(NOISE), np.random.default_rng(1)
    for at in rng.integers(60, len(data) - 20, 50):
        broken = data.copy()
        broken[at] ^= 1 << rng.integers(8)
        with pytest.raises(SpecError):
            decode(broken, "png")


def test_bytes_of_any_kind_are_an_error_or_a_picture():
    """Nothing but our own error comes out, whatever goes in."""
    rng, refused = np.random.default_rng(2), 0
    for number in range(100):
        data = packed(NOISE[:8, :8], (".png", ".jpg")[number % 2]).copy()
        places = rng.integers(0, len(data), rng.integers(1, 20))
        data[places] = rng.integers(0, 256, len(places))
        try:
            assert decode(data, "jpeg").dtype in (np.uint8, np.float32)
        except SpecError:
            refused += 1
    assert refused > 30


def test_what_is_no_picture_says_how_it_begins():
    with pytest.raises(SpecError, match="expected JPEG or PNG, found 4 bytes that begin with 47"):
        decode(np.frombuffer(b"GIF8", np.uint8), "gif")
    with pytest.raises(SpecError, match="raw depth image instead"):
        decode(np.zeros(40, np.uint8), "16UC1; compressedDepth png")
