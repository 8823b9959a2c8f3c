"""What a run's numbers depend on besides its config: versions and the machine."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata

PACKAGES = (
    "robo-rl",
    "torch",
    "mujoco",
    "numpy",
    "zarr",
    "gymnasium",
    "diffusers",
    "onnx",
    "onnxruntime",
)


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers depend on, where installed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, str | int]:
    """Processor, cores and system."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": platform.machine(),
        "cores": os.cpu_count() or 1,
        "byteorder": sys.byteorder,
    }
