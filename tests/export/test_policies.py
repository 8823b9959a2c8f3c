"""Every family's evaluation path survives the way into one graph, history included."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small_policies import OBS, make_policy

from robo_rl.bundle.session import PolicySession
from robo_rl.export.onnx import contract_of, export_policy
from robo_rl.export.parity import inpaint_parity, numeric_parity


@pytest.mark.parametrize(
    ("sampler", "net"),
    [
        pytest.param("gaussian", "mlp", marks=pytest.mark.slow),
        ("ddim", "mlp"),
        pytest.param("categorical", "mlp", marks=pytest.mark.slow),
        pytest.param("flow_noise", "mlp", marks=pytest.mark.slow),
        pytest.param("flow_sde", "unet1d", marks=pytest.mark.slow),
    ],
)
def test_graph_equals_policy(sampler: str, net: str, tmp_path: Path) -> None:
    policy = make_policy(sampler, 2, obs_horizon=2, horizon=4, net={"name": net}).float()
    graph = export_policy(policy, tmp_path / "policy.onnx").read_bytes()
    session = PolicySession(graph, contract_of(policy, name=sampler, robot="none", task="none"))
    generator = torch.Generator().manual_seed(1)
    obs = {
        name: torch.randn(300, 2, *spec.shape, generator=generator)
        for name, spec in OBS.items.items()
    }
    assert numeric_parity(policy, session, obs, generator).max_abs < 1e-4


@pytest.mark.parametrize(
    ("sampler", "net"),
    [
        pytest.param("ddim", "mlp", marks=pytest.mark.slow),
        pytest.param("flow_noise", "mlp", marks=pytest.mark.slow),
        pytest.param("flow_sde", "unet1d", marks=pytest.mark.slow),
    ],
)
def test_graph_that_inpaints_equals_policy(sampler: str, net: str, tmp_path: Path) -> None:
    """Derivatives through the network included; 1e-4 in action units is the gate's own limit."""
    policy = make_policy(sampler, 2, obs_horizon=2, horizon=4, net={"name": net}).float()
    graph = export_policy(policy, tmp_path / "inpaint.onnx", inpaint=True).read_bytes()
    contract = contract_of(policy, name=sampler, robot="none", task="none")
    session = PolicySession(graph, contract, inpaint=True)
    generator = torch.Generator().manual_seed(1)
    obs = {
        name: torch.randn(300, 2, *spec.shape, generator=generator)
        for name, spec in OBS.items.items()
    }
    assert inpaint_parity(policy, session, obs, generator).max_abs < 1e-4


@pytest.mark.parametrize("inpaint", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_graph_adds_what_actions_are_relative_to(inpaint: bool, tmp_path: Path) -> None:
    policy = make_policy("flow_noise", 2, obs_horizon=2, horizon=4, relative_to="goal").float()
    graph = export_policy(policy, tmp_path / "policy.onnx", inpaint=inpaint).read_bytes()
    contract = contract_of(policy, name="flow_noise", robot="none", task="none")
    session = PolicySession(graph, contract, inpaint=inpaint)
    parity, generator = inpaint_parity if inpaint else numeric_parity, torch.Generator()
    obs = {name: torch.randn(300, 2, *spec.shape) for name, spec in OBS.items.items()}
    assert parity(policy, session, obs, generator).max_abs < 1e-4
