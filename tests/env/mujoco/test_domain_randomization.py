# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false
from typing import Any

import mujoco
import pytest
import torch

from robo_rl.core.errors import ConfigError
from robo_rl.env.mujoco.domain_randomization import Randomizer
from robo_rl.env.mujoco.randomization_terms import RandomizeTerm

CART, BOX = 1, 3
SERVO = """
<mujoco>
  <worldbody>
    <body><joint name="slide" type="slide" axis="1 0 0"/><geom size="0.1" mass="1"/></body>
  </worldbody>
  <actuator><position name="servo" joint="slide" kp='20' kv='2'/></actuator>
</mujoco>
"""


def term(field, name, range, mode: Any = "scale"):
    return RandomizeTerm(field=field, name=name, mode=mode, range=range)


@pytest.fixture
def draw(cart):
    def draw(*terms, num=200, seed=0):
        randomizer = Randomizer(terms, mujoco.MjSpec.from_string(cart.scene))
        return randomizer.draw(num, torch.Generator().manual_seed(seed))

    return draw


def test_draws_fill_the_range_and_leave_the_rest_alone(draw):
    mass = draw(term("body_mass", "box", (0.5, 2.0)))["body_mass"]
    assert mass.shape == (200, 4)
    assert 0.25 <= mass[:, BOX].min() < 0.3
    assert 0.95 < mass[:, BOX].max() <= 1.0
    assert (mass[:, CART] == 1.0).all()


def test_modes_scale_add_and_replace(draw):
    scaled = draw(term("geom_friction", "box", (2.0, 2.0)))["geom_friction"][0, 3]
    assert scaled.tolist() == pytest.approx([2.0, 0.01, 0.0002])
    moved = draw(term("body_pos", "pole", (0.1, 0.1), "add"))["body_pos"][0, 2]
    assert moved.tolist() == pytest.approx([0.1, 0.1, 0.2])
    fixed = draw(term("dof_damping", "slide", (3.0, 3.0), "abs"))["dof_damping"]
    assert fixed[0, 0] == 3.0
    assert (fixed[0, 1:] == 0).all()


def test_scale_keeps_proportions_and_add_draws_each_element(draw):
    scaled = draw(term("geom_friction", "box", (0.5, 2.0)))["geom_friction"][:, 3]
    assert torch.allclose(scaled[:, 0] * 0.005, scaled[:, 1])
    moved = draw(term("body_pos", "pole", (-1.0, 1.0), "add"))["body_pos"][:, 2]
    assert not torch.allclose(moved[:, 0], moved[:, 1])


def test_inertia_grows_with_the_mass(draw, cart):
    nominal = mujoco.MjModel.from_xml_string(cart.scene)
    fields = draw(term("body_mass", "box", (0.5, 2.0)))
    factor = fields["body_mass"][:, BOX] / nominal.body_mass[BOX]
    expected = factor[:, None] * torch.from_numpy(nominal.body_inertia[BOX])
    assert torch.allclose(fields["body_inertia"][:, BOX], expected)


def test_a_body_names_all_of_its_geoms(draw, cart):
    """The shapes of objects have no names, and their friction is the one that counts."""
    nominal = mujoco.MjModel.from_xml_string(cart.scene)
    drawn = draw(term("geom_friction", "pole", (2.0, 2.0)))["geom_friction"][0]
    of_body = torch.from_numpy(nominal.geom_bodyid) == nominal.body("pole").id
    expected = torch.from_numpy(nominal.geom_friction) * torch.where(of_body, 2.0, 1.0)[:, None]
    assert of_body.any()
    assert torch.allclose(drawn, expected)


def test_another_stiffness_of_a_servo_keeps_its_target():
    """Force kp·(ctrl − q) − kd·v; without the bias the joint would rest elsewhere."""
    spec = mujoco.MjSpec.from_string(SERVO)
    randomizer = Randomizer([term("actuator_gainprm", "servo", (0.5, 0.5))], spec)
    fields = randomizer.draw(1, torch.Generator().manual_seed(0))
    model = spec.compile()
    for name, value in fields.items():
        getattr(model, name)[:] = value[0].numpy()
    assert model.actuator_gainprm[0, 0] == 10.0
    assert model.actuator_biasprm[0].tolist()[:3] == [0.0, -10.0, -2.0]
    data = mujoco.MjData(model)
    data.ctrl[0] = 0.3
    mujoco.mj_step(model, data, 5000)
    assert data.qpos[0] == pytest.approx(0.3, abs=1e-3)


def test_the_bias_of_a_motor_is_left_alone():
    motor = SERVO.replace("position", "motor").replace("kp='20' kv='2'", "gear='1'")
    fields = Randomizer(
        [term("actuator_gainprm", "servo", (0.5, 0.5))], mujoco.MjSpec.from_string(motor)
    ).draw(1, torch.Generator())
    assert fields["actuator_gainprm"][0, 0, 0] == 0.5
    assert not fields["actuator_biasprm"].any()


def test_a_gain_of_0_is_that_of_no_servo():
    motor = SERVO.replace("position", "general").replace("kp='20' kv='2'", "gainprm='0'")
    drawn = Randomizer(
        [term("actuator_gainprm", "servo", (2.0, 2.0), "abs")], mujoco.MjSpec.from_string(motor)
    ).draw(1, torch.Generator())
    assert drawn["actuator_gainprm"][0, 0, 0] == 2.0
    assert not drawn["actuator_biasprm"].any()


def test_what_an_earlier_term_draws_can_be_scaled(draw):
    drawn = draw(
        term("dof_frictionloss", "slide", (0.5, 0.5), "abs"),
        term("dof_frictionloss", "slide", (2.0, 2.0)),
    )
    assert drawn["dof_frictionloss"][0, 0] == 1.0


@pytest.mark.parametrize(
    ("one", "says"),
    [
        (term("dof_frictionloss", "slide", (0.5, 2.0)), "is 0, which cannot be scaled"),
        (term("body_mass", "world", (1.0, 2.0), "add"), "'body_mass' of 'world' is 0"),
    ],
)
def test_what_would_change_nothing_is_refused(draw, one, says):
    with pytest.raises(ConfigError, match=says):
        draw(one)


def test_a_free_joint_has_six_dofs(draw):
    damping = draw(term("dof_damping", "free", (2.0, 2.0), "abs"))["dof_damping"][0]
    assert damping.tolist() == [1, 0, 2, 2, 2, 2, 2, 2]


def test_a_seed_repeats_and_worlds_differ(draw):
    one, again = draw(term("body_mass", "box", (1, 2))), draw(term("body_mass", "box", (1, 2)))
    assert torch.equal(one["body_mass"], again["body_mass"])
    assert len(one["body_mass"][:, BOX].unique()) == 200


@pytest.mark.parametrize(
    ("field", "name", "says"),
    [
        ("body_mas", "box", "body_mass"),
        ("body_mass", "bux", "did you mean 'box'"),
        ("dof_damping", "slid", "did you mean 'slide'"),
        ("geom_size", "box", "cannot randomise 'geom_size'"),
        ("body_ipos", "box", "simple='false'"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_the_nearest_name(draw, field, name, says):
    with pytest.raises(ConfigError, match=says):
        draw(term(field, name, (0.9, 1.1)))


def test_an_empty_range_is_refused():
    with pytest.raises(ValueError, match=r"\[low, high\]"):
        term("body_mass", "box", (2.0, 1.0))
