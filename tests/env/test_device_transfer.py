"""An env on another device, seen from the processor; the device is torch's pretence of a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from robo_rl.api.env import Branchable, Groupable, OpenLoop, SimView, Step
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.env.chunk_env import Restable
from robo_rl.env.device_transfer import HOST, on_device

GPU, ENVS = torch.device("cuda", 0), 3


@pytest.fixture(autouse=True)
def _pretence() -> Iterator[None]:
    with FakeTensorMode():
        yield


class Far:
    """An env of single steps on a GPU, which demands that actions are there."""

    device, num_envs, dt_s, max_episode_steps = GPU, ENVS, 0.05, 10
    obs_spec, act_spec = (
        ObsSpec(items={"pos": TensorSpec(shape=(2,))}),
        ActSpec(shape=(2,), rate_hz=20.0),
    )

    def reset(self, seed: int | None = None) -> dict[str, Tensor]:
        return {"pos": torch.zeros(ENVS, 2, device=GPU)}

    def step(self, act: Tensor) -> Step:
        assert act.device == GPU
        obs, flag = self.reset(), torch.zeros(ENVS, dtype=torch.bool, device=GPU)
        rew = torch.zeros(ENVS, device=GPU)
        return Step(obs, obs, rew, flag, flag, flag, {"success": rew})

    def close(self) -> None:
        self.closed = True


class FarSim(Far):
    """Likewise, with all that a simulator offers."""

    task = SimpleNamespace(name="far")

    @property
    def view(self) -> SimView:
        some, goal = torch.zeros(ENVS, 2, device=GPU), {"at": torch.zeros(ENVS, 3, device=GPU)}
        return SimView(some, some, some, some, some, goal, {"hand": slice(0, 1)}, {"lost": some})

    def rollout(self, act: Tensor, *, frames: int | None = None) -> list[Step]:
        return [self.step(each) for each in act.unbind(1)]

    def snapshot(self) -> dict[str, Any]:
        return {"qpos": torch.zeros(ENVS, 2, device=GPU)}

    def restore(self, snapshot: Any) -> dict[str, Tensor]:
        assert snapshot["qpos"].device == GPU
        return self.reset()

    def reset_groups(self, size: int, seed: int) -> dict[str, Tensor]:
        return self.reset()


def places(value: Any) -> set[str]:
    if isinstance(value, Tensor):
        return {value.device.type}
    if isinstance(value, dict):
        value = list(value.values())
    return set().union(*map(places, value)) if isinstance(value, (list, tuple)) else set()


def test_what_is_here_stays_what_it_is():
    near: Any = SimpleNamespace(device=torch.device("cpu"))
    assert on_device(near, HOST) is near


@pytest.mark.parametrize("kind", [Far, FarSim])
def test_all_that_is_said_is_brought_here_and_actions_are_brought_there(kind):
    env = on_device(kind(), HOST)
    assert env.device.type == "cpu"
    step = env.step(torch.zeros(ENVS, 2))
    assert places([env.reset(0), *step]) == {"cpu"}
    assert step.obs is step.next_obs  # as where nobody was reset


def test_a_simulator_is_one_still_and_another_env_is_none():
    sim: Any = on_device(FarSim(), HOST)
    env = on_device(Far(), HOST)
    offered = (OpenLoop, Branchable, Groupable)
    assert [isinstance(sim, kind) for kind in offered] == [True] * 3
    assert [isinstance(env, kind) for kind in offered] == [False] * 3
    assert "view" not in dir(env)
    view = sim.view
    said = [view.qpos, view.time_s, view.goal, view.counters, sim.reset_groups(1, 0)]
    assert places([*said, *sim.rollout(torch.zeros(ENVS, 4, 2))]) == {"cpu"}
    assert view.slices == {"hand": slice(0, 1)}
    assert sim.task is FarSim.task
    assert places(sim.snapshot()) == {"cuda"}  # a state stays where it is
    assert places(sim.restore(sim.snapshot())) == {"cpu"}


class FarGym(Far):
    """A Gymnasium env's optional methods: all but ``snapshot``."""

    def rollout(self, act: Tensor, *, frames: int | None = None) -> list[Step]:
        return [self.step(each) for each in act.unbind(1)]

    def reset_groups(self, size: int, seed: int) -> dict[str, Tensor]:
        return self.reset()

    def rest(self, envs: Tensor) -> None:
        assert envs.device == GPU


def test_every_optional_method_comes_over_on_its_own():
    env: Any = on_device(FarGym(), HOST)
    offered = (OpenLoop, Branchable, Groupable, Restable)
    assert [isinstance(env, kind) for kind in offered] == [True, False, True, True]
    assert places(env.rollout(torch.zeros(ENVS, 4, 2))) == {"cpu"}
    assert places(env.reset_groups(1, 0)) == {"cpu"}
    env.rest(torch.zeros(ENVS, dtype=torch.bool))


def test_a_wrapper_around_what_cannot_branch_cannot_either():
    class Wrapper(FarSim):
        restorable = False

    assert not isinstance(on_device(Wrapper(), HOST), Branchable)
