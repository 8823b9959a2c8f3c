"""An outside author's package: a SCARA arm that carries a peg, and a task with a wall in its way.

``plugin`` writes packages with entry points, as pip would install them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from robo_rl.config import registry

ROBOT = """\
name: scara
mjcf: scara.xml
source: made up
joints:
  - {name: shoulder, low: -2, high: 2, max_velocity: 3, max_torque: 2, home: 0}
  - {name: elbow, low: -2, high: 2, max_velocity: 3, max_torque: 100, home: 0}
  - {name: quill, unit: m, low: -0.1, high: 0, max_velocity: 1, max_torque: 100, home: 0}
control: {kp: [50, 500, 2000], kd: [10, 50, 100]}
frames: {base: column, ee_site: tip}
rates: {control_hz: 20, physics_hz: 200}
topics: {command: /command, trajectory: /trajectory}
"""
# The author's shapes do not collide unless they say so: the default class of the whole file.
MJCF = """\
<mujoco model="scara"><compiler angle="radian"/><option integrator="implicitfast"/>
<default>
  <geom contype="0" conaffinity="0" type="capsule" size=".03"/><joint armature=".1"/>
</default>
<worldbody><body name="column"><geom fromto="0 0 0 0 0 .3"/>
  <body name="upper" pos="0 0 .3"><joint name="shoulder" axis="0 0 1" range="-2 2"/>
    <geom fromto="0 0 0 .25 0 0" mass="1"/>
    <body name="lower" pos=".25 0 0"><joint name="elbow" axis="0 0 1" range="-2 2"/>
      <geom fromto="0 0 0 .25 0 0" mass="1"/>
      <body name="rod" pos=".25 0 0"><joint name="quill" type="slide" axis="0 0 1" range="-.1 0"/>
        <geom name="peg" fromto="0 0 0 0 0 -.15" size=".01" mass=".2" contype="2" conaffinity="1"/>
        <site name="tip" pos="0 0 -.15"/>
</body></body></body></body></worldbody></mujoco>
"""
TASK = """\
from pathlib import Path

import mujoco
import torch

from robo_rl import ActSpec, ObsSpec, Reset, Robot, TensorSpec
from robo_rl_tasks.scene import tabletop

SCARA = Robot.from_dir(Path(__file__).parent)


class Sweep:
    '''Sweep the peg to 1 rad; a wall stands in its way, where the goal says.'''

    def __init__(self):
        self.robot, self.open_loop, self.dt_s, self.episode_s = SCARA, True, 0.05, 2.0
        self.obs_spec = ObsSpec(items={"angle": TensorSpec(shape=(1,), unit="rad")})
        low, high = (tuple(map(float, each)) for each in (SCARA.ctrl_low, SCARA.ctrl_high))
        names = SCARA.actuator_names
        self.act_spec = ActSpec(shape=(3,), names=names, low=low, high=high, rate_hz=20)

    def scene(self):
        spec = tabletop(self.robot)
        wall = spec.worldbody.add_body(name="wall", mocap=True, pos=[-1, 0, 0.2])
        wall.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.05, 0.02, 0.2])
        return spec

    def reset(self, num, generator):
        angle = 0.4 + 0.3 * torch.rand(num, generator=generator)
        half = torch.zeros(num)
        place = torch.stack([0.5 * angle.cos(), 0.5 * angle.sin(), half + 0.2], 1)
        turn = torch.stack([(angle / 2).cos(), half, half, (angle / 2).sin()], 1)
        pose = torch.cat([place, turn], 1)
        return Reset(torch.zeros(num, 3), torch.zeros(num, 3), {"wall": pose})

    def control(self, view, act):
        return act

    def observe(self, view):
        return {"angle": view.sensor("shoulder_pos")}

    def reward(self, view, act):
        gap = (1.0 - view.sensor("shoulder_pos")[:, 0]).abs()
        return -gap, {"gap": gap}

    def terminated(self, view):
        return self.success(view)

    def success(self, view):
        return view.sensor("shoulder_pos")[:, 0] > 0.98
"""
FILES = {"robot.yaml": ROBOT, "scara.xml": MJCF, "__init__.py": TASK}
POINTS = {"robots": {"scara": "SCARA"}, "tasks": {"sweep": "Sweep"}}


def sweep(*changes: tuple[str, str]) -> dict[str, str]:
    """The files with parts of the task's source replaced."""
    text = TASK
    for before, after in changes:
        assert before in text, before
        text = text.replace(before, after)
    return {**FILES, "__init__.py": text}


class Plugins(NamedTuple):
    """Makes packages that are installed in a folder.

    Args:
        folder: Which; it is on the path.
        monkeypatch: Forgets what was imported of them.
    """

    folder: Path
    monkeypatch: pytest.MonkeyPatch

    def install(
        self,
        distribution: str = "acme-tasks",
        files: Mapping[str, str] = FILES,
        points: Mapping[str, Mapping[str, str]] = POINTS,
    ) -> str:
        """A package of that distribution; returns its module."""
        module = distribution.replace("-", "_")
        package, info = self.folder / module, self.folder / f"{module}-1.0.dist-info"
        for each in (package, info):
            each.mkdir()
        for name, text in files.items():
            (package / name).write_text(text)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n"
        )
        lines = [
            line
            for kind, named in points.items()
            for line in (f"[robo_rl.{kind}]", *(f"{k} = {module}:{v}" for k, v in named.items()))
        ]
        (info / "entry_points.txt").write_text("\n".join(lines))
        self.monkeypatch.delitem(sys.modules, module, raising=False)
        registry._found.cache_clear()
        return module


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plugins]:
    """Where packages are installed for one test."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    registry._found.cache_clear()
    made = Plugins(folder, monkeypatch)
    before = set(sys.modules)
    yield made
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(str(folder)):
            del sys.modules[name]
    registry._found.cache_clear()
