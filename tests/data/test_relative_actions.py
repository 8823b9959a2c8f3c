"""Actions relative to an observation: exact inverses, their statistics, and what is refused."""

from __future__ import annotations

import pytest
import torch
from small_policies import make_obs, make_policy
from small_stores import make_episode

from robo_rl.core.errors import ConfigError, SpecError
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.data.dataset import WindowDataset
from robo_rl.data.normalize import Normalizer
from robo_rl.data.relative_actions import check_relative, relative_reference
from robo_rl.policy.archive import policy_from_meta, policy_meta
from robo_rl.policy.one_step import make_one_step_student

OBS = ObsSpec(
    items={
        "joint_pos": TensorSpec(shape=(2,), unit="rad"),
        "speed": TensorSpec(shape=(2,), unit="rad/s"),
    }
)
ACT = ActSpec(shape=(3,), unit="rad,rad,m", rate_hz=20.0)


def test_the_reference_is_the_latest_observation_and_0_beyond_it():
    obs = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    assert relative_reference(obs, torch.zeros(1, 5, 3)).tolist() == [[[3.0, 4.0, 0.0]]]


def test_a_displaced_robot_displaces_the_actions_of_the_same_network_output():
    policy, obs = make_policy("flow_noise", 2, relative_to="goal"), make_obs(4)
    x = torch.zeros(4, policy.horizon, 2).double()
    moved = obs | {"goal": obs["goal"] + 0.25}
    torch.testing.assert_close(policy.to_env(moved, x), policy.to_env(obs, x) + 0.25)
    torch.testing.assert_close(policy.from_env(obs, policy.to_env(obs, x + 0.5)), x + 0.5)


def test_a_saved_policy_keeps_what_its_actions_are_relative_to():
    policy, obs = make_policy("flow_noise", 2, relative_to="goal"), make_obs(4)
    again = policy_from_meta(policy_meta(policy), policy.state_dict()).double()
    noise = torch.zeros(4, policy.horizon, 2).double()
    torch.testing.assert_close(again.decode(obs, noise), policy.decode(obs, noise))
    plain = make_policy("flow_noise", 2)
    assert plain.normalizer.stats_hash != policy.normalizer.stats_hash


def test_statistics_are_those_of_all_windows_displacements(store):
    store.extend([make_episode(i) for i in range(4)])
    data = WindowDataset(store, 1, 3)
    batch = data.windows(torch.arange(len(data)))
    rows = (batch.act - batch.obs["joint_pos"][:, -1:]).flatten(0, 1)
    stats = data.stats("joint_pos").keys["act"]
    torch.testing.assert_close(stats.low.float(), rows.amin(0))
    torch.testing.assert_close(stats.high.float(), rows.amax(0))
    normalizer = Normalizer.fit(data, relative_to="joint_pos")
    assert normalizer.modes["act"] == "quantile"
    x = normalizer.act_to_network(batch.obs, batch.act)
    assert float((x.abs() <= 1.0 + 1e-5).float().mean()) > 0.9
    torch.testing.assert_close(normalizer.act_to_env(batch.obs, x), batch.act)


@pytest.mark.parametrize(("name", "word"), [("joint", "no observation"), ("speed", "cannot")])
def test_an_observation_of_another_unit_is_refused(name, word):
    with pytest.raises(SpecError, match=word):
        check_relative(name, OBS, ACT, name)


def test_limits_hold_for_every_observation_and_elements_without_a_reference_keep_theirs():
    normalizer = Normalizer.identity(OBS, ACT, "joint_pos")
    low, high = torch.tensor([-3.0, -2.0, 0.0]), torch.tensor([-1.0, 2.0, 0.04])
    found = normalizer.act_limits(low, high)
    assert [each.tolist() for each in found] == [
        [-2.0, -4.0, 0.0],
        [2.0, 4.0, pytest.approx(0.04)],
    ]
    assert torch.equal(Normalizer.identity(OBS, ACT).act_limits(low, high)[0], low)


def test_a_one_step_student_has_its_teachers_reference():
    teacher = make_policy("flow_noise", 2, relative_to="goal")
    student, obs = make_one_step_student(teacher).double(), make_obs(4)
    moved = obs | {"goal": obs["goal"] + 0.25}
    x = torch.zeros(4, teacher.horizon, 2).double()
    assert student.cfg.relative_to == "goal"
    torch.testing.assert_close(student.to_env(moved, x), teacher.to_env(obs, x) + 0.25)


def test_changes_of_the_last_command_are_relative_already():
    delta = ACT.model_copy(update={"reference": "delta"})
    check_relative("joint_pos", OBS, ACT, "joint_pos")
    said = "absolute,absolute,absolute"
    check_relative("joint_pos", OBS, ACT.model_copy(update={"reference": said}), "joint_pos")
    with pytest.raises(SpecError, match="already"):
        check_relative("joint_pos", OBS, delta, "joint_pos")


def test_statistics_of_other_actions_are_refused():
    policy = make_policy("flow_noise", 2)
    with pytest.raises(ConfigError, match="other actions"):
        type(policy)(
            policy.cfg.model_copy(update={"relative_to": "goal"}),
            policy.obs_spec,
            policy.act_spec,
            policy.normalizer,
        )
