"""A slow line: the world is shown as it was, and obeys what was said."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from robo_rl.api.env import Step, can_branch
from robo_rl.config.component import component
from robo_rl.config.models import validate_strict
from robo_rl.core.errors import PluginError
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.env.chunk_env import ChunkEnv
from robo_rl.env.env_check import demand_obs
from robo_rl.env.latency_env import LatencyEnv
from robo_rl.env.message_delay import MessageDelay, delayed_values
from robo_rl.testing.env import check_branchable, check_vec_env
from robo_rl.train.rl.collector import Collector

CPU = torch.device("cpu")
REACH = component("tasks").make("reach")


class Follower:
    """The state is the last action, seen as it is; env i's episodes last ``ends[i]`` steps."""

    def __init__(self, ends: list[int]) -> None:
        self.num_envs, self.device, self.ends = len(ends), CPU, torch.tensor(ends)
        self.obs_spec = ObsSpec(items={"pos": TensorSpec(shape=(1,))})
        self.act_spec = ActSpec(shape=(1,), rate_hz=10)
        self.dt_s, self.max_episode_steps = 0.1, 99
        self.pos, self.count = torch.zeros(self.num_envs), torch.zeros(self.num_envs)

    def reset(self, seed: int | None = None) -> dict[str, torch.Tensor]:
        self.pos, self.count = torch.zeros(self.num_envs), torch.zeros(self.num_envs)
        return {"pos": self.pos[:, None].clone()}

    def rollout(self, act: torch.Tensor, *, frames: int | None = None) -> list[Step]:
        live, steps = torch.ones(self.num_envs, dtype=torch.bool), []
        for act_t in act.unbind(1):
            self.pos = torch.where(live, act_t[:, 0], self.pos)
            self.count = self.count + live
            after = {"pos": self.pos[:, None].clone()}
            over = live & (self.count >= self.ends)
            self.pos = torch.where(over, 0.0, self.pos)
            self.count = torch.where(over, 0.0, self.count)
            obs, none = {"pos": self.pos[:, None].clone()}, torch.zeros_like(over)
            steps.append(Step(obs, after, act_t[:, 0], none, over, live, {}))
            live = live & ~over
        return steps

    def step(self, act: torch.Tensor) -> Step:
        return self.rollout(act[:, None])[0]

    def close(self) -> None:
        pass


def follower(ends: list[int], **fields: Any) -> LatencyEnv:
    class Within:
        """What a component is, as far as building goes."""

        def build(self, *_: Any) -> Follower:
            return Follower(ends)

    cfg = LatencyEnv.Config.model_construct(
        env=Within(),
        obs_delay=MessageDelay.Config.model_validate(fields.get("obs_delay", {})),
        act_delay=MessageDelay.Config.model_validate(fields.get("act_delay", {})),
    )
    return LatencyEnv(cfg)


def reach(num_envs: int, **fields: Any) -> LatencyEnv:
    return LatencyEnv(validate_strict(fields, LatencyEnv.Config), REACH.build(), num_envs)


def course(env: LatencyEnv, acts: list[float]) -> tuple[list[float], list[float]]:
    """What env 0 is shown and what took effect in it, for these actions in all envs."""
    env.reset(0)
    steps = [env.step(torch.full((env.num_envs, 1), act)) for act in acts]
    return [float(s.next_obs["pos"][0, 0]) for s in steps], [float(s.rew[0]) for s in steps]


def test_observations_are_of_before_and_rewards_of_now():
    env = follower([99], obs_delay={"latency_s": (0.2, 0.2)})
    seen, done = course(env, [1.0, 2.0, 3.0, 4.0])
    assert seen == [0.0, 0.0, 1.0, 2.0]
    assert done == [1.0, 2.0, 3.0, 4.0]


def test_actions_take_effect_late_and_the_first_one_at_once():
    env = follower([99], act_delay={"latency_s": (0.1, 0.1)})
    seen, done = course(env, [1.0, 2.0, 3.0, 4.0])
    assert done == seen == [1.0, 1.0, 2.0, 3.0]


