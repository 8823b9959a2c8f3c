"""Captured losses: gradients of replays, by torch's own code on a pretended GPU."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest
import torch
from pretended_gpu import GPU, PretendedGpu, on_cpu
from pretended_graphs import CaptureError, PretendedGraph, install
from torch import Tensor, nn

from robo_rl.algo.ppo.ppo import Ppo
from robo_rl.config.models import validate_strict
from robo_rl.optim.captured_loss import CaptureConfig, CapturedLoss, captured

ROWS = 12


@pytest.fixture(autouse=True)
def _gpu(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    install(monkeypatch)
    with PretendedGpu():
        yield


@pytest.fixture
def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).to(GPU)


def squares(net: nn.Module) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    torch.manual_seed(1)
    data = torch.randn(ROWS, 3).to(GPU)

    def loss(pick: Tensor) -> tuple[Tensor, Tensor]:
        found = net(data[pick]).square()
        return found.mean(), found.detach().amax()

    return loss


def gradient(
    net: nn.Module, loss: Callable[[Tensor], tuple[Tensor, ...]], rows: list[int]
) -> Tensor:
    net.zero_grad()
    found, largest = loss(torch.tensor(rows).to(GPU))
    (2.0 * found).backward()
    parts = [found, largest, *(param.grad for param in net.parameters() if param.grad is not None)]
    return torch.cat([on_cpu(part.detach()).flatten() for part in parts])


def test_a_replay_reads_its_rows_and_the_weights_of_now(net: nn.Module):
    eager = squares(net)
    graphed = CapturedLoss(net, eager)
    for rows in ([0, 1, 2], [3, 4, 5], [6, 7, 8]):
        assert torch.equal(gradient(net, graphed, rows), gradient(net, eager, rows))
        with torch.no_grad():
            for param in net.parameters():
                param.mul_(1.5)
    assert PretendedGraph.captured == 2  # forward and backward, once
    assert PretendedGraph.replays == 6


def test_another_number_of_rows_has_a_graph_of_its_own(net: nn.Module):
    eager = squares(net)
    graphed = CapturedLoss(net, eager)
    for rows in ([0, 1, 2], [3, 4], [5, 6, 7], [8, 9]):
        assert torch.equal(gradient(net, graphed, rows), gradient(net, eager, rows))
    assert PretendedGraph.captured == 4


def test_a_loss_that_reads_a_number_is_no_graph(net: nn.Module):
    def loss(pick: Tensor) -> tuple[Tensor]:
        found = net(torch.zeros(len(pick), 3, device=GPU)).mean()
        return (found if found.item() > 0 else -found,)

    with pytest.raises(CaptureError, match="waits"):
        CapturedLoss(net, loss)(torch.arange(3).to(GPU))


def test_a_cpu_and_the_default_run_without_graphs(net: nn.Module):
    loss, on_host = squares(net), nn.Linear(1, 1)
    assert captured(CaptureConfig(), net, loss) is loss
    assert captured(CaptureConfig(cuda_graphs=True), on_host, loss) is loss
    assert isinstance(captured(CaptureConfig(cuda_graphs=True), net, loss), CapturedLoss)


def test_the_default_leaves_hashes_of_configs_alone():
    assert CaptureConfig().model_dump() == {}
    assert CaptureConfig(cuda_graphs=True).model_dump() == {"cuda_graphs": True}


@pytest.mark.parametrize(
    "of_steps", [{"ratio": "per_step"}, {"ratio": "cfm", "cfm": {"per_sample": True}}]
)
def test_units_that_share_an_observation_are_refused(of_steps: dict[str, Any]):
    with pytest.raises(ValueError, match="cuda_graphs: how many observations"):
        validate_strict({**of_steps, "cuda_graphs": True}, Ppo.Config)
