"""Steps go to another device and back in one transfer, and come out as they were."""

from __future__ import annotations

import torch
from pretended_gpu import GPU, PretendedGpu, on_cpu

from robo_rl.api.env import Step
from robo_rl.env.packed_transfer import sent


def steps(device: torch.device) -> list[Step]:
    return [step(t, device) for t in range(4)]


def step(t: int, device: torch.device) -> Step:
    """No two of these are alike."""
    eye = torch.arange(36, dtype=torch.uint8, device=device).view(3, 3, 2, 2) + t
    flag = (torch.arange(3, device=device) + t) % 4 == 0
    rew = torch.arange(3.0, device=device) + t
    age = torch.arange(3.0, dtype=torch.float64, device=device) - t
    obs = {"eye": eye}
    return Step(obs, obs, rew, flag, ~flag, flag, {"age": age})


def test_the_way_back_is_one_wait_for_all_steps():
    with PretendedGpu() as gpu:
        there = steps(GPU)
        gpu.waits.clear()
        found = sent(there, torch.device("cpu"))
        assert sum(gpu.waits.values()) == 1
        for one, other in zip(found, there, strict=True):
            assert one.obs is one.next_obs
            assert torch.equal(one.obs["eye"], on_cpu(other.obs["eye"]))
            for name in ("rew", "terminated", "truncated", "valid"):
                assert torch.equal(getattr(one, name), on_cpu(getattr(other, name)))
            assert torch.equal(one.metrics["age"], on_cpu(other.metrics["age"]))
            assert one.metrics["age"].dtype == torch.float64


def test_what_is_there_already_stays_what_it_is():
    here = steps(torch.device("cpu"))
    found = sent(here, torch.device("cpu"))
    assert found[0].rew is here[0].rew
    assert sent([], GPU) == []
