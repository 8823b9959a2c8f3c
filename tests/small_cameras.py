"""The cart of ``env/conftest.py`` before a camera, under a light, with its goal to be seen."""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import mujoco
import torch

from robo_rl.api.env import Step
from robo_rl.api.task import Reset
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec

SCENE = """
<mujoco><option timestep="0.005"/>
<visual><headlight ambient=".3 .3 .3" diffuse=".2 .2 .2" specular="0 0 0"/></visual>
<worldbody>
  <light name="lamp" pos="0 -1 2" dir="0 .4 -1" diffuse=".6 .6 .6"/>
  <camera name="front" pos="0 -1.6 .6" xyaxes="1 0 0 0 .3 1" fovy="50"/>
  <camera name="above" pos="0 0 2" fovy="50"/>
  <geom type="plane" size="5 5 .1" rgba=".4 .5 .4 1"/>
  <body name="cart" pos="0 0 .1">
    <joint name="slide" type="slide" axis="1 0 0" damping="1"/>
    <geom name="cart" type="box" size=".1 .1 .08" mass="1" rgba=".9 .2 .2 1"/>
    <camera name="aboard" pos="0 -.2 .5" xyaxes="1 0 0 0 .5 1"/>
  </body>
  <body name="mark" mocap="true" pos="0 0 .5">
    <geom type="sphere" size=".06" rgba=".2 .9 .2 1" contype="0" conaffinity="0"/>
  </body>
</worldbody>
<actuator><position name="servo" joint="slide" kp="50" kv="5"/></actuator>
<sensor><jointpos name="cart_pos" joint="slide"/><jointvel name="cart_vel" joint="slide"/></sensor>
</mujoco>
"""
CAMERAS: list[dict[str, Any]] = [
    {"name": "front", "width": 48, "height": 32},
    {"name": "above", "obs": "map", "width": 32, "height": 32},
]
ITEMS = ("front_rgb", "map")
JITTER = {"pos_m": 0.05, "rotation_deg": 4.0, "fovy_deg": 5.0}
SHAKY: list[dict[str, Any]] = [{**each, "jitter": JITTER} for each in CAMERAS]
LIGHTS = {"pos_m": 0.5, "rotation_deg": 20.0, "intensity": [0.3, 1.2]}


class SeenTask:
    """Drive to the mark; both can be seen."""

    def __init__(self, *, steps: int = 10, end_m: float = 9.0) -> None:
        self.robot: Any = None
        self.open_loop, self.dt_s, self.episode_s, self.end_m = True, 0.02, 0.02 * steps, end_m
        self.obs_spec = ObsSpec(items={"cart": TensorSpec(shape=(2,))})
        self.act_spec = ActSpec(shape=(1,), unit="m", low=(-1.0,), high=(1.0,), rate_hz=50)

    def scene(self) -> Any:
        return mujoco.MjSpec.from_string(SCENE)

    def reset(self, num: int, generator: torch.Generator) -> Reset:
        qpos, mark = torch.rand(2, num, generator=generator, dtype=torch.float64) - 0.5
        place = torch.stack([mark, torch.zeros(num), torch.full((num,), 0.4)], dim=1)
        return Reset(qpos[:, None], torch.zeros(num, 1), {"mark": place.float()})

    def control(self, view: Any, act: torch.Tensor) -> torch.Tensor:
        return act

    def observe(self, view: Any) -> dict[str, torch.Tensor]:
        return {"cart": view.sensor("cart_pos", "cart_vel")}

    def reward(self, view: Any, act: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        return -self._gap(view), {}

    def terminated(self, view: Any) -> torch.Tensor:
        return view.sensor("cart_pos")[:, 0] > self.end_m

    def success(self, view: Any) -> torch.Tensor:
        return self._gap(view) < 0.05

    def _gap(self, view: Any) -> torch.Tensor:
        return (view.sensor("cart_pos")[:, 0] - view.goal["mark"][:, 0]).abs()


def still(env: Any, steps: int = 1) -> list[Step]:
    """Steps of an env that is told to stay at 0."""
    return env.rollout(torch.zeros(env.num_envs, steps, 1))


def same(left: Any, right: Any, rows: Any = ...) -> bool:
    """Whether both show the same in these rows."""
    return all(torch.equal(left[name][rows], right[name][rows]) for name in ITEMS)


def differ(pictures: torch.Tensor) -> bool:
    """Whether all of them are different ones."""
    return len({picture.numpy().tobytes() for picture in pictures}) == len(pictures)
