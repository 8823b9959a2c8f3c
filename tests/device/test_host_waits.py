"""How often the host waits for a GPU: a budget for each decision and each minibatch."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

COUNTS = import_module("_wait_counts")
pytestmark = pytest.mark.slow  # the scenarios on a pretended GPU run always


def slow(*values: Any) -> Any:
    """Values that ``make test-all`` tries."""
    return pytest.param(*values, marks=pytest.mark.slow)


SEES = pytest.mark.parametrize("sees", [False, True], ids=["states", "images"])


@SEES
def test_a_decision_costs_no_wait_and_a_block_a_few(sees: bool):
    assert COUNTS.decision(sees=sees) == 0.0
    assert COUNTS.block(sees=sees) <= 8


@pytest.mark.parametrize(("sees", "ends"), [(False, False), (False, True), (True, True)])
def test_a_control_step_within_a_chunk_costs_no_wait(sees: bool, ends: bool, opengl: str):
    assert COUNTS.control_step(sees=sees, ends=ends) == 0.0


@pytest.mark.parametrize(
    ("task", "actions", "budget"),
    [
        ("reach", "joints", 0.0),
        ("push_t", "joints", 0.0),
        ("push_t", "joints_delta", 0.0),
        ("lift_cube", "pose", 1.0),  # each control needs the state before: the backend reads it
        ("lift_cube", "pose_delta", 1.0),
    ],
)
def test_the_methods_of_tasks_read_no_number(task: str, actions: str, budget: float):
    assert COUNTS.control_step({"name": task, "actions": actions}) == budget


@pytest.mark.parametrize(
    ("budget", "fields"),
    [
        (1.0, {}),
        slow(1.0, {"sees": True}),
        slow(1.0, {"proximal_ema": 0.9, "ema_decay": 0.9}),
        (1.0, {"entropy_coef": 0.01, "regularization": {"forward_kl": 0.1, "bc_rollout": 0.1}}),
        slow(1.0, {"precision": "bf16"}),
        slow(2.0, {"ratio": "per_step", "minibatch": 64}),  # and how many observations are distinct
        (2.0, {"ratio": "per_step", "minibatch": 64, "sees": True}),
    ],
)
def test_a_minibatch_of_the_actor_costs_one_wait_for_its_kl(budget: float, fields: dict[str, Any]):
    now_and_then = 0.15  # of gradients that are not finite it is asked every 20 steps
    assert COUNTS.actor_minibatch(**fields) <= budget + now_and_then


@SEES
def test_a_minibatch_of_the_critic_and_a_step_of_cloning_cost_none(sees: bool):
    assert COUNTS.critic_minibatch(sees=sees) <= 0.1
    assert COUNTS.cloning_step(sees=sees) <= 0.1


@SEES
@pytest.mark.parametrize("name", ["sac", slow("td3")])
def test_a_gradient_step_off_policy_asks_what_was_cut_short_and_for_images(name: str, sees: bool):
    from_files = 2.0 * sees  # which rows, and their images' way to the GPU
    assert COUNTS.off_policy_step(name, sees=sees) <= 1.2 + from_files