def test_between_two_steps_it_is_linear():
    env = follower(
        [99], obs_delay={"latency_s": (0.125, 0.125)}, act_delay={"latency_s": (0.05, 0.05)}
    )
    seen, done = course(env, [0.0, 4.0, 8.0, 16.0])
    assert done == pytest.approx([0.0, 2.0, 6.0, 12.0])
    # ¾ of the step before and ¼ of the one before that
    assert seen == pytest.approx([0.0, 0.0, 0.75 * 2.0, 0.75 * 6.0 + 0.25 * 2.0], abs=1e-4)


def test_an_episode_knows_nothing_of_the_one_before():
    late = {"latency_s": (0.2, 0.2)}
    env = follower([2, 3], obs_delay=late, act_delay=late)
    env.reset(0)
    chunks = [torch.arange(1.0, 5.0).expand(2, 4)[..., None] + 10.0 * i for i in range(2)]
    first, second = env.rollout(chunks[0]), env.rollout(chunks[1])
    assert [s.valid.tolist() for s in first] == [[True] * 2, [True] * 2, [False, True], [False] * 2]
    assert [float(s.rew[1]) for s in first[:3]] == [1.0, 1.0, 1.0]
    assert float(first[2].next_obs["pos"][1]) == 1.0  # the successor: of this episode
    assert float(first[2].obs["pos"][1]) == 0.0  # what is acted on next: of the new one
    assert float(first[3].obs["pos"][0]) == 0.0  # it waits
    assert [float(s.rew[1]) for s in second[:3]] == [11.0, 11.0, 11.0]
    assert [float(s.next_obs["pos"][1]) for s in second[:3]] == [0.0, 0.0, 11.0]


def test_without_any_delay_it_is_the_env_within():
    within, env = Follower([3, 5]), follower([3, 5])
    torch.testing.assert_close(within.reset(0), env.reset(0))
    for act in torch.randn(20, 2, 1, generator=torch.Generator().manual_seed(0)):
        ours, theirs = env.step(act), within.step(act)
        torch.testing.assert_close(ours, theirs)


SLOW = {"latency_s": [0.01, 0.05], "jitter_s": 0.06, "loss": 0.2}


def test_it_conforms():
    check_vec_env(lambda num_envs: reach(num_envs, obs_delay=SLOW, act_delay=SLOW))
    check_branchable(lambda num_envs: reach(num_envs, obs_delay=SLOW, act_delay=SLOW))


def test_groups_begin_alike_with_one_latency_each():
    env = reach(6, obs_delay={"latency_s": [0.0, 0.1]})
    env.reset_groups(3, 0)
    act = torch.zeros(2, env.act_spec.size).repeat_interleave(3, 0)
    for _ in range(5):
        obs = env.step(act).obs
    for value in obs.values():
        torch.testing.assert_close(value[:3], value[:1].expand_as(value[:3]))
    assert not torch.equal(obs["joint_vel"][0], obs["joint_vel"][3])


def test_chunks_and_their_history_run_over_it():
    slow = follower([99], obs_delay={"latency_s": (0.1, 0.1)})
    env = ChunkEnv(slow, obs_horizon=2, exec_horizon=4, gamma=1.0)
    env.reset(0)
    step = env.step(torch.arange(1.0, 5.0)[None, :, None])
    assert step.obs["pos"][0, :, 0].tolist() == [2.0, 3.0]
    assert float(step.rew_sum) == 10.0


def test_an_age_grows_by_a_step_at_most_and_what_is_heard_never_goes_back():
    cfg = MessageDelay.Config(latency_s=(0.02, 0.3), jitter_s=0.2, loss=0.3)
    delay = MessageDelay(cfg, 500, 0.1, CPU, "test")
    delay.restart(torch.arange(500))
    ages = [delay.age.numpy().copy()]
    ages += [delay.advance().numpy().copy() for _ in range(200)]
    rise = np.diff(np.stack(ages), axis=0)
    assert rise.max() <= 1.0 + 1e-5
    assert np.stack(ages).max() <= delay.depth - 1
    fresh = np.stack(ages[50:])
    assert fresh.min() >= 0.2 - 1e-6
    # a message counts at once unless it is lost or a newer one came before it
    assert (fresh <= delay.latency.numpy() + 2.0 + 1e-5).mean() > 0.69


