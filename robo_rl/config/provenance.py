"""What a run's numbers depend on besides its config: versions and the machine."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

from robo_rl.config.registry import loaded_distributions

PACKAGES = (
    "robo-rl",
    "torch",
    "mujoco",
    "mujoco-warp",
    "numpy",
    "zarr",
    "gymnasium",
    "diffusers",
    "onnx",
    "onnxruntime",
    "metaworld",
)
CODE = ("robo_rl", "tasks", "robots", "sim2real", "configs")
"""What of a checkout numbers depend on."""


def versions() -> dict[str, str]:
    """Versions of Python, of packages that numbers depend on, and of all plugins in use.

    A plugin is what brought anything that was loaded by its name, of whatever kind.

    That of robo-rl names the commit, where it runs from a checkout: ``0.1.0+g1a2b3c4d5e6f``, with
    ``.dirty`` where code or configs differ from it.
    """
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    found |= {
        name: version for name, version in loaded_distributions().items() if name != "robo-rl"
    }
    if (commit := git_commit(Path(__file__).parents[2])) and "robo-rl" in found:
        found["robo-rl"] += f"+g{commit}"
    return found


@cache
def git_commit(root: Path) -> str:
    """The commit that is checked out there, as ``versions`` has it; empty where there is none."""
    if not (root / ".git").exists() or shutil.which("git") is None:
        return ""
    commit = _git(root, "rev-parse", "--short=12", "HEAD")
    return f"{commit}.dirty" if commit and _git(root, "status", "--porcelain", *CODE) else commit


def _git(root: Path, *command: str) -> str:
    """What git says, nothing where it refuses (a folder of another owner, no commit yet)."""
    ended = subprocess.run(
        ["git", "-C", str(root), *command], capture_output=True, text=True, check=False
    )
    return ended.stdout.strip() if ended.returncode == 0 else ""


def machine_info() -> dict[str, str | int]:
    """Processor, cores and system."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": platform.machine(),
        "cores": os.cpu_count() or 1,
        "byteorder": sys.byteorder,
    }
