"""Observations have names that datasets and exported graphs can use."""

from __future__ import annotations

import pytest

from robo_rl.api.env import demand_arrays
from robo_rl.bundle.graph_checks import ACT, NOISE, PLANNED, WEIGHT
from robo_rl.core.errors import SpecError
from robo_rl.core.spec import ObsSpec, TensorSpec


@pytest.mark.parametrize("name", [NOISE, PLANNED, WEIGHT, ACT])
def test_an_observation_has_no_name_of_a_graphs_own(name: str):
    """The graph would have two inputs of one name, after hours of training."""
    demand_arrays(ObsSpec(items={f"{name}_of_cube": TensorSpec(shape=(2,))}), "task X")
    with pytest.raises(SpecError, match=rf"task X.*graph: .*found \['{name}'\]"):
        demand_arrays(ObsSpec(items={name: TensorSpec(shape=(2,))}), "task X")
