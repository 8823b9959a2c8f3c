"""Hand-worked chunks on an env that counts: its observation is the number of steps taken."""

from typing import Any

import pytest
import torch

from robo_rl.api.env import Step
from robo_rl.core.errors import ConfigError, PluginError, SpecError
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.env.chunk_env import ChunkEnv
from robo_rl.env.device_transfer import MovedEnv
from robo_rl.env.mujoco.randomization_terms import RandomizeTerm
from robo_rl.testing.env import random_act
from robo_rl.train.datasets.episode_recorder import RecordedEnv

GAMMA = 0.5


class Counter:
    """Observation 100·episode + step; reward is the action; env i ends after ``ends[i]`` steps.

    Episodes before number ``terminates`` terminate, the others are truncated.
    """

    def __init__(self, ends, *, terminates=99):
        self.num_envs, self.device = len(ends), torch.device("cpu")
        self.ends, self.terminates = torch.tensor(ends), terminates
        self.obs_spec = ObsSpec(items={"count": TensorSpec(shape=(1,))})
        self.act_spec = ActSpec(shape=(1,), rate_hz=10)
        self.dt_s, self.max_episode_steps = 0.1, 99

    def _obs(self):
        return {"count": (100.0 * self.episode + self.count)[:, None]}

    def reset(self, seed=None):
        self.count = torch.zeros(self.num_envs)
        self.episode = torch.zeros(self.num_envs)
        return self._obs()

    def step(self, act):
        self.count = self.count + 1
        next_obs, over = self._obs(), self.count >= self.ends
        early = self.episode < self.terminates
        self.episode, self.count = self.episode + over, torch.where(over, 0.0, self.count)
        flags = over & early, over & ~early
        metrics = {"rew/act": act[:, 0], "peak": -act[:, 0]}
        return Step(self._obs(), next_obs, act[:, 0], *flags, torch.ones_like(over), metrics)

    def close(self):
        pass


class Lossy(Counter):
    """The same env, in which the first step of env 0 did not take place."""

    def step(self, act):
        step = super().step(act)
        return step._replace(valid=torch.tensor([self.count[0] > 1, True]))


class Waiting(Counter):
    """The same env with ``rollout``: what ended waits for the others."""

    def rollout(self, act, *, frames=None):
        live, steps = torch.ones(self.num_envs, dtype=torch.bool), []
        for act_t in act.unbind(1):
            held = self.count.clone(), self.episode.clone()
            step = self.step(act_t)
            self.count = torch.where(live, self.count, held[0])
            self.episode = torch.where(live, self.episode, held[1])
            over = step.terminated & live, step.truncated & live
            steps.append(Step(self._obs(), step.next_obs, step.rew, *over, live, step.metrics))
            live = live & ~(over[0] | over[1])
        return steps


def chunked(env, obs_horizon=3, exec_horizon=3):
    return ChunkEnv(env, obs_horizon=obs_horizon, exec_horizon=exec_horizon, gamma=GAMMA)


def frames(obs, row):
    return obs["count"][row, :, 0].tolist()


ACT = torch.tensor([1.0, 2.0, 4.0, 9.0]).view(1, 4, 1)


def test_first_frame_fills_the_history():
    obs = chunked(Counter([9])).reset(0)
    assert obs["count"].shape == (1, 3, 1)
    assert frames(obs, 0) == [0, 0, 0]


@pytest.mark.parametrize("env", [Counter, Waiting])
def test_a_chunk_within_an_episode(env):
    """Executes 3 of 4 actions: 1 + ½·2 + ¼·4 = 3; γ³ = ⅛."""
    chunk = chunked(env([9]))
    chunk.reset(0)
    step = chunk.step(ACT)
    assert step.rew.item() == 3.0
    assert step.rew_sum.item() == 7.0
    assert step.discount.item() == 0.125
    assert step.num_exec.tolist() == [3]
    assert step.num_exec.dtype == torch.int64
    assert frames(step.obs, 0) == frames(step.next_obs, 0) == [1, 2, 3]
    assert step.valid.item()
    assert not step.terminated.item()
    assert frames(chunk.step(ACT).obs, 0) == [4, 5, 6]


