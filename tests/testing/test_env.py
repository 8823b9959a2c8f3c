"""The suites bite: each way of breaking an env or a backend is refused by name."""

from dataclasses import replace

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


class Timeless(Walk):
    def __init__(self, num_envs: int):
        super().__init__(num_envs)
        self.dt_s = 0.0


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


class DoubleReward(Walk):
    def step(self, act):
        step = super().step(act)
        return step._replace(rew=step.rew.double())


class InfiniteReward(Walk):
    def step(self, act):
        step = super().step(act)
        return step._replace(rew=step.rew / step.truncated.logical_not())


class EndsWhatWasLost(Walk):
    def step(self, act):
        step = super().step(act)
        return step._replace(terminated=step.truncated, valid=~step.truncated)


class ReusesBuffers(Walk):
    """Returns the same tensors in every step, and draws its starts from another stream."""

    kept = None

    def reset(self, seed=None):
        return super().reset(None)

    def step(self, act):
        step = super().step(act)
        if self.kept is None:
            self.kept = step._replace(obs={"x": step.obs["x"].clone()})
        for name in ("rew", "terminated", "truncated", "valid"):
            getattr(self.kept, name).copy_(getattr(step, name))
        for name in ("obs", "next_obs", "metrics"):
            for key, value in getattr(step, name).items():
                getattr(self.kept, name)[key].copy_(value)
        return self.kept


class ReusesReward(Walk):
    """Returns one of two reward tensors in turn."""

    def step(self, act):
        step = super().step(act)
        self.pair = getattr(self, "pair", [torch.zeros(self.num_envs) for _ in range(2)])[::-1]
        return step._replace(rew=self.pair[0].copy_(step.rew))


class WritesItsStart(Walk):
    """Uses the tensor of its first observation for something else; later episodes copy it."""

    def reset(self, seed=None):
        start = super().reset(seed)["x"]
        self.start = start.clone()
        return {"x": start if seed is None else self.start}

    def step(self, act):
        self.start.add_(1.0)
        return super().step(act)


class RollingWalk(Walk):
    """Walks several steps in one call, and waits where its episode ends; conforms."""

    def rollout(self, act, *, frames=None):
        steps = []
        for act_t in act.unbind(1):
            over = bool(steps) and bool((steps[-1].truncated | ~steps[-1].valid).all())
            steps.append(self.wait(steps[-1]) if over else self.step(act_t))
        return steps

    def wait(self, last):
        no = torch.zeros(self.num_envs, dtype=torch.bool)
        return last._replace(rew=last.rew * 0, terminated=no, truncated=no, valid=no)


class ReusesRollouts(RollingWalk):
    """Returns the rewards of all rollouts in the same tensors."""

    def rollout(self, act, *, frames=None):
        steps = super().rollout(act)
        kept = self.__dict__.setdefault("kept", [step.rew.clone() for step in steps])
        pairs = zip(steps, kept, strict=True)
        return [step._replace(rew=rew.copy_(step.rew)) for step, rew in pairs]


class GoesOnBehindTheEnd(RollingWalk):
    def wait(self, last):
        waiting = super().wait(last)
        return waiting._replace(valid=~waiting.valid)


class EndsTwice(RollingWalk):
    def wait(self, last):
        waiting = super().wait(last)
        return waiting._replace(truncated=~waiting.truncated)


def test_what_conforms_passes():
    check_vec_env(Walk)
    check_vec_env(RollingWalk)
    check_branchable(Walk)


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (Unclipped, "not clipped"),
        (Endless, "outlasts"),
        (Timeless, "dt_s is no period; expected a control period in s, above 0, found 0"),
        (Unseeded, "same seed"),
        (WrongShape, "does not fit obs_spec"),
        (Stale, "differs from next_obs"),
        (DoubleReward, r"rew must be \(B,\) torch.float32"),
        (InfiniteReward, "a reward is not finite"),
        (EndsWhatWasLost, "an invalid step terminates"),
        (ReusesBuffers, "later step changes .* found step 0: obs, next_obs, rew,"),
        (ReusesReward, "later step changes .* found step 0: rew"),
        (ReusesRollouts, "later step changes .* found step 0: rew"),
        (WritesItsStart, "a step changes the tensors that reset"),
        (GoesOnBehindTheEnd, "a step behind the episode's end is valid"),
        (EndsTwice, "an episode ends twice"),
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


class Ahead(MujocoCpu):
    """Its sensors measure the state that a step ends in."""

    def step(self, ctrl, substeps):
        views = super().step(ctrl, substeps)
        return [replace(view, sensordata=view.qpos[:, :1].clone()) for view in views]


class Contagious(MujocoCpu):
    """A control that is no number reaches every world."""

    def step(self, ctrl, substeps):
        return super().step(ctrl + 0.0 * ctrl.sum(), substeps)


