"""The graph is the policy, or there is no graph."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor

import robo_rl
from robo_rl.bundle.manifest import Contract
from robo_rl.bundle.session import PolicySession
from robo_rl.core.errors import GateError
from robo_rl.export import onnx as onnx_module
from robo_rl.export.onnx import Graph, export_policy, write_graph
from robo_rl.export.parity import paired_actions, session_as_policy


@pytest.mark.parametrize("rows", [1, 2, 7, 64])
def test_graph_equals_policy_at_any_batch(
    policy: Any, graph: bytes, contract: Contract, dataset_obs: dict[str, Tensor], rows: int
) -> None:
    noise = torch.randn(rows, *contract.chunk_shape)
    batch = {name: tensor[:rows] for name, tensor in dataset_obs.items()}
    ours, theirs = paired_actions(policy, PolicySession(graph, contract), batch, noise)
    assert np.abs(ours - theirs).max() < 1e-5


def test_exporting_changes_nothing_of_the_policy(policy: Any, tmp_path: Path) -> None:
    policy.train()
    before = copy.deepcopy(policy.state_dict())
    export_policy(policy, tmp_path / "policy.onnx")
    assert policy.training
    assert all(torch.equal(before[key], value) for key, value in policy.state_dict().items())


def test_same_policy_same_bytes(policy: Any, graph: bytes, tmp_path: Path) -> None:
    assert export_policy(policy, tmp_path / "policy.onnx").read_bytes() == graph


def test_graph_says_nothing_of_the_machine(graph: bytes) -> None:
    for place in (robo_rl.__file__, torch.__file__, __file__):
        assert str(Path(place).parent).encode() not in graph
    assert b"small_export.py" not in graph  # the policy's own file
    assert not any(node.metadata_props for node in onnx.load_from_string(graph).graph.node)


def test_a_frozen_batch_is_caught(policy: Any, tmp_path: Path) -> None:
    class Frozen(type(policy)):
        def decode(self, obs: dict[str, Tensor], noise: Tensor) -> Tensor:
            return super().decode(obs, noise) + torch.zeros(len(noise), 1, 1)

    with pytest.raises(GateError, match=r"x\.shape\[0\], not from len"):
        export_policy(Frozen(), tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())


def test_a_policy_that_does_not_trace_leaves_nothing(policy: Any, tmp_path: Path) -> None:
    class Branching(type(policy)):
        def decode(self, obs: dict[str, Tensor], noise: Tensor) -> Tensor:
            return noise if noise.sum().item() > 0 else -noise

    with pytest.raises(GateError, match="does not export"):
        export_policy(Branching(), tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())


def test_weights_in_another_file_are_refused(
    policy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the exporter writes them for a graph of more than 2 GB."""

    def write_large(model: Graph, path: Path) -> None:
        write_graph(model, path)
        whole = onnx.load(path)
        place = f"{path.name}.data"
        onnx.save_model(whole, path, save_as_external_data=True, location=place, size_threshold=0)
        assert path.with_name(place).is_file()

    monkeypatch.setattr(onnx_module, "write_graph", write_large)
    monkeypatch.chdir(tmp_path)  # where ONNX Runtime would find them
    with pytest.raises(GateError, match=r"policy\.onnx: .* has weights in another file.*2 GB"):
        export_policy(policy, tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())


def test_a_policy_that_draws_its_own_noise_is_caught(policy: Any, tmp_path: Path) -> None:
    class Restless(type(policy)):
        def decode(self, obs: dict[str, Tensor], noise: Tensor) -> Tensor:
            return super().decode(obs, noise) + torch.randn_like(noise)

    with pytest.raises(GateError):
        export_policy(Restless(), tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())


def test_graph_in_the_place_of_the_policy_draws_the_same_noise(
    policy: Any, graph: bytes, contract: Contract, dataset_obs: dict[str, Tensor]
) -> None:
    batch = {name: tensor[:5] for name, tensor in dataset_obs.items()}
    act = session_as_policy(PolicySession(graph, contract))(batch, torch.Generator().manual_seed(3))
    noise = torch.randn(5, *contract.chunk_shape, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(act, policy.decode(batch, noise), atol=1e-5, rtol=0)


class Planning:
    """Makes a policy of ``decode`` one that also goes on from a plan."""

    def inpaint(
        self, obs: dict[str, Tensor], noise: Tensor, planned: Tensor, weight: Tensor
    ) -> Tensor:
        return torch.lerp(self.decode(obs, noise), planned, weight[..., None])  # pyright: ignore


@pytest.fixture
def planning(policy: Any) -> Any:
    return type("PlanningPolicy", (Planning, type(policy)), {})()


@pytest.mark.parametrize("rows", [pytest.param(1, marks=pytest.mark.slow), 7])
def test_the_graph_that_inpaints_equals_the_policy(
    planning: Any, contract: Contract, dataset_obs: dict[str, Tensor], tmp_path: Path, rows: int
) -> None:
    graph = export_policy(planning, tmp_path / "inpaint.onnx", inpaint=True).read_bytes()
    session = PolicySession(graph, contract, inpaint=True)
    noise, planned = (torch.randn(rows, *contract.chunk_shape) for _ in range(2))
    batch = {name: tensor[:rows] for name, tensor in dataset_obs.items()}
    plan = planned, torch.rand(rows, contract.horizon)
    ours, theirs = paired_actions(planning, session, batch, noise, plan)
    assert np.abs(ours - theirs).max() < 1e-5
    free, without = paired_actions(planning, session, batch, noise)  # no plan: weight 0
    assert np.abs(free - without).max() < 1e-5
    assert np.abs(free - ours).max() > 0.1


def test_a_policy_that_cannot_go_on_from_a_plan_is_said_to_be_one(
    policy: Any, tmp_path: Path
) -> None:
    with pytest.raises(GateError, match="cannot go on from what is planned"):
        export_policy(policy, tmp_path / "inpaint.onnx", inpaint=True)
    assert not list(tmp_path.iterdir())
