"""Cost of an image on its way from a camera to the policy: decoding, checks, resizing.

The images resemble photographs (smooth shapes and sensor noise), from two cameras, raw and as JPEG
and PNG. ``resize`` is ``robo_rl.core.images.resize`` of the largest square in it, or all of it;
``decode`` is OpenCV's time for decoding; ``ready`` is the whole work of the image thread.
``OpenCV`` is its own resize by area, as a reference. Times are milliseconds of this thread's CPU
time, the median and the minimum of the repeats, so that a busy machine matters less.

    python benchmarks/camera_pictures.py [--json FILE] [--repeats 100]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

from robo_rl.core.images import Image, resize
from robo_rl.core.spec import TensorSpec
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.perception.camera_guard import CameraGuard
from robo_rl_sim2real.perception.cameras import CameraPreprocessor, ImageItem
from robo_rl_sim2real.perception.jpeg_png import decode

ROWS = {"640x480 to 128": (480, 640, 128), "1280x720 to 224": (720, 1280, 224)}


def main() -> None:
    args = _arguments()
    cv2.setNumThreads(1)
    results = {name: measured(*row, args.repeats) for name, row in ROWS.items()}
    print("ms of CPU: median (smallest)")
    columns = list(next(iter(results.values())))
    print(f"{'':18}" + "".join(f"{column:>18}" for column in columns))
    for name, row in results.items():
        print(f"{name:18}" + "".join(f"{p50:10.2f} ({low:5.2f})" for p50, low in row.values()))
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


def measured(height: int, width: int, size: int, repeats: int) -> dict[str, tuple[float, float]]:
    """Return operation → median and minimum time in ms."""
    image, side = photograph(height, width), min(height, width)
    left = (width - side) // 2
    view = ImageItem("rgb", TensorSpec(shape=(size, size, 3), dtype="uint8"), (0, left, side, side))
    jpeg, png = (cv2.imencode(kind, image[..., ::-1])[1].ravel() for kind in (".jpg", ".png"))
    raw = Reading({"image": image}, (), 0.0)
    packed = Reading({"data": jpeg, "format": np.asarray("jpeg")}, (), 0.0)
    does: dict[str, Callable[[], object]] = {
        "resize": lambda: resize(image, size, size),
        "resize square": lambda: resize(image[:, left : left + side], size, size),
        "OpenCV": lambda: cv2.resize(image, (size, size), interpolation=cv2.INTER_AREA),
        "decode JPEG": lambda: decode(jpeg, "jpeg"),
        "decode PNG": lambda: decode(png, "png"),
        "ready raw": lambda: _eye(view).process(raw),
        "ready JPEG": lambda: _eye(view).process(packed),
    }
    return {what: timed(do, repeats) for what, do in does.items()}


def timed(do: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Return median and minimum time of this thread in ms; the first run is left out."""
    do()
    spent = list[float]()
    for _ in range(repeats):
        began_s = time.thread_time()
        do()
        spent.append(1e3 * (time.thread_time() - began_s))
    return statistics.median(spent), min(spent)


def photograph(height: int, width: int) -> Image:
    """Return an image (height, width, 3) uint8: waves of a few sizes, and noise."""
    y, x = np.mgrid[:height, :width] / 100.0
    waves = [np.sin(x + k) * np.cos(1.7 * y - k) + 0.3 * np.sin(7.0 * x * y) for k in range(3)]
    noise = np.random.default_rng(0).normal(0.0, 4.0, (height, width, 3))
    return np.clip(128.0 + 80.0 * np.stack(waves, -1) + noise, 0, 255).astype(np.uint8)


def _eye(view: ImageItem) -> CameraPreprocessor:
    """Return a new preprocessor, since repeated equal images would count as a frozen camera."""
    return CameraPreprocessor("/camera", (view,), CameraGuard(CameraGuard.Config()))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--repeats", type=int, default=100)
    return parser.parse_args()


if __name__ == "__main__":
    main()
