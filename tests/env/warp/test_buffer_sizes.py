# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import mujoco
import numpy as np
import pytest

from robo_rl.env.warp.buffer_sizes import probed_sizes, round_up_size


@pytest.fixture
def model(cart):
    return mujoco.MjModel.from_xml_string(cart.scene)


def state(model, num=1):
    return np.tile(model.qpos0, (num, 1)), np.zeros((num, model.nv))


def test_the_room_is_twice_what_the_c_engine_needs_at_most(model):
    """The box on the floor: four contacts of four rows each."""
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, 100)
    sizes = probed_sizes(model, *state(model))
    assert sizes.contacts >= 2 * data.ncon
    assert sizes.constraints >= 2 * data.nefc


SLIDER = """<mujoco><worldbody><geom type="box" size=".1 .1 .1" pos=".5 0 0"/>
  <body><joint name="x" type="slide" axis="1 0 0"/><geom type="box" size=".1 .1 .1" mass="1"/>
  </body></worldbody>
  <actuator><position joint="x" kp="500" kv="50" ctrlrange="{} {}"/></actuator></mujoco>"""


def test_start_states_count():
    """Beside the wall nothing touches; one of the starts stands in it."""
    model = mujoco.MjModel.from_xml_string(SLIDER.format(-0.1, 0.1))
    qpos, qvel = state(model, 2)
    assert probed_sizes(model, qpos, qvel).constraints == round_up_size(0)
    qpos[1] = 0.35
    assert probed_sizes(model, qpos, qvel).constraints >= 32


def test_random_controls_count():
    """At rest the slider touches nothing; driven it meets the wall."""
    model = mujoco.MjModel.from_xml_string(SLIDER.format(-1, 1))
    assert probed_sizes(model, *state(model, 4)).constraints >= 32


def test_sizes_are_coarse():
    assert [round_up_size(count) for count in (0, 16, 17, 97, 4096, 4097)] == [
        16,
        16,
        32,
        128,
        4096,
        5120,
    ]
