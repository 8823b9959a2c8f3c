"""Captured losses: gradients of replays, by torch's own code on a pretended GPU."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator
from typing import Any

import pytest
import torch
from pretended_gpu import GPU, PretendedGpu, on_cpu
from pretended_graphs import CaptureError, PretendedGraph, install
from torch import Tensor, nn

from robo_rl.algo.ppo.ppo import Ppo
from robo_rl.config.models import dump_whole, validate_strict
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
    """The loss of rows, its metric, and the gradient of twice the loss."""
    net.zero_grad()
    pick = torch.tensor(rows).to(GPU)
    found, largest = loss(pick)
    (2.0 * found).backward()
    assert on_cpu(pick).tolist() == rows
    assert not largest.requires_grad
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
    assert (PretendedGraph.captured, PretendedGraph.replays) == (1, 3)


def test_a_capture_leaves_the_rows_that_it_was_given(net: nn.Module):
    graphed, order = CapturedLoss(net, squares(net)), torch.arange(6).to(GPU)
    for pick in order.tensor_split(2):
        graphed(pick)
    assert on_cpu(order).tolist() == list(range(6))


def test_another_number_of_rows_has_a_graph_of_its_own(net: nn.Module):
    eager = squares(net)
    graphed = CapturedLoss(net, eager)
    for rows in ([0, 1, 2], [3, 4], [5, 6, 7], [8, 9]):
        assert torch.equal(gradient(net, graphed, rows), gradient(net, eager, rows))
    assert (PretendedGraph.captured, PretendedGraph.replays) == (2, 4)


def test_a_parameter_that_the_loss_does_not_use_stays(net: nn.Module):
    net.register_parameter("other", nn.Parameter(torch.ones(2, device=GPU)))
    found, _ = CapturedLoss(net, squares(net))(torch.arange(3).to(GPU))
    found.backward()
    assert net.get_parameter("other").grad is None  # an optimiser would decay its weight


def test_graphs_end_with_what_holds_them_and_not_in_a_capture(net: nn.Module):
    """Without the cyclic garbage collector, which may run within a later capture."""
    before = PretendedGraph.alive
    gc.disable()
    try:
        for _ in range(3):
            graphed = CapturedLoss(net, squares(net))
            for size in (3, 4):
                gradient(net, graphed, list(range(size)))
            assert PretendedGraph.alive - before == 2
            del graphed
            assert PretendedGraph.alive == before
    finally:
        gc.enable()
    assert PretendedGraph.ended_in_capture == 0


def test_the_garbage_collector_rests_in_a_capture(net: nn.Module):
    seen, eager = list[bool](), squares(net)

    def loss(pick: Tensor) -> tuple[Tensor, Tensor]:
        seen.append(gc.isenabled())
        return eager(pick)

    CapturedLoss(net, loss)(torch.arange(3).to(GPU))
    assert seen == [True, False]  # the warm-up, and the capture
    assert gc.isenabled()


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


def test_the_default_leaves_hashes_of_configs_alone_and_is_shown():
    assert CaptureConfig().model_dump() == {}
    assert CaptureConfig(cuda_graphs=True).model_dump() == {"cuda_graphs": True}
    assert dump_whole(CaptureConfig()) == {"cuda_graphs": False}


@pytest.mark.parametrize(
    "of_steps", [{"ratio": "per_step"}, {"ratio": "cfm", "cfm": {"per_sample": True}}]
)
def test_units_that_share_an_observation_are_refused(of_steps: dict[str, Any]):
    with pytest.raises(ValueError, match="cuda_graphs: minibatches of ratio"):
        validate_strict({**of_steps, "cuda_graphs": True}, Ppo.Config)