def test_history_reaches_back_over_chunks():
    chunk = chunked(Counter([9]), obs_horizon=3, exec_horizon=1)
    chunk.reset(0)
    seen = [frames(chunk.step(ACT).obs, 0) for _ in range(3)]
    assert seen == [[0, 0, 1], [0, 1, 2], [1, 2, 3]]


@pytest.mark.parametrize("terminates", [1, 0])
def test_an_episode_that_ends_inside_a_chunk(terminates):
    """Env 0 ends at step 2: 1 + ½·2 = 2, γ² = ¼; env 1 goes on; each with its own history."""
    chunk = chunked(Waiting([2, 9], terminates=terminates))
    chunk.reset(0)
    step = chunk.step(ACT.repeat(2, 1, 1))
    assert step.rew.tolist() == [2.0, 3.0]
    assert step.rew_sum.tolist() == [3.0, 7.0]
    assert step.discount.tolist() == [0.25, 0.125]
    assert step.num_exec.tolist() == [2, 3]
    assert step.terminated.tolist() == [terminates == 1, False]
    assert step.truncated.tolist() == [terminates == 0, False]
    assert frames(step.next_obs, 0) == [0, 1, 2]
    assert frames(step.obs, 0) == [100, 100, 100]
    assert frames(step.next_obs, 1) == frames(step.obs, 1) == [1, 2, 3]


def test_without_rollout_leftover_actions_run_into_the_new_episode_and_are_dropped():
    """Env 0 ends at step 2 of 4; steps 3 and 4 are the new episode's first, seen in its history."""
    chunk = chunked(Counter([2, 9], terminates=1), obs_horizon=4, exec_horizon=4)
    chunk.reset(0)
    step = chunk.step(ACT.repeat(2, 1, 1))
    assert step.rew.tolist() == [2.0, 3.0 + 9.0 / 8]
    assert step.num_exec.tolist() == [2, 4]
    assert step.terminated.tolist() == [True, False]
    assert not step.truncated.any()  # the new episode's end is not this transition's
    assert frames(step.next_obs, 0) == [0, 0, 1, 2]
    assert frames(step.obs, 0) == [200, 200, 200, 200]  # ended again at step 4
    chunk = chunked(Counter([3]), obs_horizon=3, exec_horizon=4)
    chunk.reset(0)
    step = chunk.step(ACT)
    assert step.num_exec.tolist() == [3]
    assert frames(step.obs, 0) == [100, 100, 101]


def test_metrics_sum_reward_parts_and_keep_the_peak_of_the_rest():
    chunk = chunked(Waiting([2, 9]))
    chunk.reset(0)
    metrics = chunk.step(ACT.repeat(2, 1, 1)).metrics
    assert metrics["rew/act"].tolist() == [3.0, 7.0]
    assert metrics["peak"].tolist() == [-1.0, -1.0]
    chunk = chunked(Lossy([9, 9]))
    chunk.reset(0)
    step = chunk.step(ACT.repeat(2, 1, 1))
    assert step.metrics["rew/act"].tolist() == step.rew_sum.tolist() == [6.0, 7.0]


def test_over_the_simulator_it_agrees_with_its_single_steps(cart):
    env, single = cart.env(6, steps=50), cart.env(6, steps=50)
    chunk = ChunkEnv(env, obs_horizon=2, exec_horizon=4, gamma=0.9)
    chunk.reset(0)
    single.reset(0)
    act = random_act(env.act_spec, 6, 5, torch.Generator().manual_seed(0))
    step = chunk.step(act)
    steps = single.rollout(act[:, :4])
    rew = torch.stack([0.9**j * s.rew for j, s in enumerate(steps)]).sum(0)
    assert torch.allclose(step.rew, rew, atol=1e-6)
    for name, value in step.next_obs.items():
        assert torch.equal(value[:, 0], steps[2].next_obs[name])
        assert torch.equal(value[:, 1], steps[3].next_obs[name])


def test_a_world_lost_inside_a_chunk_keeps_the_steps_before_it(cart):
    env = cart.env(3, steps=50)
    chunk = ChunkEnv(env, obs_horizon=2, exec_horizon=4, gamma=0.5)
    before = chunk.reset(0)
    act = torch.zeros(3, 4, 1)
    act[0, 0], act[1, 2] = torch.nan, torch.nan
    step = chunk.step(act)
    assert step.num_exec.tolist() == [0, 2, 4]
    assert step.valid.tolist() == [False, True, True]
    assert step.truncated.tolist() == [True, True, False]
    assert step.discount.tolist() == [1.0, 0.25, 0.0625]
    assert step.metrics["nan_worlds"].tolist() == [1.0, 1.0, 0.0]
    assert step.lost.tolist() == [True, True, False]
    assert step.rew[0] == 0
    assert all(torch.equal(step.next_obs[k][0], before[k][0]) for k in before)
    assert all(torch.isfinite(v).all() for v in [*step.obs.values(), *step.next_obs.values()])


