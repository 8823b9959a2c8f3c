"""Provenance of a run besides its config: package versions and the machine."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from contextlib import suppress
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
    "gymnasium-robotics",
    "diffusers",
    "onnx",
    "onnxruntime",
    "metaworld",
)
CODE = ("robo_rl", "tasks", "robots", "sim2real", "configs")
"""Folders of a checkout that affect results."""
DIRTY = ".dirty"
"""End of the version of a checkout whose code or configs differ from its commit."""
CPU_INFO = Path("/proc/cpuinfo")
VECTOR_FLAGS = {"AVX-512": "avx512f", "AVX2": "avx2"}
"""Vector instructions → flag in ``/proc/cpuinfo``, the widest first."""


def versions() -> dict[str, str]:
    """Return the versions of Python, of relevant packages, and of all plugins in use.

    A plugin is a distribution that provided a component that was loaded by name.

    The version of robo-rl contains the commit where it runs from a checkout:
    ``0.1.0+g1a2b3c4d5e6f``. ``.dirty`` is appended where code or configs differ from the commit.
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
    """Return the checked-out commit in the form of ``versions``; empty without one."""
    if not (root / ".git").exists() or shutil.which("git") is None:
        return ""
    commit = _git(root, "rev-parse", "--short=12", "HEAD")
    return f"{commit}{DIRTY}" if commit and _git(root, "status", "--porcelain", *CODE) else commit


def _git(root: Path, *command: str) -> str:
    """Return the output of git; empty where it fails (foreign owner, no commit yet)."""
    ended = subprocess.run(
        ["git", "-C", str(root), *command], capture_output=True, text=True, check=False
    )
    return ended.stdout.strip() if ended.returncode == 0 else ""


def machine_info() -> dict[str, str | int]:
    """Return processor, number of cores and system."""
    about = ""
    with suppress(OSError):  # of other systems, and of containers that hide it
        about = CPU_INFO.read_text(errors="replace")
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": describe_processor(about, platform.machine()),
        "cores": os.cpu_count() or 1,
        "byteorder": sys.byteorder,
    }


def describe_processor(cpuinfo: str, architecture: str) -> str:
    """Return architecture, model and widest vector instructions: speed and rounding depend on them.

    Args:
        cpuinfo: Text of Linux's ``/proc/cpuinfo``; empty elsewhere.
        architecture: Such as ``x86_64``.
    """
    lines = (line.partition(":") for line in cpuinfo.splitlines())
    fields = {name.strip(): value.strip() for name, _, value in lines}
    flags = fields.get("flags", "").split()
    vectors = [name for name, flag in VECTOR_FLAGS.items() if flag in flags]
    return ", ".join(filter(None, [architecture, fields.get("model name"), *vectors[:1]]))
