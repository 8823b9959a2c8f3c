"""A session takes what the contract says, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from robo_rl.bundle.manifest import Contract
from robo_rl.bundle.session import PlannedActions, PolicySession
from robo_rl.core.errors import BundleError, SpecError


@pytest.fixture(scope="module")
def session(graph: bytes, contract: Contract) -> PolicySession:
    return PolicySession(graph, contract)


def observation(rows: int) -> dict[str, np.ndarray]:
    return {
        "joint_pos": np.ones((rows, 2, 2), np.float32),
        "cube_pos": np.ones((rows, 2, 3), np.float32),
        "ignored": np.zeros((rows, 2, 4), np.float32),
    }


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_any_number_of_rows(session: PolicySession, rows: int) -> None:
    act = session.act(observation(rows), np.random.default_rng(0))
    assert act.shape == (rows, 8, 2)
    assert act.dtype == np.float32


def test_a_seed_gives_the_same_action_and_noise_matters(session: PolicySession) -> None:
    one, again, other = (
        session.act(observation(1), np.random.default_rng(seed)) for seed in (0, 0, 1)
    )
    assert np.array_equal(one, again)
    assert not np.allclose(one, other)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("joint_pos", np.ones((1, 2, 3), np.float32)),
        ("joint_pos", np.ones((1, 2, 2), np.float64)),
        ("joint_pos", np.ones((1, 1, 2), np.float32)),
        ("cube_pos", np.ones((2, 2, 3), np.float32)),
        ("joint_pos", np.array(1.0, np.float32)),
        ("stranger", np.ones((1, 2, 2), np.float32)),
    ],
)
def test_an_observation_of_another_kind_is_refused(
    session: PolicySession, key: str, value: np.ndarray
) -> None:
    with pytest.raises(SpecError):
        session.act({**observation(1), key: value}, np.random.default_rng(0))


def test_noise_of_another_shape_is_refused(session: PolicySession) -> None:
    with pytest.raises(SpecError, match="noise"):
        session.act(observation(1), np.zeros((1, 8, 3), np.float32))


@pytest.mark.parametrize("change", [{"obs_horizon": 1}, {"horizon": 4}], ids=["history", "horizon"])
def test_a_graph_that_is_not_the_contracts_is_refused(
    graph: bytes, contract: Contract, change: dict[str, Any]
) -> None:
    with pytest.raises(BundleError, match=r"policy\.onnx.*contract"):
        PolicySession(graph, contract.model_copy(update=change))


def test_a_graph_that_is_none_is_refused(contract: Contract) -> None:
    with pytest.raises(BundleError, match=r"policy\.onnx: does not load"):
        PolicySession(b"not a graph", contract)


def test_the_robots_half_imports_no_torch() -> None:
    code = "import sys, robo_rl.bundle.bundle; print({'torch', 'mujoco'} & set(sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "set()"


@pytest.mark.parametrize(
    "plan",
    [
        PlannedActions(
            np.zeros((1, 8, 2), np.float32), np.zeros((1, 8), np.float32)
        ),  # no such input
        PlannedActions(np.zeros((1, 8, 3), np.float32), np.zeros((1, 8), np.float32)),
    ],
)
def test_a_graph_that_does_not_inpaint_refuses_a_plan(
    session: PolicySession, plan: PlannedActions
) -> None:
    with pytest.raises(SpecError, match="the plan does not fit"):
        session.act(observation(1), np.random.default_rng(0), plan)
