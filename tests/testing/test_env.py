"""The suites bite: each way of breaking an env or a backend is refused by name."""

import pytest
import torch

from robo_rl.api.env import Step
from robo_rl.core.errors import PluginError
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.env.mujoco.cpu_backend import MujocoCpu
from robo_rl.testing.env import check_backend, check_branchable, check_vec_env


class Walk:
    """A point that walks by its action, three steps an episode; conforms."""

    def __init__(self, num_envs: int):
        self.num_envs, self.device = num_envs, torch.device("cpu")
        self.obs_spec = ObsSpec(items={"x": TensorSpec(shape=(1,))})
        self.act_spec = ActSpec(shape=(1,), low=(-1.0,), high=(1.0,), rate_hz=10)
        self.dt_s, self.max_episode_steps = 0.1, 3
        self.generator = torch.Generator()

    def reset(self, seed=None):
        if seed is not None:
            self.generator.manual_seed(seed)
        self.x, self.t = torch.randn(self.num_envs, 1, generator=self.generator), 0
        return {"x": self.x}

    def step(self, act):
        self.x, self.t = self.x + act.clamp(-1, 1), self.t + 1
        over = torch.full((self.num_envs,), self.t == 3)
        next_obs, rew = {"x": self.x}, -self.x[:, 0].abs()
        obs = self.reset() if self.t == 3 else next_obs
        return Step(obs, next_obs, rew, ~over & over, over, over | ~over, {"success": rew * 0})

    def snapshot(self):
        return {"x": self.x, "t": self.t, "generator": self.generator.get_state()}

    def restore(self, snapshot):
        self.x, self.t = snapshot["x"], snapshot["t"]
        self.generator.set_state(snapshot["generator"])
        return {"x": self.x}

    def close(self):
        pass


class Unclipped(Walk):
    def step(self, act):
        self.x = self.x + act - act.clamp(-1, 1)
        return super().step(act)


class Endless(Walk):
    def step(self, act):
        self.t = 0
        return super().step(act)


class Unseeded(Walk):
    def reset(self, seed=None):
        return super().reset(None)


class WrongShape(Walk):
    def reset(self, seed=None):
        return {"x": super().reset(seed)["x"][:, 0]}


class Stale(Walk):
    """Gives the observation before the step."""

    def step(self, act):
        before = self.x
        return super().step(act)._replace(obs={"x": before})


class Forgetful(Walk):
    """Leaves its random stream out of the snapshot."""

    def restore(self, snapshot):
        self.x, self.t = snapshot["x"], snapshot["t"]
        return {"x": self.x}


def test_what_conforms_passes():
    check_vec_env(Walk)
    check_branchable(Walk)


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (Unclipped, "not clipped"),
        (Endless, "outlasts"),
        (Unseeded, "same seed"),
        (WrongShape, "does not fit obs_spec"),
        (Stale, "differs from next_obs"),
    ],
)
def test_a_broken_env_is_refused(broken, says):
    with pytest.raises(PluginError, match=says):
        check_vec_env(broken)


def test_an_inexact_snapshot_is_refused():
    with pytest.raises(PluginError, match="another course"):
        check_branchable(Forgetful)


class NoForward(MujocoCpu):
    def _forward(self, rows, state):
        return self._sensordata[rows]


class OneStepOnly(MujocoCpu):
    """Holds the first control of a sequence."""

    def step(self, ctrl, substeps):
        return super().step(ctrl[:, :1].expand_as(ctrl), substeps)


class DeafToFields(MujocoCpu):
    def write(self, ids, qpos, qvel, fields=None, mocap=None):
        super().write(ids, qpos, qvel, mocap=mocap)


class DeafToMocap(MujocoCpu):
    def write(self, ids, qpos, qvel, fields=None, mocap=None):
        super().write(ids, qpos, qvel, fields)


class WritesAll(MujocoCpu):
    def write(self, ids, qpos, qvel, fields=None, mocap=None):
        count = len(self._state)
        super().write(torch.arange(count), qpos[:1].expand(count, -1), qvel[:1].expand(count, -1))


class KeepsHistory(MujocoCpu):
    """Does not give a lost world its clock back."""

    def write(self, ids, qpos, qvel, fields=None, mocap=None):
        time_s = self._state[ids.numpy(), 0].copy()
        super().write(ids, qpos, qvel, fields)
        self._state[ids.numpy(), 0] = time_s


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (NoForward, "stale"),
        (OneStepOnly, "differ from T calls"),
        (DeafToFields, "no effect"),
        (DeafToMocap, "a mocap body is not where"),
        (WritesAll, "other worlds"),
        (KeepsHistory, "time to zero"),
    ],
)
def test_a_broken_backend_is_refused(broken, says):
    with pytest.raises(PluginError, match=says):
        check_backend(lambda: broken(MujocoCpu.Config(threads=1)))
