"""A third party's robot, env, policy, and task whose scene has a mesh, in a folder.

Everything of it can be changed, and is then imported anew.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from pathlib import Path

import robo_rl_robots
from robo_rl.config import fingerprint, registry
from robo_rl.train.pipeline import world_digest

TASK = """\
from pathlib import Path

import mujoco
import torch
from robo_rl_tasks.reach import Reach

MESH = Path(__file__).parents[1] / "assets" / "post.obj"


class Touch(Reach):
    def scene(self):
        spec = super().scene()
        spec.add_mesh(name="post", file=str(MESH))
        spec.worldbody.add_geom(
            type=mujoco.mjtGeom.mjGEOM_MESH, meshname="post", pos=[2.0, 0.0, 1.0]
        )
        return spec

    def reward(self, view, act):
        rew, parts = super().reward(view, act)
        return 1.0 * rew, parts
"""
ROBOT = """\
from pathlib import Path

from robo_rl import Robot

ARM = Robot.from_dir(Path(__file__).parent / "arm")
"""
POLICY = """\
from robo_rl.policy.families.flow import FlowPolicy


class AcmePolicy(FlowPolicy):
    pass
"""
ENV = """\
from robo_rl import ConfigModel


class Bare:
    class Config(ConfigModel):
        level: int = 1

    def __init__(self, cfg, num_envs):
        raise NotImplementedError("nothing is built to know what it is")

    reset = step = close = __init__
"""
POST = """\
v 0 0 0
v 0.1 0 0
v 0 0.1 0
v 0 0 0.3
f 1 3 2
f 1 2 4
f 1 4 3
f 2 3 4
"""
DISTRIBUTIONS = {
    "acme-tasks": "[robo_rl.tasks]\ntouch = acme_tasks.touch:Touch\n",
    "acme-robots": "[robo_rl.robots]\nacme_arm = acme_robots:ARM\n",
    "acme-envs": "[robo_rl.envs]\nbare = acme_envs:Bare\n",
    "acme-policies": "[robo_rl.policies]\nacme = acme_policies:AcmePolicy\n",
}


class Plugin:
    """The plugin in a folder, which must be on the path.

    Args:
        root: The folder; made where it is missing.
    """

    def __init__(self, root: Path) -> None:
        self.root, self._times = root, 0
        self.write("acme_tasks/__init__.py", "")
        self.write("acme_tasks/touch.py", TASK)
        self.write("acme_robots/__init__.py", ROBOT)
        self.write("acme_policies.py", POLICY)
        self.write("acme_envs.py", ENV)
        self.write("assets/post.obj", POST)
        panda = Path(robo_rl_robots.__file__).parent / "panda"
        shutil.copytree(panda, root / "acme_robots" / "arm")
        for name in DISTRIBUTIONS:
            self.release(name, "1.0")

    def write(self, name: str, text: str) -> None:
        """A file of it, made or replaced."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self._times += 1  # MuJoCo keeps assets that are as old as before
        os.utime(path, (self._times, self._times))
        self.renew()

    def change(self, name: str, old: str, new: str) -> None:
        """Replace a text in a file."""
        text = (self.root / name).read_text()
        assert old in text
        self.write(name, text.replace(old, new))

    def release(self, name: str, version: str) -> None:
        """Install a version of one of its distributions."""
        for info in self.root.glob(f"{name.replace('-', '_')}-*.dist-info"):
            shutil.rmtree(info)
        info = f"{name.replace('-', '_')}-{version}.dist-info"
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        self.write(f"{info}/METADATA", text)
        self.write(f"{info}/entry_points.txt", DISTRIBUTIONS[name])

    def renew(self) -> None:
        """Forget all that was read of it."""
        importlib.invalidate_caches()
        for name in [name for name in sys.modules if name.startswith("acme_")]:
            del sys.modules[name]
        registry._found.cache_clear()
        fingerprint._tree_digest.cache_clear()
        world_digest._KNOWN.clear()
