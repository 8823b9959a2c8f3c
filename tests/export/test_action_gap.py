"""Differences count by the range of their own action; the message says which, and by how much."""

from __future__ import annotations

import math

import pytest
import torch

from robo_rl.bundle.manifest import ClosedLoopParity, Contract
from robo_rl.core.errors import GateError
from robo_rl.core.spec import ActSpec, ObsSpec
from robo_rl.export.action_gap import SHARE_LIMIT, ActGap, widest_gap
from robo_rl.export.build import _judge

ACT = ActSpec(
    shape=(3,),
    unit="rad,m,1",
    names=("shoulder", "hand", "free"),
    low=(-3.0, 0.0, float("-inf")),
    high=(3.0, 0.04, float("inf")),
    rate_hz=20.0,
)


def gap_of(*differences: float, scale: tuple[float, ...] | None = None) -> ActGap:
    """Of 1000 rows, where the policy's third action spans 0 to 10."""
    ours = torch.zeros(1000, 2, 3)
    ours[0, 0, 2] = 10.0
    theirs = ours.clone()
    theirs[500, 1] += torch.tensor(differences)
    pairs = zip(ours.split(256), theirs.split(256), strict=True)
    return widest_gap(pairs, ACT, None if scale is None else torch.tensor(scale))


CASES = [
    ((1e-4, 1e-5, 1e-4), "hand", 0.04, " m"),
    ((1e-3, 1e-6, 1e-4), "shoulder", 6.0, " rad"),
    ((1e-6, 1e-8, 1e-3), "free", 10.0, ""),
]


@pytest.mark.parametrize(("differences", "name", "span", "unit"), CASES)
def test_the_widest_gap_is_that_of_the_largest_share_of_a_range(
    differences: tuple[float, ...], name: str, span: float, unit: str
):
    found = gap_of(*differences)
    assert (found.name, found.unit, found.rows) == (name, unit, 1000)
    assert found.span == pytest.approx(span)
    assert found.max_abs == pytest.approx(differences[ACT.names.index(name)], rel=1e-3)
    assert found.record.limit == pytest.approx(SHARE_LIMIT * span)


def test_between_minus_one_and_one_the_limit_is_a_ten_thousandth():
    spec = ActSpec(shape=(1,), low=(-1.0,), high=(1.0,), rate_hz=20.0)
    ours = torch.zeros(4, 2, 1)
    assert widest_gap([(ours, ours + 0.99e-4)], spec, None).record.passed
    assert not widest_gap([(ours, ours + 1.01e-4)], spec, None).record.passed


def test_nan_does_not_pass():
    found = gap_of(0.0, math.nan, 0.0)
    assert math.isnan(found.max_abs)
    assert not found.record.passed
    assert not found.scale_is_off


def judged(found: ActGap) -> str:
    fine = ClosedLoopParity(
        success=1.0, episodes=9, policy_success=1.0, policy_episodes=9, low=0.7, high=1.0
    )
    contract = Contract(
        policy="flow",
        robot="",
        task="",
        obs=ObsSpec(items={}),
        obs_horizon=1,
        act=ACT,
        horizon=2,
        exec_horizon=2,
        num_steps=1,
    )
    with pytest.raises(GateError) as caught:
        _judge({"onnx": found}, fine, "", {}, contract)
    return str(caught.value)


def test_a_graph_that_differs_is_named_with_the_action_the_unit_and_the_share():
    said = judged(gap_of(1e-3, 4e-5, 0.0, scale=(3.0, 0.02, 1.0)))
    assert "numeric parity of onnx: 'hand' differs by 4e-05 m, 0.001 of its range of 0.04 m" in said
    assert "scale" not in said


def test_where_the_dataset_decides_the_scale_the_graph_is_not_blamed():
    said = judged(gap_of(2e-3, 0.0, 0.0, scale=(1000.0, 0.02, 1.0)))
    assert "the dataset's scale is off: its normaliser spreads 'shoulder' over 2e+03 rad" in said
    assert "its range is 6 rad" in said
    assert "stages.bc.normalization={act: quantile}" in said
    assert "onnx" not in said


@pytest.mark.parametrize("wide", [1e6, 3e38])
def test_limits_far_beyond_what_is_used_do_not_let_nonsense_pass(wide: float):
    spec = ActSpec(shape=(1,), low=(-wide,), high=(wide,), rate_hz=20.0)
    ours = torch.linspace(-1.0, 1.0, 1000)[:, None, None].repeat(1, 2, 1)
    for scale in (None, torch.ones(1)):
        found = widest_gap([(ours, -ours)], spec, scale)
        assert found.span <= 40.0
        assert not found.record.passed
