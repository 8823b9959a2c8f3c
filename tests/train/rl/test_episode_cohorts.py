"""Episodes counted by when they began are a fair sample; by when they end, short ones lead."""

from __future__ import annotations

import pytest
import torch

from robo_rl.train.rl.episode_cohorts import KEPT_BLOCKS, Cohorts, balanced_rows
from robo_rl.train.rl.guard.collapse_guard import CollapseGuard

FAST, SLOW = 2, 6  # decisions of an episode that succeeds, and of one that fails
RATE = 0.5


def play(cohorts: Cohorts, blocks: int, seed: int = 0) -> tuple[list[float], list[float]]:
    """Success of each block's ended episodes, and of the cohorts that it completed."""
    generator, num = torch.Generator().manual_seed(seed), len(cohorts.start_block)
    good = torch.rand(num, generator=generator) < RATE
    age = torch.zeros(num, dtype=torch.int64)
    by_end, by_start = [], []
    for _ in range(blocks):
        ended = torch.zeros(0, dtype=torch.bool)
        for _ in range(2):
            age += 1
            over = age == torch.where(good, FAST, SLOW)
            cohorts.record_step(torch.ones(num), over & good, over, ~over & over)
            ended = torch.cat([ended, good[over]])
            good = torch.where(over, torch.rand(num, generator=generator) < RATE, good)
            age = torch.where(over, 0, age)
        by_end.append(float(ended.float().mean()))
        complete = cohorts.finish_block()
        if len(complete.success):
            by_start.append(float(complete.success.float().mean()))
            lengths = torch.where(complete.success, FAST, SLOW)
            assert torch.equal(complete.returns, lengths.double())
    return by_end, by_start


def test_where_success_ends_an_episode_every_cohort_is_fair_though_the_first_block_is_not():
    by_end, by_start = play(Cohorts(4000), 8)
    assert by_end[0] == 1.0
    assert len(by_start) > 4
    assert all(rate == pytest.approx(RATE, abs=0.05) for rate in by_start)


def test_a_cohort_waits_for_its_last_episode():
    cohorts = Cohorts(2)
    none, first, both = (torch.tensor(x) for x in ([False] * 2, [True, False], [True] * 2))
    cohorts.record_step(torch.zeros(2), first, first, none)
    assert len(cohorts.finish_block().success) == 0
    cohorts.record_step(torch.zeros(2), none, none, none)
    assert len(cohorts.finish_block().success) == 0
    cohorts.record_step(
        torch.zeros(2), none, both, none
    )  # the first env's second episode began in block 0 too
    assert cohorts.finish_block().success.tolist() == [True, False, False]


def test_episodes_under_way_when_the_policy_is_replaced_count_for_neither():
    cohorts, none = Cohorts(2), torch.tensor([False, False])
    first, second = torch.tensor([True, False]), torch.tensor([False, True])
    cohorts.record_step(torch.ones(2), first, first, none)
    cohorts.discard_running()
    cohorts.finish_block()
    cohorts.record_step(torch.ones(2), first, first, none)
    assert len(cohorts.finish_block().success) == 0
    cohorts.record_step(
        torch.ones(2), second, first, none
    )  # began after the change, and is counted
    cohorts.record_step(torch.ones(2), second, second, none)  # began before it
    assert len(cohorts.finish_block().success) == 1


def test_an_episode_that_was_lost_with_its_world_is_not_counted():
    cohorts = Cohorts(2)
    none, first, both = (torch.tensor(x) for x in ([False] * 2, [True, False], [True] * 2))
    cohorts.record_step(torch.ones(2), none, both, first)
    assert len(cohorts.finish_block().success) == 0
    cohorts.record_step(torch.ones(2), both, both, none)
    found = cohorts.finish_block()
    assert found.success.tolist() == [False, True, True]
    assert found.returns.tolist() == [1.0, 1.0, 1.0]  # the lost one's reward is nobody's


def test_it_continues_from_its_state():
    one, two, none = Cohorts(2), Cohorts(2), torch.tensor([False, False])
    first, both = torch.tensor([True, False]), torch.tensor([True, True])
    one.record_step(torch.ones(2), first, first, none)
    one.finish_block()
    two.load_state_dict(one.state_dict())
    outcomes = []
    for cohorts in (one, two):
        cohorts.record_step(torch.ones(2), first, both, none)
        outcomes.append(cohorts.finish_block())
    assert outcomes[0].success.tolist() == outcomes[1].success.tolist() == [True, True, False]
    assert outcomes[0].returns.tolist() == outcomes[1].returns.tolist() == [1.0, 1.0, 2.0]


