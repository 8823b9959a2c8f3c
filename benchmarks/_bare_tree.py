"""Runs from a source tree: imports its packages and finds its entry points without installation.

It serves machines without package installation, which have this tree and a few copied wheels. Names
in configs are resolved by entry points, which belong to a distribution. This module therefore puts
a temporary distribution on the path, with the metadata of ``pyproject.toml``.
"""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parents[1]
SOURCES = (".", "tasks", "robots", "sim2real")
PACKAGES = ("torch", "mujoco", "mujoco-warp", "warp-lang", "mujoco-mjx", "jax", "numpy")


def use_source_tree() -> None:
    """Make this tree importable and its entry points known, unless it is installed."""
    try:
        importlib.metadata.distribution("robo-rl")
    except importlib.metadata.PackageNotFoundError:
        sys.path[:0] = [str(ROOT / source) for source in SOURCES] + [str(_distribution())]


def versions() -> dict[str, str]:
    """Return the versions of packages, machine, GPU and driver, and the commit of the tree."""
    import torch

    found = {"python": platform.python_version(), "commit": _commit()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    found["cuda"] = str(torch.version.cuda)
    found["device"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    return found | _driver()


def _distribution() -> Path:
    """Return a folder with the metadata of a distribution that is not built."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    folder = Path(tempfile.mkdtemp(prefix="robo-rl-tree-"))
    info = folder / f"robo_rl-{project['version']}.dist-info"
    info.mkdir()
    head = f"Metadata-Version: 2.1\nName: robo-rl\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(head)
    groups = (
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in project["entry-points"].items()
    )
    (info / "entry_points.txt").write_text("\n".join(groups))
    return folder


def _commit() -> str:
    return _said("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD") or "unknown"


def _driver() -> dict[str, str]:
    said = _said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return {"driver": said.splitlines()[0]} if said else {}


def _said(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""
