"""Pictures made the size that a policy sees: one function for training and for the robot.

Shapes: an image is (H, W, C). Colours are uint8 and averaged; depth is float, in m, and sampled,
for between a finger and the wall behind it there is nothing.

The taps of a filter are added one after the other in float32, so every machine, whatever its
linear algebra, makes the same bytes of the same picture.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core.errors import SpecError

Image = NDArray[Any]
Crop = tuple[float, float, float, float]
"""(top, left, height, width): shares of the image where none is above 1, else pixels."""

_ASPECT_TOLERANCE = 0.02
_CHANNELS = (1, 3)


def crop_and_resize(image: Image, shape: tuple[int, ...], crop: Crop | None = None) -> Image:
    """Crop an image and make it the size of a spec.

    Args:
        image: (H, W, C) uint8, or float.
        shape: Wanted: (h, w, C), or (C, h, w) where only the first axis can be the channels'.
        crop: Part of the image that is used; all of it where None.

    Raises:
        SpecError: Another number of channels, sides of another ratio, or a crop beyond the image.
    """
    first = channels_first(shape)
    height, width, channels = (*shape[1:], shape[0]) if first else shape
    part = crop_image(image, crop)
    if part.shape[2] != channels:
        raise SpecError("channels of an image", expected=channels, found=part.shape[2])
    _demand_aspect(part.shape[:2], (height, width))
    ready = resize(part, height, width)
    return np.ascontiguousarray(ready.transpose(2, 0, 1)) if first else ready


def channels_first(shape: tuple[int, ...]) -> bool:
    """Whether images of a spec are (C, h, w) rather than (h, w, C).

    Raises:
        SpecError: It is no image's shape.
    """
    if len(shape) != 3 or not {shape[0], shape[-1]} & set(_CHANNELS):
        raise SpecError("an image", expected="(h, w, C) or (C, h, w), C 1 or 3", found=shape)
    return shape[-1] not in _CHANNELS


def crop_image(image: Image, crop: Crop | None) -> Image:
    """The part of an image that ``crop`` names.

    Raises:
        SpecError: It lies beyond the image, or is empty.
    """
    if crop is None:
        return image
    top, left, height, width = crop_window(crop, image.shape[0], image.shape[1])
    return image[top : top + height, left : left + width]


def crop_window(crop: Crop, height: int, width: int) -> tuple[int, int, int, int]:
    """A crop in pixels of an image of that height and width: (top, left, height, width).

    Raises:
        SpecError: It lies beyond the image, or is empty.
    """
    sides = (height, width, height, width) if max(crop) <= 1.0 else (1, 1, 1, 1)
    pixels = [round(part * side) for part, side in zip(crop, sides, strict=True)]
    top, left, rows, columns = pixels
    fits = top >= 0 <= left and top + rows <= height and left + columns <= width
    if not fits or rows < 1 or columns < 1:
        expected = f"[top, left, height, width] within {height} x {width}"
        raise SpecError("crop", expected=expected, found=list(crop))
    return top, left, rows, columns


def resize(image: Image, height: int, width: int) -> Image:
    """An image of that many rows and columns, of the same type.

    Where an axis shrinks, a pixel of uint8 is the mean of the area that it covers; where it grows,
    pixels are interpolated linearly between their centres. Floats are those of the nearest pixel.

    Args:
        image: (H, W, C) uint8, or float.
        height: Wanted.
        width: Wanted.

    Raises:
        SpecError: An image without pixels, or of another type.
    """
    if image.ndim != 3 or not image.size or min(height, width) < 1:
        raise SpecError("an image without pixels", found=(*image.shape, "to", height, width))
    if image.shape[:2] == (height, width):
        return np.ascontiguousarray(image)
    if image.dtype.kind == "f":
        rows, columns = _nearest(image.shape[0], height), _nearest(image.shape[1], width)
        return image[rows[:, None], columns]
    if image.dtype != np.uint8:
        raise SpecError("type of an image", expected="uint8 or float", found=str(image.dtype))
    mixed = _along(_along(image, height, 0), width, 1)
    return np.clip(np.floor(mixed + np.float32(0.5)), 0, 255).astype(np.uint8)


def _along(image: Image, size: int, axis: int) -> Image:
    """One axis filtered: every output element is a weighted sum of a few neighbouring ones."""
    if image.shape[axis] == size:
        return image.astype(np.float32, copy=False)
    places, weights = _taps(image.shape[axis], size)
    shape = (size, 1, 1) if axis == 0 else (1, size, 1)
    total = image.take(places[0], axis) * weights[0].reshape(shape)
    part = np.empty_like(total)
    for place, weight in zip(places[1:], weights[1:], strict=True):
        total += np.multiply(image.take(place, axis), weight.reshape(shape), out=part)
    return total


@lru_cache(maxsize=64)
def _taps(size: int, wanted: int) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """(taps, wanted) places and weights of what an axis of ``size`` elements is filtered by."""
    places, weights = (_box if wanted < size else _linear)(size, wanted)
    weights = weights / weights.sum(axis=0)
    return np.clip(places, 0, size - 1).astype(np.intp), weights.astype(np.float32)


def _box(size: int, wanted: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Element i covers [i s, (i + 1) s), s = size / wanted; weights are overlaps with elements."""
    step = size / wanted
    low = np.arange(wanted) * step
    places = np.floor(low).astype(np.intp) + np.arange(math.ceil(step) + 1)[:, None]
    overlap = np.minimum(places + 1, low + step) - np.maximum(places, low)
    return places, np.where(places < size, np.maximum(overlap, 0.0), 0.0)


def _linear(size: int, wanted: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Centres of elements are at (i + 1/2) s - 1/2; beyond the outermost ones these count."""
    centre = np.clip((np.arange(wanted) + 0.5) * size / wanted - 0.5, 0, size - 1)
    below = np.floor(centre).astype(np.intp)
    share = centre - below
    return np.stack([below, below + 1]), np.stack([1.0 - share, share])


def _nearest(size: int, wanted: int) -> NDArray[np.intp]:
    return np.floor((np.arange(wanted) + 0.5) * size / wanted).astype(np.intp)


def _demand_aspect(found: tuple[int, ...], wanted: tuple[int, int]) -> None:
    """Refuse to squeeze.

    Raises:
        SpecError: The ratio of the sides is another; it says which crop would mend it.
    """
    (height, width), (rows, columns) = found, wanted
    if abs(width * rows / (height * columns) - 1.0) <= _ASPECT_TOLERANCE:
        return
    scale = min(height / rows, width / columns)
    inner, outer = int(rows * scale + 1e-9), int(columns * scale + 1e-9)
    middle = [(height - inner) // 2, (width - outer) // 2, inner, outer]
    raise SpecError(
        "sides of an image",
        expected=f"a ratio as {columns} to {rows}",
        found=f"{width} to {height}",
        hint=f"say which part is meant, such as crop: {middle}",
    )
