"""A task that breaks a promise is told all of it, a line each, when its env is built."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from small_plugin import Plugins, plugins, sweep

from robo_rl.config.component import component
from robo_rl.config.registry import load
from robo_rl.core.errors import PluginError
from robo_rl.core.spec import ObsSpec, TensorSpec
from robo_rl.env.mujoco.sim_env import SimEnv
from robo_rl.env.mujoco.task_check.check import check_contract
from robo_rl.testing.task import check_task

__all__ = ["plugins"]


@pytest.fixture
def task(plugins: Plugins):
    """``task((before, after), …)``: the outside author's task, with its source changed."""

    def make(*changes: tuple[str, str]) -> Any:
        plugins.install(files=sweep(*changes))
        return component("tasks").make("sweep").build()

    return make


def lines(task: Any) -> list[str]:
    with pytest.raises(PluginError) as caught:
        SimEnv(SimEnv.Config(), task, 2)
    return str(caught.value).splitlines()


WRONG = {
    "success in floats": (
        ("> 0.98", "* 0.5"),
        r"success \(.*:\d+\): does not fit; expected \(B,\) bool with B = 2, found \(2,\) float64",
    ),
    "success with an axis too many": (
        ("[:, 0] > 0.98", "> 0.98"),
        r"success \(.*\): does not fit; expected \(B,\) bool .*, found \(2, 1\) bool",
    ),
    "reward without its parts": (
        ('return -gap, {"gap": gap}', "return -gap"),
        r"reward \(.*\): does not fit; expected \(reward \(B,\), its parts by name\),"
        r" found \(2,\) float64; return rew, \{\} where it has no parts",
    ),
    "a part of another size": (
        ('{"gap": gap}', '{"gap": gap[:1]}'),
        r"reward \(.*\): part 'gap' does not fit; expected \(B,\) floating point .*\(1,\) float64",
    ),
    "a part that is a number": (
        ('{"gap": gap}', '{"gap": 0.5}'),
        r"reward \(.*\): part 'gap' does not fit; .*, found float",
    ),
    "a reward that is not finite": (
        ("return -gap,", "return gap / 0.0 * 0.0,"),
        r"reward \(.*\): reward does not fit; expected finite numbers, found 2 of 2",
    ),
    "a short qpos": (
        ("Reset(torch.zeros(num, 3),", "Reset(torch.zeros(num, 2),"),
        r"reset \(.*\): qpos does not fit; expected \(B, 3\) floating point .*\(2, 2\) float32",
    ),
    "one goal for all worlds": (
        ('{"wall": pose}', '{"wall": pose[0]}'),
        r"reset \(.*\): goal 'wall' does not fit; expected a tensor \(B, …\) .*, found \(7,\)",
    ),
    "goals that are no dict": (
        ('{"wall": pose}', "pose"),
        r"reset \(.*\): goal does not fit; expected a dict of tensors by name, .*, found Tensor",
    ),
    "a goal that cannot place its mocap body": (
        ('{"wall": pose}', '{"wall": pose[:, :2]}'),
        r"reset \(.*\): goal 'wall' does not fit; expected \(B, 3\) position, .*found \(2, 2\)",
    ),
    "a start that is a tuple": (
        ("return Reset(", "return ("),
        r"reset \(.*\): does not fit; expected Reset\(qpos, qvel, goal\), found tuple",
    ),
    "no control period": (
        (
            ", self.dt_s, self.episode_s = SCARA, True, 0.05, 2.0",
            ", self.episode_s = SCARA, True, 2.0",
        ),
        r"dt_s: is missing; expected the control period in s",
    ),
    "a period of another type": (
        ("SCARA, True, 0.05", "SCARA, True, '0.05'"),
        r"dt_s: cannot be used; expected the control period in s, found '0.05'",
    ),
    "controls of another size": (
        ("return act", "return act[:, :2]"),
        r"control \(.*\): does not fit; expected \(B, 3\) floating point .*, found \(2, 2\)",
    ),
    "a method without return": (
        ("return self.success(view)", "self.success(view)"),
        r"terminated \(.*\): returns nothing; is a return statement missing\?",
    ),
    "a mistyped method": (
        ("def terminated", "def terminates"),
        r"terminated: is missing; expected a method; did you mean 'terminated' by 'terminates'\?",
    ),
    "a mistyped observation": (
        ('return {"angle"', 'return {"angel"'),
        r"observe \(.*\): 'angel' is not in obs_spec; did you mean 'angle'\?",
    ),
    "an observation of another shape": (
        ('sensor("shoulder_pos")}', 'sensor("shoulder_pos")[:, 0]}'),
        r"observe \(.*\): 'angle' does not fit; expected \(B, 1\) numbers .*, found \(2,\)",
    ),
    "a scene that does not compile": (
        ("size=[0.05, 0.02, 0.2]", "size=[0.05, 0.02, 0]"),
        r"scene \(.*\): does not compile: .*size",
    ),
    "an exception": (
        ("return act", "return act / self.gain"),
        r"control \(.*\): raises AttributeError: 'Sweep' object has no attribute 'gain'"
        r" at .*acme_tasks/__init__.py:\d+",
    ),
    "a sensor that is not there": (
        ('gap = (1.0 - view.sensor("shoulder_pos")', 'gap = (1.0 - view.sensor("sholder_pos")'),
        r"reward \(.*\): raises KeyError: 'sholder_pos' at .*acme_tasks/__init__.py:\d+",
    ),
    "what fails for a single world alone": (
        ("return act", "return act.squeeze(0)"),
        r"control \(.*\): does not fit; expected \(B, 3\) floating point with B = 1, found \(3,\)",
    ),
    "limits that exclude every action": (
        ("low=low, high=high", "low=high, high=low"),
        r"act_spec: is impossible: .*expected low ≤ high, found low",
    ),
    "another rate than the period's": (
        ("rate_hz=20", "rate_hz=10"),
        r"act_spec: is impossible: rate_hz: expected 20, one action in dt_s, found 10",
    ),
    "changes without a command to count from": (
        ("rate_hz=20)", "rate_hz=20, reference='delta')"),
        r"act_spec: has delta actions, which need methods of DeltaTask; expected"
        r" start_ctrl\(start\) and absolute\(\), found no start_ctrl and no absolute",
    ),
    "a sentence that was not drawn": (
        ("    def scene", "    sentences = ('sweep',)\n\n    def scene"),
        r"reset \(.*\): goal 'instruction' does not fit; expected int64 \(n,\) from 0 to 0,"
        r" found nothing",
    ),
    "a sentence beyond the last one": (
        (
            '{"wall": pose})',
            '{"wall": pose, "instruction": torch.ones(num).long()})\n\n    sentences = ("sweep",)',
        ),
        r"reset \(.*\): goal 'instruction' does not fit; .*, found torch.int64 \[1, 1\]",
    ),
    "a demonstrator that cannot be asked for": (
        ("    def control", "    def expert(self, num):\n        return None\n\n    def control"),
        r"expert \(.*\): cannot be called: .*; expected expert\(num_envs, generator, noise\)",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_told_in_one_line(task, name: str):
    change, says = WRONG[name]
    found = lines(task(change))
    assert any(re.fullmatch(f"task Sweep, {says}.*", line) for line in found), found
    # A success that is wrong is a wrong end too, and an unknown item leaves another one missing.
    assert len(found) == (2 if name.startswith(("success", "a mistyped observation")) else 1)


def test_all_of_it_is_told_at_once(task):
    changes = [WRONG[name][0] for name in ("success in floats", "no control period")]
    changes += [WRONG[name][0] for name in ("reward without its parts", "controls of another size")]
    found = lines(task(*changes))
    assert [line.split(", ")[1].split(" ")[0].rstrip(":") for line in found] == [
        "dt_s",
        "control",
        "reward",
        "success",
        "terminated",
    ]


def test_the_suite_tells_the_same(task):
    made = task(WRONG["success in floats"][0])
    with pytest.raises(PluginError, match=r"success .*: does not fit; expected \(B,\) bool"):
        check_task(lambda: made)


def test_a_class_that_nobody_built_is_told_as_such(task):
    kind: Any = type(task())
    with pytest.raises(PluginError, match="task Sweep, dt_s: is missing"):
        check_contract(kind)


def test_devices_of_all_that_it_says(task):
    made = task(("return act", "return act.to('meta')"))
    assert "control" in lines(made)[0]
    assert "does not fit; expected on cpu, found (2, 3) float32 on meta" in lines(made)[0]


@pytest.mark.parametrize("method", ["reward", "observe"])
def test_what_is_no_number_later_on_is_told_then(task, method: str):
    """At the start it is: a difference to where the arm was, over how long ago that is."""
    later = "+ 0.0 / (view.time_s < 0.06).to(view.qpos){}"
    change = {
        "reward": ("return -gap, ", f"return -gap {later.format('')}, "),
        "observe": (
            'sensor("shoulder_pos")}',
            f'sensor("shoulder_pos") {later.format("[:, None]")}}}',
        ),
    }[method]
    env = SimEnv(SimEnv.Config(), task(change), 2)
    env.reset(0)
    env.step(torch.zeros(2, 3))
    with pytest.raises(
        PluginError, match=f"Sweep, {method} .*of a world that is well; expected finite"
    ):
        env.step(torch.zeros(2, 3))
    env.close()


def test_a_task_that_is_right_is_left_alone(task):
    """No stream of random numbers has gone on."""
    torch.manual_seed(7)
    before = torch.get_rng_state()
    scene = check_contract(task())
    assert torch.equal(torch.get_rng_state(), before)
    assert scene.model.nmocap == 1


def test_an_observation_may_be_one_number(task):
    made = task(
        ("shape=(1,)", "shape=()"), ('sensor("shoulder_pos")}', 'sensor("shoulder_pos")[:, 0]}')
    )
    env = SimEnv(SimEnv.Config(), made, 2)
    env.reset(0)
    assert env.step(torch.zeros(2, 3)).obs["angle"].shape == (2,)
    env.close()


def test_a_robot_whose_hand_is_measured_stands_at_the_origin(task):
    reach: Any = load("tasks", "reach")

    class Raised(reach):
        def scene(self):
            spec = super().scene()
            spec.body("panda_link0").pos = [0, 0, 0.4]
            return spec

    class Blind(Raised):
        """Sees its joints alone."""

        def __init__(self, cfg):
            super().__init__(cfg)
            self.obs_spec = ObsSpec(items={"joint_pos": self.obs_spec.items["joint_pos"]})

        def observe(self, view):
            names = [f"{joint.name}_pos" for joint in self.arm]
            return {"joint_pos": view.sensor(*names).float()}

    class SeesTheWay(Raised):
        """Sees what lies between the hand and the target, under a name of its own."""

        def __init__(self, cfg):
            super().__init__(cfg)
            self.obs_spec = ObsSpec(items={"way": TensorSpec(shape=(3,), unit="m")})

        def observe(self, view):
            return {"way": (next(iter(view.goal.values())) - view.sensor("ee_pos")).float()}

    says = (
        "scene .*: the robot's base 'panda_link0' is not the origin of the world; expected position"
        " 0 0 0, quaternion 1 0 0 0, found 0 0 0.4 1 0 0 0; .*"
    )
    with pytest.raises(PluginError, match=says):
        check_contract(Raised(reach.Config()))
    for task_of in (
        lambda: SeesTheWay(reach.Config()),
        lambda: Blind(reach.Config(actions="pose")),
    ):
        with pytest.raises(PluginError, match=says):
            check_contract(task_of())
    # Nobody measures the hand of these, or commands it.
    check_contract(Blind(reach.Config()))
    check_contract(task(("return spec", "spec.body('column').pos = [0, 0, 1]; return spec")))


def test_a_rate_of_nothing_is_told_beside_a_period_that_is_none(task):
    told = lines(task(("SCARA, True, 0.05", "SCARA, True, '0.05'"), ("rate_hz=20", "rate_hz=0")))
    assert any("dt_s: cannot be used" in line for line in told)
    assert any("rate_hz: expected a finite number above 0, found 0" in line for line in told)
