"""A cart that is driven to a mark, with a pole on it and a box before it; and GymEnvs."""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mujoco
import pytest
import torch

from robo_rl.api.task import Reset
from robo_rl.config.component import component
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.env.mujoco.sim_env import SimEnv

SCENE = """
<mujoco><option timestep="0.005"/><worldbody>
  <geom type="plane" size="5 5 .1"/>
  <body name="cart" pos="0 0 .1">
    <joint name="slide" type="slide" axis="1 0 0" damping="1"/>
    <geom name="cart" type="box" size=".1 .1 .08" mass="1"/>
    <body name="pole" pos="0 0 .1"><joint name="hinge" axis="0 1 0"/>
      <geom type="capsule" size=".02" fromto="0 0 0 0 0 .4" mass=".1" contype="0" conaffinity="0"/>
    </body>
  </body>
  <body name="box" pos=".4 0 .1"><freejoint name="free"/>
    <geom name="box" type="box" size=".1 .1 .1" mass=".5"/></body>
</worldbody>
<actuator><position name="servo" joint="slide" kp="50" kv="5"/></actuator>
<sensor><jointpos name="cart_pos" joint="slide"/><jointvel name="cart_vel" joint="slide"/>
  <jointpos name="pole_pos" joint="hinge"/><framepos name="box_pos" objtype="body" objname="box"/>
</sensor></mujoco>
"""
OBS = {"cart": 2, "pole": 1, "box": 3, "mark": 1}


class CartTask:
    """Action: target position, or its change with ``delta``. Ends beyond ``end_m``."""

    def __init__(
        self, *, end_m=9.0, steps=10, open_loop=True, delta=False, spread_m=0.1, dt_s=0.02
    ):
        self.robot: Any = None
        self.end_m, self.delta, self.spread_m, self.open_loop = end_m, delta, spread_m, open_loop
        self.dt_s, self.episode_s = dt_s, dt_s * steps
        items = {name: TensorSpec(shape=(size,)) for name, size in OBS.items()}
        self.obs_spec = ObsSpec(items=items)
        self.act_spec = ActSpec(shape=(1,), unit="m", low=(-1.0,), high=(1.0,), rate_hz=1.0 / dt_s)

    def scene(self):
        return mujoco.MjSpec.from_string(SCENE)

    def reset(self, num, generator):
        draw = 2 * torch.rand(num, 2, generator=generator, dtype=torch.float64) - 1
        qpos = torch.tensor([0, 0.1, 0.4, 0, 0.1, 1, 0, 0, 0], dtype=torch.float64).repeat(num, 1)
        qpos[:, 0] += self.spread_m * draw[:, 0]
        return Reset(qpos, torch.zeros(num, 8), {"mark": draw[:, 1:].float()})

    def control(self, view, act):
        return view.ctrl + 0.1 * act if self.delta else act

    def observe(self, view):
        cart, pole = view.sensor("cart_pos", "cart_vel"), view.sensor("pole_pos")
        return {
            "cart": cart,
            "pole": pole,
            "box": view.sensor("box_pos"),
            "mark": view.goal["mark"],
        }

    def reward(self, view, act):
        near = -(view.sensor("cart_pos") - view.goal["mark"])[:, 0].abs()
        return near - 0.1 * act[:, 0] ** 2, {"near": near}

    def terminated(self, view):
        return view.sensor("cart_pos")[:, 0] > self.end_m

    def success(self, view):
        return (view.sensor("cart_pos") - view.goal["mark"])[:, 0].abs() < 0.1


def _carts():
    """``cart.task(…)`` and ``cart.env(num_envs, randomize=(), **task settings)``."""
    made = []
    plain = {"name": "mujoco_cpu", "threads": 2}

    def env(num_envs, randomize=(), backend=plain, **settings):
        cfg = SimEnv.Config(backend=component("backends").make(backend), randomize=randomize)
        made.append(SimEnv(cfg, CartTask(**settings), num_envs))
        return made[-1]

    yield SimpleNamespace(task=CartTask, env=env, scene=SCENE)
    for sim in made:
        sim.close()


cart = pytest.fixture(_carts, name="cart")
lasting_cart = pytest.fixture(_carts, name="lasting_cart", scope="module")


@pytest.fixture
def make(monkeypatch):
    """Makes GymEnvs and closes them; workers can import the faulty env."""
    from robo_rl.env.gym_envs.env import GymEnv

    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    made = []

    def _make(env_id="Faults-v0", num_envs=4, **fields):
        fields = {"workers": 2, "import_module": "gym_faults", **fields}
        made.append(GymEnv(GymEnv.Config(id=env_id, **fields), num_envs))
        return made[-1]

    yield _make
    for env in made:
        env.close()


@pytest.fixture
def seen(opengl):
    """``seen(num_envs, task settings …)``: a SimEnv with cameras."""
    from small_cameras import CAMERAS, SeenTask

    made = []

    def make(num_envs, *, workers=2, steps=10, end_m=9.0, **settings):
        fields = {"cameras": CAMERAS, "rendering": {"workers": workers}, **settings}
        cfg = SimEnv.Config.model_validate(fields)
        made.append(SimEnv(cfg, SeenTask(steps=steps, end_m=end_m), num_envs))
        return made[-1]

    yield make
    for env in made:
        env.close()
