"""A policy that is not ours, and a manifest of it: export must not ask how a policy is built."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from robo_rl.bundle.bundle import Bundle
from robo_rl.bundle.manifest import (
    ClosedLoopParity,
    Contract,
    GateRecord,
    Manifest,
    NumericParity,
    QueryLatency,
)
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.export.build import BundleEvidence, ClosedLoopScore, build_bundle
from robo_rl.export.onnx import contract_of, export_policy

OBS = ObsSpec(
    items={
        "joint_pos": TensorSpec(shape=(2,), unit="rad", names=("shoulder", "elbow")),
        "cube_pos": TensorSpec(shape=(3,), unit="m", frame="base"),
        "ignored": TensorSpec(shape=(4,)),
    }
)
ACT = ActSpec(
    shape=(2,),
    unit="rad",
    names=("shoulder", "elbow"),
    low=(-1.5, float("-inf")),
    high=(1.5, 2.0),
    rate_hz=20.0,
)


class StandIn(nn.Module):
    """An Euler flow over a small network."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.obs_spec, self.act_spec = OBS, ACT
        self.obs_horizon, self.horizon, self.exec_horizon, self.num_steps = 2, 8, 4, 3
        self.normalizer = SimpleNamespace(stats_hash="stats")
        self.net = nn.Sequential(nn.Linear(2 * 5 + 16 + 1, 32), nn.Tanh(), nn.Linear(32, 16))

    def decode(self, obs: dict[str, Tensor], noise: Tensor) -> Tensor:
        cond = torch.cat([obs["joint_pos"].flatten(1), obs["cube_pos"].flatten(1)], dim=-1)
        x = noise
        for k in range(self.num_steps):
            time = torch.full((x.shape[0], 1), k / self.num_steps)
            vel = self.net(torch.cat([cond, x.flatten(1), time], dim=-1)).view_as(x)
            x = x + vel / self.num_steps
        return 0.5 * x + 0.1

    def act(self, obs: dict[str, Tensor], generator: torch.Generator) -> Tensor:
        shape = (len(obs["joint_pos"]), self.horizon, 2)
        return self.decode(obs, torch.randn(shape, generator=generator))

    def settle_ties(self, obs: dict[str, Tensor], act: Tensor, other: Tensor) -> Tensor:
        return act


@pytest.fixture(scope="session")
def policy() -> StandIn:
    return StandIn()


@pytest.fixture(scope="session")
def contract(policy: StandIn) -> Contract:
    return contract_of(policy, name="stand_in", robot="arm", task="lift")


@pytest.fixture(scope="session")
def graph(policy: StandIn, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return export_policy(policy, tmp_path_factory.mktemp("graph") / "policy.onnx").read_bytes()


@pytest.fixture
def manifest(contract: Contract) -> Manifest:
    return Manifest(
        contract=contract,
        normalizer="stats",
        dataset="data",
        config={"algo": {"lr": 1e-4}},
        gates=(),
        evaluation={},
        numeric=NumericParity(max_abs=1e-6, limit=1e-4, rows=1000),
        closed_loop=ClosedLoopParity(
            success=0.95,
            episodes=200,
            policy_success=0.94,
            policy_episodes=200,
            low=0.9,
            high=0.97,
        ),
        latency={"onnx": QueryLatency(p50_us=50.0, p99_us=80.0, calls=1000)},
        versions={"robo-rl": "0"},
    )


@pytest.fixture
def dataset_obs() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return {
        name: torch.randn(1000, 2, *spec.shape, generator=generator)
        for name, spec in OBS.items.items()
    }


def run_build(
    policy: Any,
    path: Path,
    contract: Contract,
    obs: dict[str, Tensor],
    successes: int = 187,
    *,
    policy_successes: int = 188,
    loss: str = "",
    inpaint: bool = False,
    split: bool = False,
) -> Bundle:
    """Build a bundle of a policy whose proofs in closed loop are given."""
    return build_bundle(
        policy,
        path,
        contract=contract,
        evidence=BundleEvidence(
            "data", {"seed": 0}, (GateRecord(name="bc", passed=False, waiver="a trial"),)
        ),
        obs=obs,
        closed_loop=lambda session: ClosedLoopScore(successes, 200, loss),
        policy_score=(policy_successes, 200),
        generator=torch.Generator().manual_seed(0),
        latency_calls=50,
        inpaint=inpaint,
        split=split,
    )
