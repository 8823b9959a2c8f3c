"""State by named parts."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import nn

from robo_rl.core.errors import CheckpointError
from robo_rl.core.stateful import Stateful


class Base(Stateful):
    state_parts = ("net", "updates")

    def __init__(self) -> None:
        self.net = nn.Linear(2, 1)
        self.updates = 0


class Learner(Base):
    state_parts = ("generator", "optimizers", "gap")

    def __init__(self, gap: nn.Module | None = None) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(1)
        self.optimizers = {"net": torch.optim.AdamW(self.net.parameters(), lr=0.1)}
        self.gap = gap

    def step(self) -> float:
        self.updates += 1
        loss = self.net(torch.randn(3, 2, generator=self.generator)).square().sum()
        self.optimizers["net"].zero_grad()
        loss.backward()
        self.optimizers["net"].step()
        return float(loss)


def test_a_learner_continues_to_the_bit() -> None:
    learner = Learner()
    learner.step()
    state = deepcopy(learner.state_dict())
    again = Learner()
    again.load_state_dict(state)
    assert again.updates == 1
    assert [again.step() for _ in range(3)] == [learner.step() for _ in range(3)]


def test_parts_are_those_of_all_bases_and_none_is_left_out() -> None:
    assert list(Learner().state_dict()) == ["net", "updates", "generator", "optimizers"]
    assert "gap" in Learner(nn.Linear(1, 1)).state_dict()


def test_missing_part_is_named() -> None:
    state = Learner().state_dict()
    del state["generator"]
    with pytest.raises(CheckpointError, match="generator"):
        Learner().load_state_dict(state)


def test_foreign_keys_are_left_alone() -> None:
    learner = Learner()
    learner.load_state_dict(learner.state_dict() | {"other": 1})
    assert not hasattr(learner, "other")