def test_snapshots_hold_the_history(cart):
    terms = (RandomizeTerm(field="body_mass", name="cart", range=(0.5, 2.0)),)
    chunk = ChunkEnv(cart.env(4, terms, steps=7), obs_horizon=3, exec_horizon=2, gamma=0.9)
    chunk.reset(0)
    acts = random_act(chunk.act_spec, 4, 40, torch.Generator().manual_seed(0)).split(4, dim=1)
    obs = [chunk.step(act).obs for act in acts[:4]][-1]
    snapshot = chunk.snapshot()
    first = [chunk.step(act) for act in acts[4:]]
    back = chunk.restore(snapshot)
    again = [chunk.step(act) for act in acts[4:]]
    assert all(torch.equal(obs[k], back[k]) for k in obs)
    for left, right in zip(first, again, strict=True):
        assert torch.equal(left.rew, right.rew)
        assert all(torch.equal(left.obs[k], right.obs[k]) for k in left.obs)


def test_misuse_is_one_typed_error():
    chunk = chunked(Counter([9]))
    chunk.reset(0)
    with pytest.raises(SpecError, match="H ≥ 3"):
        chunk.step(ACT[:, :2])
    with pytest.raises(PluginError, match="Counter"):
        chunk.snapshot()
    with pytest.raises(ConfigError, match="exec_horizon 0"):
        ChunkEnv(Counter([9]), obs_horizon=1, exec_horizon=0, gamma=0.9)


class Careless(Counter):
    """A counter whose reset or step differs from what it says."""

    def __init__(self, *, obs=torch.float32, rew=None):
        super().__init__([9, 9])
        self.obs, self.rew = obs, rew

    def reset(self, seed=None):
        return {name: value.to(self.obs) for name, value in super().reset(seed).items()}

    def step(self, act):
        step = super().step(act)
        return step if self.rew is None else step._replace(rew=self.rew(step.rew))


@pytest.mark.parametrize(
    ("env", "says"),
    [
        (Careless(obs=torch.float64), r"env Careless: reset\(\) does not fit obs_spec"),
        (
            Careless(rew=lambda rew: rew[:, None]),
            r"rew must be \(B,\) torch.float32; found \(2, 1\)",
        ),
        (Careless(rew=torch.Tensor.double), r"rew must be \(B,\) torch.float32"),
    ],
)
def test_what_does_not_fit_the_interface_is_refused_at_its_first_step(env, says):
    chunked = ChunkEnv(env, obs_horizon=1, exec_horizon=2, gamma=GAMMA)

    def play() -> None:
        chunked.reset(0)
        chunked.step(torch.zeros(2, 2, 1))

    with pytest.raises(PluginError, match=says):
        play()


@pytest.mark.parametrize("wrap", [MovedEnv, lambda env, _: RecordedEnv(env)])
def test_an_error_names_the_env_and_no_wrapper_of_ours(wrap):
    env = wrap(Careless(obs=torch.float64), torch.device("cpu"))
    with pytest.raises(PluginError, match=r"env Careless: reset\(\) does not fit obs_spec"):
        ChunkEnv(env, obs_horizon=1, exec_horizon=2, gamma=GAMMA).reset(0)


def test_what_an_env_lacks_is_said_of_the_env_and_what_a_wrapper_lacks_of_the_wrapper(cart):
    def snapshot(env: Any) -> None:
        ChunkEnv(env, obs_horizon=1, exec_horizon=2, gamma=GAMMA).snapshot()

    with pytest.raises(PluginError, match="env Counter: env has no snapshot and restore"):
        snapshot(MovedEnv(Counter([5]), torch.device("cpu")))
    with pytest.raises(PluginError, match="env RecordedEnv: env has no snapshot and restore"):
        snapshot(RecordedEnv(cart.env(2, steps=50)))
