"""Terms whose draws would change nothing, or would not be physical, are refused."""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import math
from typing import Any

import mujoco
import pytest
import torch

from robo_rl.core.errors import ConfigError
from robo_rl.env.mujoco.domain_randomization import Randomizer
from robo_rl.env.mujoco.randomization_terms import RandomizeTerm

ARM = """
<mujoco>
  <worldbody>
    <body name="link">
      <joint name="elbow" axis="0 1 0" range="-60 90" damping="2" armature="0.1" stiffness="1"
        frictionloss="0.3"/>
      <geom name="rod" type="box" size="0.1 0.2 0.3" mass="1"/>
      <body name="hand"><joint name="wrist" axis="0 1 0"/><geom size="0.1" mass="1"/></body>
    </body>
  </worldbody>
  <actuator>
    <motor name="strong" joint="elbow" forcerange="-87 87" ctrlrange="-1 1"/>
    <motor name="free" joint="wrist"/>
  </actuator>
</mujoco>
"""


def term(field, name, range, mode: Any = "scale"):
    return RandomizeTerm(field=field, name=name, mode=mode, range=range)


def draw(*terms, num=500):
    randomizer = Randomizer(terms, mujoco.MjSpec.from_string(ARM))
    return randomizer.draw(num, torch.Generator().manual_seed(0))


def test_a_torque_limit_is_drawn_for_both_directions():
    force = draw(term("actuator_forcerange", "strong", (60.0, 90.0), "abs"))["actuator_forcerange"]
    low, high = force[:, 0].unbind(-1)
    assert torch.equal(low, -high)
    assert 60.0 <= high.min() < 61.0
    assert 89.0 < high.max() <= 90.0


@pytest.mark.parametrize(
    ("field", "name", "range"),
    [
        ("actuator_forcerange", "strong", (-90.0, -60.0)),
        ("actuator_forcerange", "strong", (-60.0, 90.0)),
        ("actuator_forcerange", "strong", (0.0, 90.0)),
        ("actuator_ctrlrange", "strong", (0.5, 1.0)),
        ("jnt_range", "elbow", (0.5, 1.0)),
    ],
)
def test_one_range_cannot_set_a_lower_limit_below_an_upper_one(field, name, range):
    with pytest.raises(ConfigError, match=f"'{field}' of '{name}'"):
        draw(term(field, name, range, "abs"))


@pytest.mark.parametrize("field", ["actuator_forcerange", "actuator_ctrlrange", "jnt_range"])
@pytest.mark.parametrize(("mode", "range"), [("scale", (-1.0, 1.0)), ("add", (0.0, 200.0))])
def test_limits_that_may_cross_are_refused(field, mode, range):
    name = "elbow" if field == "jnt_range" else "strong"
    with pytest.raises(ConfigError, match=rf"'{field}' of '{name}'.*below the upper"):
        draw(term(field, name, range, mode))


def test_limits_that_move_without_crossing_are_accepted():
    limits = draw(
        term("jnt_range", "elbow", (0.5, 1.0)), term("jnt_range", "elbow", (-0.6, 0.6), "add")
    )["jnt_range"][:, 0]
    assert (limits[:, 0] < limits[:, 1]).all()
    assert math.radians(-60) - 0.6 <= limits[:, 0].min()


def test_inertias_of_no_body_are_refused():
    """Of three moments the sum of two is at least the third one."""
    with pytest.raises(
        ConfigError, match=r"'body_inertia' of 'link' that of no body.*0\.002 and 10"
    ):
        draw(term("body_inertia", "link", (0.001, 10.0), "abs"))
    moments = draw(term("body_inertia", "link", (0.01, 0.02), "abs"))["body_inertia"]
    assert (2 * moments.amax(-1) <= moments.sum(-1)).all()


@pytest.mark.parametrize(
    ("field", "name", "mode", "range"),
    [
        ("body_mass", "link", "scale", (-0.5, 2.0)),
        ("body_mass", "link", "scale", (0.0, 2.0)),
        ("body_mass", "link", "add", (-1.0, 1.0)),
        ("body_mass", "link", "abs", (-1.0, 1.0)),
        ("body_inertia", "link", "add", (-1.0, 1.0)),
        ("dof_armature", "elbow", "add", (-0.2, 0.2)),
        ("dof_damping", "elbow", "add", (-2.1, 0.0)),
        ("dof_damping", "elbow", "scale", (-1.0, 1.0)),
        ("dof_frictionloss", "elbow", "abs", (-0.1, 0.1)),
        ("jnt_stiffness", "elbow", "add", (-1.1, 0.0)),
        ("geom_friction", "rod", "add", (-0.01, 0.1)),  # torsional friction is 0.005
    ],
)
def test_draws_that_are_not_physical_are_refused(field, name, mode, range):
    with pytest.raises(ConfigError, match=rf"'{field}' of '{name}' invalid; expected values >"):
        draw(term(field, name, range, mode))


