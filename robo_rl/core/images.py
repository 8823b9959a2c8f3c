"""Cropping and resizing of images, with one function for training and deployment.

Shapes: an image is (H, W, C). Colours are uint8 and averaged. Depth is float, in m, and sampled,
because an average of two depths can lie on no surface.

Filter taps are added sequentially in float32, so that every machine produces the same bytes,
independent of its linear algebra library.
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
"""(top, left, height, width): fractions of the image where none is above 1, else pixels."""

_ASPECT_TOLERANCE = 0.02
_CHANNELS = (1, 3)


def crop_and_resize(
    image: Image, shape: tuple[int, ...], crop: Crop | None = None, where: object = None
) -> Image:
    """Crop an image and resize it to the shape of a spec.

    Args:
        image: (H, W, C) uint8, or float.
        shape: (h, w, C), or (C, h, w) where only the first axis can be the channel axis.
        crop: Part of the image that is used; the whole image where None.
        where: Camera or setting of the image, for the error.

    Raises:
        SpecError: The number of channels or the aspect ratio differs, or the crop lies outside
            the image.
    """
    first = channels_first(shape)
    height, width, channels = (*shape[1:], shape[0]) if first else shape
    part = crop_image(image, crop, where)
    if part.shape[2] != channels:
        problem = "channels of an image"
        raise SpecError(problem, where=where, expected=channels, found=part.shape[2])
    _demand_aspect(part.shape[:2], (height, width), where)
    ready = resize(part, height, width)
    return np.ascontiguousarray(ready.transpose(2, 0, 1)) if first else ready


def channels_first(shape: tuple[int, ...]) -> bool:
    """Return whether images of a spec are (C, h, w) rather than (h, w, C).

    Raises:
        SpecError: It is not the shape of an image.
    """
    if len(shape) != 3 or not {shape[0], shape[-1]} & set(_CHANNELS):
        raise SpecError("an image", expected="(h, w, C) or (C, h, w), C 1 or 3", found=shape)
    return shape[-1] not in _CHANNELS


def crop_image(image: Image, crop: Crop | None, where: object = None) -> Image:
    """Return the part of an image that ``crop`` selects.

    Raises:
        SpecError: The crop lies outside the image, or is empty.
    """
    if crop is None:
        return image
    top, left, height, width = crop_window(crop, image.shape[0], image.shape[1], where)
    return image[top : top + height, left : left + width]


def crop_window(
    crop: Crop, height: int, width: int, where: object = None
) -> tuple[int, int, int, int]:
    """Return a crop in pixels of an image of that size: (top, left, height, width).

    Raises:
        SpecError: The crop lies outside the image, or is empty.
    """
    sides = (height, width, height, width) if max(crop) <= 1.0 else (1, 1, 1, 1)
    pixels = [round(part * side) for part, side in zip(crop, sides, strict=True)]
    top, left, rows, columns = pixels
    fits = top >= 0 <= left and top + rows <= height and left + columns <= width
    if not fits or rows < 1 or columns < 1:
        expected = f"[top, left, height, width] within {height} x {width}"
        raise SpecError("crop", where=where, expected=expected, found=list(crop))
    return top, left, rows, columns


def resize(image: Image, height: int, width: int) -> Image:
    """Resize an image; the type stays the same.

    Where an axis shrinks, a uint8 pixel is the mean of the area that it covers. Where an axis
    grows, pixels are interpolated linearly between their centres. Floats take the value of the
    nearest pixel.

    Args:
        image: (H, W, C) uint8, or float.
        height: New number of rows.
        width: New number of columns.

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
    """Filter one axis: every output element is a weighted sum of a few neighbours."""
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
    """Return the source indices and weights of the filter for an axis, (taps, wanted) each."""
    places, weights = (_box if wanted < size else _linear)(size, wanted)
    weights = weights / weights.sum(axis=0)
    return np.clip(places, 0, size - 1).astype(np.intp), weights.astype(np.float32)


def _box(size: int, wanted: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Box filter: element i covers [i s, (i + 1) s), s = size / wanted; weights are overlaps."""
    step = size / wanted
    low = np.arange(wanted) * step
    places = np.floor(low).astype(np.intp) + np.arange(math.ceil(step) + 1)[:, None]
    overlap = np.minimum(places + 1, low + step) - np.maximum(places, low)
    return places, np.where(places < size, np.maximum(overlap, 0.0), 0.0)


def _linear(size: int, wanted: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Linear filter between element centres (i + 1/2) s - 1/2; border values extend outwards."""
    centre = np.clip((np.arange(wanted) + 0.5) * size / wanted - 0.5, 0, size - 1)
    below = np.floor(centre).astype(np.intp)
    share = centre - below
    return np.stack([below, below + 1]), np.stack([1.0 - share, share])


def _nearest(size: int, wanted: int) -> NDArray[np.intp]:
    return np.floor((np.arange(wanted) + 0.5) * size / wanted).astype(np.intp)


def _demand_aspect(found: tuple[int, ...], wanted: tuple[int, int], where: object) -> None:
    """Check that the aspect ratio stays the same.

    Raises:
        SpecError: The aspect ratio differs; the hint gives a crop that fixes it.
    """
    (height, width), (rows, columns) = found, wanted
    if abs(width * rows / (height * columns) - 1.0) <= _ASPECT_TOLERANCE:
        return
    scale = min(height / rows, width / columns)
    inner, outer = int(rows * scale + 1e-9), int(columns * scale + 1e-9)
    middle = [(height - inner) // 2, (width - outer) // 2, inner, outer]
    raise SpecError(
        "sides of an image",
        where=where,
        expected=f"a ratio as {columns} to {rows}",
        found=f"{width} to {height}",
        hint=f"say which part is meant, such as crop: {middle}",
    )
