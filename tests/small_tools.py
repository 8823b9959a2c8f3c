"""Distributions whose entry points are of a made-up kind, ``tools``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from robo_rl.config import registry

Install = Callable[..., None]

MODULE = """\
from robo_rl.config.models import ConfigModel

class Gripper:
    class Config(ConfigModel):
        width: float = 0.08

    def __init__(self, cfg, *args):
        self.cfg, self.args = cfg, args

class Arm:
    class Config(ConfigModel):
        joints: int = 7
        speeds: tuple[float, ...] = (1.0, 2.0)

    def __init__(self, cfg):
        self.cfg = cfg

ROBOT = object()
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Makes distributions whose entry points are of the kind ``tools``."""
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._found.cache_clear()

    def make(distribution: str, module: str = "", **points: str) -> None:
        stem = distribution.replace("-", "_")
        info = tmp_path / f"{stem}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n"
        )
        lines = [f"{name} = {value}" for name, value in points.items()]
        (info / "entry_points.txt").write_text("[robo_rl.tools]\n" + "\n".join(lines))
        name = f"{stem}_plugin"
        (tmp_path / f"{name}.py").write_text(module or MODULE)
        monkeypatch.delitem(sys.modules, name, raising=False)

    return make


@pytest.fixture
def tools(install: Install):
    install("acme", gripper="acme_plugin:Gripper", arm="acme_plugin:Arm", robot="acme_plugin:ROBOT")
    yield
    registry._found.cache_clear()
