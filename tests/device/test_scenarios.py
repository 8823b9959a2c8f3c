"""Whatever learns and collects computes where its policy is, and comes to the CPU's numbers."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch
from pretended_gpu import CPU, GPU, PretendedGpu, on_cpu
from pretended_graphs import install

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

SCENARIOS = import_module("_device_scenarios").SCENARIOS
SLOW = {
    *("ppo graphs", "ppo graphs bf16"),  # ``test_cuda_graphs`` holds the same
    # other terms and ratios of the update of "ppo regularization" and "ppo noise_conditioned"
    *("ppo joint", "ppo last steps", "ppo averages", "ppo guard"),
    *("ppo single_step", "ppo per_step"),
    *("td3 flow", "sac flow"),  # as "td3 c51" and "sac gaussian"
    *("sight resnet18", "sight vit"),  # as "sight conv"
}
TOLERANCE, TOLERANCE_BF16 = 2e-5, 2e-3


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in SCENARIOS]
)
def test_a_gpu_refuses_nothing_and_gives_the_same_numbers(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    install(monkeypatch)
    with PretendedGpu():
        found = [on_cpu(tensor).detach() for tensor in SCENARIOS[name](GPU)]
    wanted = SCENARIOS[name](CPU)
    assert len(found) == len(wanted) > 0
    for here, there in zip(found, wanted, strict=True):
        bound = TOLERANCE_BF16 if "bf16" in name else TOLERANCE
        torch.testing.assert_close(here, there.detach(), rtol=bound, atol=bound, equal_nan=True)
