# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import mujoco
import numpy as np
import pytest
import torch

pytest.importorskip("mujoco_warp", reason="the extra 'warp' is not installed")

from robo_rl.core.errors import ConfigError
from robo_rl.env.mujoco_model_fields import FIELDS
from robo_rl.env.warp.backend import MujocoWarp
from robo_rl.env.warp.per_env_fields import _DERIVED

DERIVED = ("body_subtreemass", "body_invweight0", "dof_invweight0", "actuator_acc0")


@pytest.fixture(scope="module")
def loaded(lasting_cart):
    made = MujocoWarp(MujocoWarp.Config(device="cpu"))
    made.load(mujoco.MjSpec.from_string(lasting_cart.scene), 4)
    yield made, made.snapshot()
    made.close()


@pytest.fixture
def backend(loaded):
    """Four worlds as they were loaded, fields included."""
    made, begin = loaded
    made.restore(begin)
    return made


def field(model, name, scale=1.0):
    return torch.from_numpy(getattr(model, name).copy()) * scale


def write(backend, world, **fields):
    view = backend.view()
    state = view.qpos[:1].clone(), view.qvel[:1].clone()
    backend.write(torch.tensor([world]), *state, {k: v[None] for k, v in fields.items()})


@pytest.mark.parametrize(
    ("name", "scale"), [("body_mass", 3.0), ("body_inertia", 2.0), ("dof_armature", 1.0)]
)
def test_derived_constants_are_those_of_the_c_engine(backend, cart, name, scale):
    """float32 against float64: six digits of a sum of a few terms."""
    model = mujoco.MjModel.from_xml_string(cart.scene)
    value = field(model, name, scale) + (0.1 if name == "dof_armature" else 0.0)
    write(backend, 3, **{name: value})
    getattr(model, name)[...] = value.numpy()
    mujoco.mj_setConst(model, mujoco.MjData(model))
    for derived in DERIVED:
        found = backend._fields.fields[derived][3].numpy()
        expected = getattr(model, derived)
        felt = expected != 0  # Warp gives a body that cannot turn the weight of its shift for that
        np.testing.assert_allclose(found.reshape(expected.shape)[felt], expected[felt], rtol=2e-5)


def test_other_worlds_keep_their_constants_to_the_bit(backend, cart):
    model = mujoco.MjModel.from_xml_string(cart.scene)
    write(backend, 1, body_mass=field(model, "body_mass", 2.0))
    before = {k: v.clone() for k, v in backend._fields.fields.items()}
    write(backend, 3, body_mass=field(model, "body_mass", 5.0))
    for name, value in backend._fields.fields.items():
        assert torch.equal(value[:3], before[name][:3]), name
    assert not torch.equal(backend._fields.fields["dof_invweight0"][3], before["dof_invweight0"][3])


@pytest.mark.parametrize(
    ("name", "row", "value"),
    [
        ("body_mass", 1, 4.0),
        ("dof_damping", 0, 30.0),
        ("dof_armature", 0, 3.0),
        ("actuator_gainprm", 0, 20.0),
        ("geom_friction", 3, 4.0),
    ],
)
def test_a_field_acts_on_its_world_alone(backend, cart, name, row, value):
    model = mujoco.MjModel.from_xml_string(cart.scene)
    ctrl = torch.full((4, 20, 1), 0.8)  # the cart runs into the box and pushes it
    begin = backend.snapshot()
    plain = backend.step(ctrl, 8)[-1].qpos.clone()
    backend.restore(begin)
    changed = field(model, name)
    changed[row, ...] = value
    write(backend, 2, **{name: changed})
    after = backend.step(ctrl, 8)[-1].qpos
    others = [0, 1, 3]
    assert torch.equal(after[others], plain[others])
    assert (after[2] - plain[2]).abs().max() > 1e-4


def test_restore_takes_away_what_was_written_later(backend, cart):
    model = mujoco.MjModel.from_xml_string(cart.scene)
    begin, ctrl = backend.snapshot(), torch.full((4, 5, 1), 0.8)
    plain = backend.step(ctrl, 8)[-1].qpos.clone()
    write(backend, 2, body_mass=field(model, "body_mass", 3.0))
    heavy = backend.snapshot()
    backend.restore(begin)
    assert torch.equal(backend.step(ctrl, 8)[-1].qpos, plain)
    backend.restore(heavy)
    assert torch.allclose(backend._fields.fields["body_mass"][2, 1], torch.tensor(3.0))


def test_what_is_fixed_to_the_world_cannot_be_moved(backend, cart):
    """Its place is computed once, so that a move would be without effect and without a word."""
    pos = field(mujoco.MjModel.from_xml_string(cart.scene), "geom_pos")
    pos[0, 2] = 0.3
    with pytest.raises(ConfigError, match="fixed to the world by 'geom_pos'"):
        write(backend, 0, geom_pos=pos)


def test_a_moved_frame_moves(backend, cart):
    pos = field(mujoco.MjModel.from_xml_string(cart.scene), "geom_pos")
    pos[1, 2] = 0.5
    write(backend, 0, geom_pos=pos)
    height = backend._data.geom_xpos.numpy()[:, 1, 2]
    assert height.tolist() == pytest.approx([0.6, 0.1, 0.1, 0.1])


def test_an_unknown_field_is_one_typed_error(backend, cart):
    size = field(mujoco.MjModel.from_xml_string(cart.scene), "geom_size")
    with pytest.raises(ConfigError, match="cannot let 'geom_size' differ by world"):
        write(backend, 0, geom_size=size)


def test_derived_fields_are_not_written_by_hand():
    assert not {*_DERIVED} & {*FIELDS}