RATES = torch.tensor([0.95, 0.2])


def score(balanced_tasks: int, hard: float, seed: int, num: int = 2000) -> torch.Tensor:
    """Success of a cohort whose hard task has this share; successes end first."""
    generator = torch.Generator().manual_seed(seed)
    task = (torch.rand(num, generator=generator) < hard).long()
    good = torch.rand(num, generator=generator) < RATES[task]
    cohorts, none = Cohorts(num, balanced_tasks=balanced_tasks), torch.zeros(num) > 0
    cohorts.finish_block()  # what begins from here on is of the next cohort
    for over in (good, ~good):
        cohorts.record_step(torch.zeros(num), good, over, none, task)
    return cohorts.finish_block().success


def test_a_score_of_balanced_tasks_does_not_fall_with_the_share_of_hard_episodes():
    for hard in (0.5, 0.8, 0.95):
        found = score(2, hard, seed=1)
        assert float(found.float().mean()) == pytest.approx(float(RATES.mean()), abs=0.06)
        assert len(found) == pytest.approx(2 * 2000 * (1 - hard), rel=0.2)
    assert float(score(1, 0.95, seed=1).float().mean()) < 0.3


def test_the_guard_rests_while_the_tasks_that_fail_are_drawn_more_often():
    shares = [0.5, *[0.9] * 12]
    for balanced_tasks, rollbacks in ((2, False), (1, True)):
        guard = CollapseGuard(CollapseGuard.Config())
        guard.begin({})
        for seed, hard in enumerate(shares):
            success = score(balanced_tasks, hard, seed, num=400)
            guard.observe(success, torch.zeros(len(success)), {})
        assert bool(guard.rollbacks) == rollbacks


def test_a_checkpoint_without_tasks_is_taken_up():
    cohorts = Cohorts(1)
    state = {**cohorts.state_dict(), "ended": torch.tensor([[0.0, 1.0, 2.0]]).double()}
    cohorts.load_state_dict(state)
    cohorts.finish_block()
    over = torch.tensor([True])
    cohorts.record_step(torch.ones(1), over, over, ~over)
    assert cohorts.finish_block().success.tolist() == [True, True]


def test_a_task_without_an_episode_leaves_no_score():
    assert len(balanced_rows(torch.tensor([0.0, 0.0, 2.0]), 3)) == 0
    assert balanced_rows(torch.tensor([1.0, 0.0, 1.0, 1.0]), 2).tolist() == [1, 2]


@pytest.mark.parametrize(("blocks", "counted"), [(3, 2), (KEPT_BLOCKS + 3, 0)])
def test_episodes_wait_for_those_of_a_task_that_is_rarely_drawn(blocks, counted):
    """An env of each task ends its episode: the first one's early, the second one's late."""
    cohorts, none = Cohorts(2, balanced_tasks=2), torch.zeros(2) > 0
    task, first = torch.zeros(2), torch.tensor([True, False])
    cohorts.record_step(torch.ones(2), first, ~none, none, task)
    for _ in range(blocks):
        assert not len(cohorts.finish_block().success)
        cohorts.start_block[:] = cohorts.block  # no episode is running
    cohorts.record_step(torch.ones(2), first, ~none, none, task + 1)
    cohorts.start_block[:] = cohorts.block + 1
    cohorts.block += 1
    found = cohorts.finish_block()
    assert len(found.success) == 2 * counted
    assert int(found.success.sum()) == counted


def test_waiting_episodes_outlive_new_starts_and_those_of_a_cut_cohort_do_not():
    """A group's rollouts begin anew in all envs, after all episodes have ended."""
    none, first, both = (torch.tensor(x) for x in ([False] * 2, [True, False], [True] * 2))
    for cut, counted in ((False, 2), (True, 0)):
        cohorts, task = Cohorts(2, balanced_tasks=2), torch.zeros(2)
        cohorts.record_step(torch.ones(2), both, first if cut else both, none, task)
        cohorts.start_block[:] = torch.where(none if not cut else ~first, 0, 1)
        assert not len(cohorts.finish_block().success)
        cohorts.restart()
        cohorts.record_step(torch.ones(2), both, both, none, task + 1)
        cohorts.start_block[:] = cohorts.block + 1
        found = cohorts.finish_block()
        assert len(found.success) == 2 * counted
