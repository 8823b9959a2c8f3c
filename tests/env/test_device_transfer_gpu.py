"""An env's words on another device: all of them, unchanged, in one transfer."""

from __future__ import annotations

import torch
from pretended_gpu import GPU, PretendedGpu, on_cpu
from torch import Tensor

from robo_rl.api.env import Step
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.env.device_transfer import on_device


class Near:
    """An env of one picture and one number, on the processor."""

    device, num_envs, dt_s, max_episode_steps = torch.device("cpu"), 3, 0.05, 10
    obs_spec = ObsSpec(items={"eye": TensorSpec(shape=(3, 2, 2), dtype="uint8")})
    act_spec = ActSpec(shape=(2,), rate_hz=20.0)

    def reset(self, seed: int | None = None) -> dict[str, Tensor]:
        del seed
        return {"eye": torch.arange(36, dtype=torch.uint8).view(3, 3, 2, 2)}

    def step(self, act: Tensor) -> Step:
        obs, flag = self.reset(), torch.tensor([True, False, True])
        return Step(
            obs, obs, act.sum(dim=1), flag, ~flag, flag, {"age": torch.arange(3.0).double()}
        )

    def close(self) -> None: ...


def test_a_step_goes_over_in_one_transfer_and_comes_out_as_it_was():
    near, act = Near(), torch.rand(3, 2)
    wanted = near.step(act)
    with PretendedGpu() as gpu:
        found = on_device(near, GPU).step(act.to(GPU))
        places = [x.device == found.rew.device for x in (*found.obs.values(), *found[2:6])]
        waits = {why for line, why in gpu.waits if "robo_rl/" in line}
        assert waits == {"to the host"}  # the action's; the way back is not waited for
    assert all(places)
    assert found.obs is found.next_obs
    for name in ("rew", "terminated", "truncated", "valid"):
        assert torch.equal(on_cpu(getattr(found, name)), getattr(wanted, name))
    assert torch.equal(on_cpu(found.obs["eye"]), wanted.obs["eye"])
    assert on_cpu(found.metrics["age"]).dtype == torch.float64


def test_what_is_there_already_stays_what_it_is():
    near = Near()
    assert on_device(near, near.device) is near