def test_latencies_are_drawn_evenly_from_their_range():
    delay = MessageDelay(MessageDelay.Config(latency_s=(0.1, 0.3)), 4000, 0.1, CPU, "test")
    delay.restart(torch.arange(4000))
    found = delay.latency.numpy()
    assert found.min() >= 1.0
    assert found.max() <= 3.0
    assert found.mean() == pytest.approx(2.0, abs=3.3 * 2.0 / np.sqrt(12 * 4000))


def test_pixels_are_not_mixed():
    pixels = torch.arange(6, dtype=torch.uint8).view(2, 3, 1)
    assert delayed_values(pixels, torch.tensor([0.5, 1.0]))[:, 0].tolist() == [1, 4]


def test_what_cannot_be_is_refused():
    with pytest.raises(ValidationError, match="latency_s"):
        MessageDelay.Config(latency_s=(0.2, 0.1))
    env = follower([9])
    env.reset(0)
    with pytest.raises(PluginError, match="no snapshot"):
        env.snapshot()


def test_over_an_env_without_snapshots_training_saves_and_goes_on():
    """Checkpoints hold a snapshot of the env where it has one; else its episodes begin anew."""
    env = follower([5, 7])
    assert not can_branch(env)
    chunks = ChunkEnv(env, obs_horizon=1, exec_horizon=2, gamma=1.0)
    collector = Collector(chunks, torch.Generator(), single_step=False)
    collector.start(0)
    state = collector.state_dict()
    assert state["env"] is None
    collector.load_state_dict(state)
    assert can_branch(reach(2))


def test_an_env_of_single_steps_is_refused_and_closed():
    closed: list[str] = []
    single = SimpleNamespace(close=lambda: closed.append("single"))
    within = SimpleNamespace(name="single", build=lambda *_: single)
    cfg: Any = SimpleNamespace(env=within)
    with pytest.raises(PluginError, match="env 'single' has no rollout"):
        LatencyEnv(cfg)
    assert closed == ["single"]


def test_a_new_episode_begins_without_the_changes_of_the_one_before():
    task = component("tasks").make({"name": "reach", "actions": "joints_delta"})
    late = {"latency_s": [0.1, 0.1]}
    env = LatencyEnv(validate_strict({"act_delay": late}, LatencyEnv.Config), task.build(), 2)
    env.reset(0)
    for _ in range(3):
        env.step(torch.full((2, 7), 0.01))
    env.reset(1)
    arm: Any = env.env
    torch.testing.assert_close(env.view.ctrl, arm.view.ctrl)
    env.close()


def test_changes_under_way_are_late_and_counted_by_who_acts_on_the_view():
    """Two steps late: the arm's command lacks two changes that the view's command has."""
    task = component("tasks").make({"name": "reach", "actions": "joints_delta"})
    late = {"latency_s": [0.1, 0.1]}
    env = LatencyEnv(validate_strict({"act_delay": late}, LatencyEnv.Config), task.build(), 2)
    env.reset(0)
    arm: Any = env.env
    start, change = env.view.ctrl[:, :7].clone(), torch.full((2, 7), 0.01)
    for _ in range(5):
        env.step(change)
    torch.testing.assert_close(arm.view.ctrl[:, :7] - start, 3 * change.double())
    torch.testing.assert_close(env.view.ctrl[:, :7] - start, 5 * change.double())
    snapshot = env.snapshot()
    for _ in range(2):
        env.step(0 * change)
    torch.testing.assert_close(arm.view.ctrl[:, :7] - start, 5 * change.double())
    env.restore(snapshot)
    env.step(0 * change)
    torch.testing.assert_close(arm.view.ctrl[:, :7] - start, 4 * change.double())
    env.close()


def test_it_conforms_with_changes():
    task = component("tasks").make({"name": "reach", "actions": "pose_delta"})
    cfg = validate_strict({"obs_delay": SLOW, "act_delay": SLOW}, LatencyEnv.Config)
    check_vec_env(lambda num_envs: LatencyEnv(cfg, task.build(), num_envs))
    check_branchable(lambda num_envs: LatencyEnv(cfg, task.build(), num_envs))


def test_an_observation_that_does_not_fit_is_that_of_the_env_within():
    env = follower([3])
    env.obs_spec = ObsSpec(items={"pos": TensorSpec(shape=(2,))})
    with pytest.raises(PluginError, match=r"env Follower: reset\(\) does not fit"):
        demand_obs(env, env.reset(0), "reset()")
