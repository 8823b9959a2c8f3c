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
from robo_rl.env.device_transfer import HostEnv, HostSimEnv, to_host

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
    near = SimpleNamespace(device=torch.device("cpu"))
    assert to_host(near) is near  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("kind", [Far, FarSim])
def test_all_that_is_said_is_brought_here_and_actions_are_brought_there(kind):
    env = to_host(kind())
    assert env.device.type == "cpu"
    step = env.step(torch.zeros(ENVS, 2))
    assert places([env.reset(0), *step]) == {"cpu"}
    assert step.obs is step.next_obs  # as where nobody was reset


def test_a_simulator_is_one_still_and_another_env_is_none():
    sim, env = to_host(FarSim()), to_host(Far())
    for offered in (OpenLoop, Branchable, Groupable):
        assert isinstance(sim, offered)
        assert not isinstance(env, offered)
    assert isinstance(sim, HostSimEnv)
    assert isinstance(env, HostEnv)
    view = sim.view
    said = [view.qpos, view.time_s, view.goal, view.counters, sim.reset_groups(1, 0)]
    assert places([*said, *sim.rollout(torch.zeros(ENVS, 4, 2))]) == {"cpu"}
    assert view.slices == {"hand": slice(0, 1)}
    assert sim.task is FarSim.task
    assert places(sim.snapshot()) == {"cuda"}  # a state stays where it is
    assert places(sim.restore(sim.snapshot())) == {"cpu"}