@pytest.mark.parametrize(
    ("field", "name", "mode", "range"),
    [
        ("body_mass", "link", "add", (-0.9, 1.0)),
        ("dof_damping", "elbow", "scale", (0.0, 2.0)),
        ("dof_damping", "elbow", "add", (-2.0, 0.0)),
        ("geom_friction", "rod", "add", (0.0, 0.1)),
        ("body_pos", "hand", "add", (-1.0, 1.0)),
        ("body_gravcomp", "link", "abs", (-1.0, 1.0)),
    ],
)
def test_draws_up_to_the_limit_are_accepted(field, name, mode, range):
    assert field in draw(term(field, name, range, mode))


def test_what_earlier_terms_draw_counts():
    """Damping is 2: each term alone leaves it positive."""
    first, second = (term("dof_damping", "elbow", (-1.5, 0.0), "add") for _ in "12")
    draw(first)
    with pytest.raises(ConfigError, match="found -1 at worst"):
        draw(first, second)


def test_the_inertia_that_follows_a_mass_counts():
    """The smallest inertia is 1/3 · (0.1² + 0.2²) = 0.0167 kg m², a tenth of it 0.0017."""
    light, less = (
        term("body_mass", "link", (0.1, 1.0)),
        term("body_inertia", "link", (-0.003, 0.0), "add"),
    )
    draw(less)
    with pytest.raises(ConfigError, match=r"'body_inertia'.*found -0\.0013"):
        draw(light, less)


def test_the_error_names_term_range_and_remedy():
    with pytest.raises(ConfigError) as caught:
        draw(term("dof_damping", "elbow", (-3.0, 1.0), "add"))
    assert str(caught.value) == (
        "randomize: range [-3.0, 1.0] with mode: add makes 'dof_damping' of 'elbow' invalid;"
        " expected values >= 0, found -1 at worst; narrow it, or take mode: scale"
    )


@pytest.mark.parametrize(
    ("field", "unlimited", "limited"),
    [
        ("actuator_forcerange", "free", "strong"),
        ("actuator_ctrlrange", "free", "strong"),
        ("jnt_range", "wrist", "elbow"),
    ],
)
def test_limits_of_unlimited_elements_are_refused(field, unlimited, limited):
    """MuJoCo reads them of limited elements alone."""
    for mode in ("scale", "add", "abs"):
        with pytest.raises(ConfigError, match=rf"'{field}' of '{unlimited}'.*unlimited"):
            draw(term(field, unlimited, (0.5, 0.9), mode))
    assert field in draw(term(field, limited, (0.5, 0.9)))


FREE = """
<mujoco>
  <worldbody>
    <body name="cube"><freejoint/><geom name="box" type="box" size="0.1 0.2 0.3"/></body>
    <body name="pad" mocap="true"><geom size="0.1"/></body>
    <body name="table" simple="false"><geom name="top" type="box" size="1 1 0.1"/></body>
  </worldbody>
</mujoco>
"""


@pytest.mark.parametrize("field", ["body_pos", "body_quat"])
def test_a_pose_that_a_reset_sets_is_not_drawn(field):
    """That of a mocap body is, for a body that no goal places."""
    scene = mujoco.MjSpec.from_string(FREE)
    with pytest.raises(ConfigError, match=r"has no effect.*found a free joint"):
        Randomizer([term(field, "cube", (-0.1, 0.1), "add")], scene)
    for name in ("table", "pad"):
        assert field in Randomizer([term(field, name, (-0.1, 0.1), "add")], scene).draw(
            2, torch.Generator()
        )


@pytest.mark.parametrize("field", ["geom_quat", "body_iquat"])
def test_a_drawn_rotation_is_one_and_is_not_scaled(field):
    name = {"geom_quat": "top", "body_iquat": "table"}[field]
    scene = mujoco.MjSpec.from_string(FREE)
    made = Randomizer([term(field, name, (-0.5, 0.5), "add")], scene)
    found = made.draw(200, torch.Generator().manual_seed(0))[field].norm(dim=-1)
    torch.testing.assert_close(found, torch.ones_like(found))
    with pytest.raises(ConfigError, match="unit quaternion, which cannot be scaled"):
        Randomizer([term(field, name, (0.9, 1.1))], scene)
