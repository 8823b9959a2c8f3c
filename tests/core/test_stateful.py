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


def test_a_state_without_its_part_is_refused() -> None:
    state = Learner(nn.Linear(1, 1)).state_dict()
    learner = Learner()
    with pytest.raises(CheckpointError, match="state of 'gap' has no part to load into"):
        learner.load_state_dict(state)
    assert learner.gap is None


def test_plain_values_and_dicts_of_them_are_replaced_by_copies() -> None:
    class Seen(Stateful):
        state_parts = ("rows",)

        def __init__(self, rows: dict[str, torch.Tensor]) -> None:
            self.rows = rows

    state = Seen({"x": torch.zeros(2)}).state_dict()
    one = Seen({})
    one.load_state_dict(state)
    one.rows["x"] += 1.0
    one.rows["y"] = torch.ones(1)
    assert list(state["rows"]) == ["x"]
    assert not state["rows"]["x"].any()


def test_what_follows_from_parts_is_renewed_once_all_are_loaded() -> None:
    class Scaled(Learner):
        def _loaded(self) -> None:
            self.found = (self.updates, torch.cat([p.flatten() for p in self.net.parameters()]))

    learner = Learner()
    learner.step()
    scaled = Scaled()
    scaled.load_state_dict(learner.state_dict())
    assert scaled.found[0] == 1
    assert torch.equal(scaled.found[1], torch.cat([p.flatten() for p in learner.net.parameters()]))


def test_some_parts_are_loaded_alone() -> None:
    learner, other = Learner(), Learner()
    learner.step()
    other.load_states_of(("updates",), learner.states_of(("updates",)))
    assert other.updates == 1
    assert not torch.equal(other.net.weight, learner.net.weight)


def test_foreign_keys_are_left_alone() -> None:
    learner = Learner()
    learner.load_state_dict(learner.state_dict() | {"other": 1})
    assert not hasattr(learner, "other")
