"""The doubly robust estimate, in a world where the policy's worth and values are arithmetic."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from small_logged import Always
from small_policies import make_policy
from small_walk import DECISIONS, HORIZON, WORTH, M, Right, Walk, WalkCase, Wrong, walk_case

from robo_rl.core.errors import DataError
from robo_rl.core.seeding import make_generator
from robo_rl.ope import doubly_robust
from robo_rl.ope.doubly_robust import (
    DoublyRobust,
    clip_ratios,
    dr_estimate,
    effective_sample_fraction,
    logged_decisions,
    policy_decisions,
    state_values,
)
from robo_rl.ope.fqe import Fqe

CFG = DoublyRobust.Config(steps=300, hidden=(32,), lr=3e-3)
UNTRAINED = DoublyRobust.Config(steps=1, hidden=(32,), lr=1e-6)


@pytest.fixture(scope="module")
def wrong() -> WalkCase:
    return walk_case(Wrong())


def test_the_formula_on_numbers_done_by_hand():
    weights, errors = torch.tensor([[1.0, 3.0]]), torch.tensor([[0.4, -0.4]])
    found = dr_estimate(torch.tensor([2.0]), torch.tensor([5.0]), weights, errors)
    torch.testing.assert_close(found, torch.tensor([1.0]))  # 2 + 5·(0.4 − 1.2)/4


def test_ratios_alike_rest_on_all_decisions_and_a_single_one_on_itself():
    counts = torch.tensor([[1.0, 2.0, 0.0, 1.0]])
    assert effective_sample_fraction(torch.full((1, 4), 0.3), counts) == 1.0
    assert effective_sample_fraction(torch.tensor([[1.0, 0.0, 9.0, 0.0]]), counts) == 0.25


def test_the_largest_ratios_count_as_one_that_is_not_among_them():
    ratios = torch.tensor([[5.0, 1.0, 9.0, 2.0], [1.0, 1.0, 1.0, 1.0]])
    assert clip_ratios(ratios, 0.75).tolist() == [[5.0, 1.0, 5.0, 2.0], [1.0] * 4]
    assert torch.equal(clip_ratios(ratios, 1.0), ratios)


@pytest.mark.parametrize("seed", [0, 1])
def test_right_values_are_left_as_they_are_whatever_the_ratios_say(seed: int):
    case = walk_case(Right(), seed=seed)
    members = DoublyRobust(UNTRAINED).estimate(case).members
    assert members.shape == (M,)
    assert float(members.mean()) == pytest.approx(WORTH, abs=0.08)


def test_wrong_values_are_put_right_by_the_ratios(wrong: WalkCase):
    fitted = float(wrong.values.estimate().members.mean())
    assert fitted - WORTH > 0.9
    found = DoublyRobust(CFG).estimate(wrong)
    assert abs(float(found.members.mean()) - WORTH) < 0.4
    assert found.effective_fraction is not None
    assert 0.1 < found.effective_fraction < 0.4  # three actions in ten are the policy's


def test_neither_is_right_where_both_are_wrong(wrong: WalkCase):
    """What keeps the two tests before from being true of anything."""
    found = DoublyRobust(UNTRAINED).estimate(wrong)
    assert abs(float(found.members.mean()) - WORTH) > 0.6


def test_decisions_that_the_policy_would_never_take_hardly_count(wrong: WalkCase):
    generator = make_generator("dr", 0)
    ahead = state_values(wrong.values, torch.arange(wrong.replay.rows))
    logged = logged_decisions(wrong, ahead, generator)
    with torch.no_grad():
        made, _ = policy_decisions(wrong, generator)
    ratios = DoublyRobust(CFG)._ratios(wrong, made, logged, generator).mean(dim=0)
    act = wrong.rows["act"][wrong.rows["decision"]][:, 0, 0]
    likely, never = (act > 0.3) & (act < 0.7), (act < -0.1) | (act > 1.1)
    assert float(ratios[never].mean()) < 0.1 * float(ratios[likely].mean())


def test_an_episode_of_the_policy_has_as_many_decisions_as_it_lives_for(wrong: WalkCase):
    _, number = policy_decisions(wrong, make_generator("dr", 0))
    torch.testing.assert_close(number, torch.full((M,), float(DECISIONS)))

    class Deadly(Walk):
        def forward(self, seen: torch.Tensor, act: torch.Tensor) -> Any:
            ahead = super().forward(seen, act)
            return ahead._replace(
                termination_logit=torch.zeros_like(ahead.termination_logit)
            )  # every other one ends there

    made, number = policy_decisions(
        replace(wrong, dynamics=Deadly(wrong.rows)), make_generator("dr", 0)
    )
    torch.testing.assert_close(number, torch.full((M,), 1.0 + 0.5 + 0.25))
    counts = wrong.resample.counts
    torch.testing.assert_close(
        made.weights, torch.cat([share * counts for share in (1.0, 0.5, 0.25)], dim=1)
    )


def test_behind_the_end_of_an_episode_chunks_are_the_policys():
    """What was not carried out tells nobody whose decision it was."""
    case = walk_case(Wrong(), episodes=50)
    like = make_policy("flow_sde", 2, horizon=HORIZON, exec_horizon=HORIZON).float()
    policy: Any = Always(like, 0.7)
    values = Fqe(case.values.cfg, policy, case.replay, case.resample, make_generator("fqe", 0))
    values.target.module = Wrong()  # pyright: ignore[reportAttributeAccessIssue]
    case = replace(case, policy=policy, values=values)
    ahead = torch.zeros(M, case.replay.rows)
    logged = logged_decisions(case, ahead, make_generator("dr", 0))
    acts = logged.inputs[:, -HORIZON * 2 :].unflatten(1, (HORIZON, 2))
    ends = case.rows["act"][2::4]  # the others were neither whole nor the end
    torch.testing.assert_close(acts[:, 0], ends[:, 0])
    torch.testing.assert_close(acts[:, 1:], torch.full_like(acts[:, 1:], 0.7))


def test_values_that_are_not_finite_are_refused():
    class Broken(Wrong):
        def forward(self, obs: dict[str, torch.Tensor], act: torch.Tensor) -> torch.Tensor:
            return super().forward(obs, act) / 0.0 - torch.inf

    with pytest.raises(DataError, match="not finite"):
        DoublyRobust(UNTRAINED).estimate(walk_case(Broken(), episodes=20))


def test_the_same_seed_says_the_same_to_the_bit():
    again, first = (
        DoublyRobust(CFG.model_copy(update={"steps": 20})).estimate(walk_case(Wrong(), 50))
        for _ in range(2)
    )
    assert torch.equal(again.members, first.members)


def test_values_are_corrected_by_episodes_that_they_have_not_seen(
    wrong: WalkCase, monkeypatch: pytest.MonkeyPatch
):
    weights = list[torch.Tensor]()

    def estimated(*given: Any) -> Any:
        weights.append(given[2])
        return dr_estimate(*given)

    monkeypatch.setattr(doubly_robust, "dr_estimate", estimated)
    DoublyRobust(UNTRAINED).estimate(wrong)
    ahead = state_values(wrong.values, torch.arange(wrong.replay.rows))
    logged = logged_decisions(wrong, ahead, make_generator("test", 0))
    assert float(weights[0].abs().sum()) > 0.0
    assert bool((weights[0] * logged.counts == 0.0).all())


def test_every_member_has_episodes_that_it_has_not_seen(wrong: WalkCase):
    ahead = state_values(wrong.values, torch.arange(wrong.replay.rows))
    logged = logged_decisions(wrong, ahead, make_generator("test", 0))
    assert bool((logged.unseen.sum(dim=1) > 0.0).all())
