"""A view of a world that a test makes up."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from robo_rl.api.env import SimView


@pytest.fixture
def make_view() -> Callable[..., SimView]:
    """Sensor name → (B, n) and goal name → (B, …) to a view of B worlds."""

    def make(sensors: dict[str, torch.Tensor], goal: dict[str, torch.Tensor] | None = None):
        ends = torch.tensor([0] + [value.shape[1] for value in sensors.values()]).cumsum(0).tolist()
        slices = {name: slice(*ends[i : i + 2]) for i, name in enumerate(sensors)}
        data = torch.cat(list(sensors.values()), dim=1)
        empty = data.new_zeros(len(data), 0)
        return SimView(empty, empty, empty, data.new_zeros(len(data)), data, goal or {}, slices)

    return make