class WritesFieldsToAll(MujocoCpu):
    def write(self, ids, qpos, qvel, fields=None, mocap=None):
        super().write(ids, qpos, qvel, fields, mocap)
        if fields:
            view, count = self.view(), len(self._state)
            every = {name: value[:1].expand(count, -1) for name, value in fields.items()}
            super().write(torch.arange(count), view.qpos.clone(), view.qvel.clone(), every)


class WritesMocapToAll(MujocoCpu):
    def write(self, ids, qpos, qvel, fields=None, mocap=None):
        super().write(ids, qpos, qvel, fields, mocap)
        if mocap is not None:
            view, count = self.view(), len(self._state)
            pose = mocap[:1].expand(count, -1, -1)
            super().write(torch.arange(count), view.qpos.clone(), view.qvel.clone(), fields, pose)


class KeepsMocap(MujocoCpu):
    """A body stays where it was put, whatever is written after that."""

    kept = None

    def write(self, ids, qpos, qvel, fields=None, mocap=None):
        self.kept = mocap if mocap is not None else self.kept
        pose = None if self.kept is None else self.kept[:1].expand(len(ids), -1, -1)
        super().write(ids, qpos, qvel, fields, pose)


class DropsVelocity(MujocoCpu):
    def write(self, ids, qpos, qvel, fields=None, mocap=None, ctrl=None):
        super().write(ids, qpos, 0.0 * qvel, fields, mocap, ctrl)


class ForgetsVelocity(MujocoCpu):
    """Shows a written velocity, and begins each step at rest."""

    def step(self, ctrl, substeps):
        if not self.view().time_s.any():
            self.view().qvel.zero_()
        return super().step(ctrl, substeps)


class DropsCtrl(MujocoCpu):
    def write(self, ids, qpos, qvel, fields=None, mocap=None, ctrl=None):
        super().write(ids, qpos, qvel, fields, mocap)


class KeepsCtrl(MujocoCpu):
    """Shows the control from before a write."""

    def write(self, ids, qpos, qvel, fields=None, mocap=None, ctrl=None):
        ctrl = self.view().ctrl[ids] if ctrl is None else ctrl
        super().write(ids, qpos, qvel, fields, mocap, ctrl)


class HidesCtrl(MujocoCpu):
    def step(self, ctrl, substeps):
        views = super().step(ctrl, substeps)
        return [replace(view, ctrl=0.0 * view.ctrl) for view in views]


class DropsTurn(MujocoCpu):
    def write(self, ids, qpos, qvel, fields=None, mocap=None, ctrl=None):
        if mocap is not None:
            mocap = torch.cat([mocap[..., :3], 0.0 * mocap[..., 3:]], dim=-1)
            mocap[..., 3] = 1.0
        super().write(ids, qpos, qvel, fields, mocap, ctrl)


class TurnsTheOtherWay(MujocoCpu):
    def write(self, ids, qpos, qvel, fields=None, mocap=None, ctrl=None):
        mocap = mocap if mocap is None else mocap * torch.tensor([1, 1, 1, 1, -1, -1, -1])
        super().write(ids, qpos, qvel, fields, mocap, ctrl)


class TurnsByXyzw(MujocoCpu):
    def write(self, ids, qpos, qvel, fields=None, mocap=None, ctrl=None):
        if mocap is not None and (mocap[..., 3] != 1).any():
            mocap = mocap[..., [0, 1, 2, 6, 3, 4, 5]]
        super().write(ids, qpos, qvel, fields, mocap, ctrl)


class SaysAnotherType(MujocoCpu):
    dtype = torch.float32


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (NoForward, "stale"),
        (OneStepOnly, "differ from T calls"),
        (DeafToFields, "no effect"),
        (DeafToMocap, "a mocap body is not where"),
        (WritesAll, "other worlds"),
        (KeepsHistory, "time to zero"),
        (Ahead, "sensors must lag the state"),
        (Contagious, "a bad world disturbs the others"),
        (WritesFieldsToAll, "a field of one world reaches the others"),
        (WritesMocapToAll, "a mocap body reaches other worlds"),
        (KeepsMocap, "leaves a mocap body where it was"),
        (DropsVelocity, "leaves qvel stale"),
        (ForgetsVelocity, "a written qvel moves nothing"),
        (DropsCtrl, r"after write\(ctrl\) does not show"),
        (KeepsCtrl, r"after write\(\) without ctrl does not show"),
        (HidesCtrl, r"conformance: step\(\) does not show the last control"),
        (DropsTurn, "a mocap body is not turned"),
        (TurnsTheOtherWay, "a mocap body is not turned"),
        (TurnsByXyzw, "a mocap body is not turned"),
        (SaysAnotherType, "dtype is not that of the views"),
    ],
)
def test_a_broken_backend_is_refused(broken, says):
    with pytest.raises(PluginError, match=says):
        check_backend(lambda: broken(MujocoCpu.Config(threads=1)))
