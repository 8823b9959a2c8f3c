"""Numbers that change over training: hand-worked values, and configs that are valid all the way."""

from __future__ import annotations

import json

import pytest
import torch
from small_policies import make_obs, make_policy

from robo_rl.config.component import component
from robo_rl.config.models import NestedError
from robo_rl.policy.archive import policy_from_meta, policy_meta
from robo_rl.policy.families.flow import FlowNoise
from robo_rl.policy.schedule import Schedule, at_progress, is_scheduled, start_value

# ReinFlow's learn_decay on Hopper: σ in [0.10, 0.24], σ_max held for 35 % of training, then a
# cosine to 0.3·0.10 + 0.7·0.24 = 0.198.
LEARN_DECAY = Schedule(start=0.24, end=0.198, hold=0.35)


def test_reinflows_decay_of_the_upper_bound():
    assert [LEARN_DECAY.value_at(p) for p in (0.0, 0.2, 0.35)] == [0.24] * 3
    assert LEARN_DECAY.value_at(0.675) == pytest.approx(0.219)  # half-way through what is left
    # a quarter of the way: 0.24 − 0.042·½·(1 − cos 45°) = 0.24 − 0.042·0.1464466
    assert LEARN_DECAY.value_at(0.5125) == pytest.approx(0.2338492, abs=1e-7)
    assert LEARN_DECAY.value_at(1.0) == pytest.approx(0.198)


def test_a_line_and_beyond_its_ends():
    schedule = Schedule(start=1.0, end=0.5, shape="linear")
    assert [schedule.value_at(p) for p in (-1.0, 0.0, 0.25, 1.0, 2.0)] == [
        1.0,
        1.0,
        0.875,
        0.5,
        0.5,
    ]


def test_every_schedule_of_a_config_is_resolved_and_nothing_else():
    cfg = FlowNoise.Config(std_min=0.1, std_max=LEARN_DECAY, chunk_correlation=0.5)
    assert is_scheduled(cfg)
    now = at_progress(cfg, 1.0)
    assert not is_scheduled(now)
    assert (now.std_min, now.std_max, now.chunk_correlation) == (0.1, pytest.approx(0.198), 0.5)
    assert at_progress(now, 0.3) is now
    assert start_value(cfg.std_max) == 0.24


@pytest.mark.parametrize(
    ("sampler", "problem"),
    [
        (
            {"name": "flow_sde", "noise_level": {"start": 0.5, "end": 0.0}},
            "when 100 %.*greater than 0",
        ),
        (
            {"name": "flow_cps", "noise_level": {"start": 1.5, "end": 0.5}},
            "when 0 %.*less than or equal",
        ),
        # the ceiling meets the floor where ½·(1 − cos πp) = 3/7, at p = 0.454
        (
            {"name": "flow_noise", "std_min": 0.05, "std_max": {"start": 0.08, "end": 0.01}},
            "when 46 %.*std_min 0.05 is above std_max",
        ),
        ({"name": "flow_noise", "std_min": {"start": 0.05, "end": 0.01, "holt": 0.1}}, "holt"),
    ],
)
def test_a_schedule_that_leaves_what_its_field_allows_is_refused(sampler, problem):
    with pytest.raises(NestedError, match=problem):
        component("policies").make({"name": "flow", "sampler": sampler})


def test_a_policys_sampler_follows_training_and_is_rebuilt_where_it_stood():
    sampler = {"name": "flow_noise", "std_min": 0.1, "std_max": LEARN_DECAY.model_dump()}
    policy = make_policy("flow_noise", 4, sampler=sampler).float()
    obs = {name: value.float() for name, value in make_obs(8).items()}

    def std() -> float:
        embedding, x = policy.encode(obs), torch.zeros(8, 3, 2)
        kernel = policy.kernel(embedding, torch.zeros(8, dtype=torch.int64), x)
        return float(kernel.std[0, 0, 0].detach())

    # an untrained noise head stands at the geometric middle of the bounds
    assert std() == pytest.approx((0.1 * 0.24) ** 0.5)
    policy.set_progress(1.0)
    assert std() == pytest.approx((0.1 * 0.198) ** 0.5)
    again = policy_from_meta(json.loads(json.dumps(policy_meta(policy))), dict(policy.state_dict()))
    chains = [each.sample(obs, torch.Generator().manual_seed(1)).x for each in (policy, again)]
    assert torch.equal(*chains)
    policy.set_progress(0.0)
    earlier = policy.sample(obs, torch.Generator().manual_seed(1)).x
    assert not torch.equal(earlier, chains[0])
