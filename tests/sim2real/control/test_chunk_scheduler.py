"""Chunks on a clock that does not wait."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from robo_rl.api.env import Step
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.env.chunk_env import ChunkEnv
from robo_rl_sim2real.control.chunk_scheduler import Chunk, ChunkScheduler, soft_mask

H, E = 8, 4


def ramp(
    observed: int, arrived: int | None = None, offset: float = 0.0, instruction: str = ""
) -> Chunk:
    """A chunk whose action at tick t is t + offset."""
    act = np.arange(observed, observed + H, dtype=float)[:, None] + offset
    came = observed if arrived is None else arrived
    return Chunk(act, observed, came, observed / 50.0, instruction=instruction)


def make(**fields: Any) -> ChunkScheduler:
    return ChunkScheduler(ChunkScheduler.Config.model_validate(fields), E)


def played(scheduler: ChunkScheduler, ticks: range) -> list[float | None]:
    due = [scheduler.action_at(tick) for tick in ticks]
    return [None if each is None else float(each.act[0]) for each in due]


@pytest.mark.parametrize("merge", ["newest", "ensemble", "soft", "inpaint"])
@pytest.mark.parametrize("delay", [0, 1, 3])
def test_each_tick_gets_the_action_that_was_meant_for_it(merge, delay):
    """Whatever the delay and the rule, where all chunks agree on what a tick wants."""
    scheduler, seen = make(merge=merge), []
    pending: list[Chunk] = []
    for tick in range(40):
        if scheduler.wants_query(tick) and not pending:
            pending.append(ramp(tick, tick + delay))
        if pending and pending[0].arrived_tick == tick:
            scheduler.add(pending.pop())
        seen += played(scheduler, range(tick, tick + 1))
    assert seen[:delay] == [None] * delay
    np.testing.assert_allclose(np.array(seen[delay:], float), range(delay, 40))


def test_a_late_chunk_finds_the_old_one_played_to_its_end_and_then_nothing():
    scheduler = make()
    scheduler.add(ramp(0))
    assert played(scheduler, range(10)) == [*range(8), None, None]
    scheduler.add(ramp(4, arrived=10))
    assert played(scheduler, range(10, 13)) == [10.0, 11.0, None]


def test_a_new_chunk_is_wanted_every_e_ticks_or_so_many_earlier():
    for ahead, expected in ((0, [0, 4, 8]), (2, [0, 2, 4, 6, 8, 10])):
        scheduler, asked = make(prefetch_ticks=ahead), []
        for tick in range(12):
            if scheduler.wants_query(tick):
                asked.append(tick)
                scheduler.add(ramp(tick))
        assert asked == expected


@pytest.mark.parametrize("merge", ["newest", "ensemble", "soft", "inpaint"])
def test_a_chunk_of_another_instruction_is_asked_for_at_once_and_merged_with_none(merge: str):
    scheduler = make(merge=merge)
    scheduler.add(ramp(0, instruction="lift"))
    assert not scheduler.wants_query(1, "lift")
    assert scheduler.wants_query(1, "press")
    assert scheduler.plan(1, "press") is None
    assert played(scheduler, range(1, 2)) == [1.0]
    scheduler.add(ramp(1, arrived=2, offset=100.0, instruction="press"))
    assert played(scheduler, range(2, 9)) == [100.0 + tick for tick in range(2, 9)]


def test_what_is_not_newer_is_left_out():
    scheduler = make()
    scheduler.add(ramp(4))
    scheduler.add(ramp(2, offset=100.0))
    scheduler.add(ramp(4, offset=100.0))
    assert played(scheduler, range(4, 6)) == [4.0, 5.0]


def test_the_newest_takes_over_at_once():
    scheduler = make()
    scheduler.add(ramp(0))
    scheduler.add(ramp(3, arrived=5, offset=10.0))
    assert played(scheduler, range(5, 7)) == [15.0, 16.0]


def test_an_ensemble_is_the_mean_by_falling_weights_the_oldest_first():
    scheduler = make(merge="ensemble", decay=np.log(2.0))
    for observed, offset in ((0, 0.0), (2, 7.0), (4, 14.0)):
        scheduler.add(ramp(observed, offset=offset))
    # weights 4, 2, 1 of 7 at tick 5; at tick 9 the first is over: 2, 1 of 3
    assert played(scheduler, range(5, 6)) == [pytest.approx(5 + (2 * 7 + 14) / 7)]
    assert played(scheduler, range(9, 10)) == [pytest.approx(9 + (2 * 7 + 14) / 3)]


def test_soft_goes_over_from_the_old_chunk_to_the_new_one_without_a_jump():
    scheduler = make(merge="soft")
    scheduler.add(ramp(0))
    scheduler.add(ramp(4, arrived=5, offset=1.0))
    seen = np.array(played(scheduler, range(5, 12)), float) - np.arange(5, 12)
    left = np.array([3, 2, 1]) / 4  # of the ticks 5, 6, 7 on which both speak
    old = left * (np.exp(left) - 1) / (np.e - 1)
    np.testing.assert_allclose(seen, [*(1 - old), 1, 1, 1, 1])


def test_what_is_done_is_as_old_as_the_oldest_chunk_in_it():
    for merge, basis in (("newest", 4), ("ensemble", 0), ("soft", 0)):
        scheduler = make(merge=merge)
        scheduler.add(ramp(0))
        scheduler.add(ramp(4))
        due = scheduler.action_at(5)
        assert due is not None
        assert due.basis_s == basis / 50.0


@pytest.mark.parametrize("merge", ["newest", "ensemble", "soft"])
def test_only_a_policy_that_inpaints_is_given_a_plan(merge):
    scheduler = make(merge=merge)
    scheduler.add(ramp(0))
    assert scheduler.plan(2) is None


def test_a_plan_is_what_the_old_chunk_still_has_to_say_of_the_new_ones_ticks():
    scheduler = make(merge="inpaint")
    assert scheduler.plan(0) is None
    scheduler.add(ramp(0, arrived=1))
    scheduler.add(ramp(4, arrived=7, offset=100.0))
    plan = scheduler.plan(8)
    assert plan is not None
    assert plan.act.shape == (1, H, 1)
    assert plan.weight.shape == (1, H)
    # of the eight ticks from 8 on, the chunk of tick 4 speaks of four
    np.testing.assert_array_equal(plan.act[0, :4, 0], np.arange(8, 12) + 100)
    assert (plan.weight[0, 4:] == 0).all()
    assert scheduler.plan(12) is None  # it is over


def test_what_passes_until_the_answer_is_kept_by_the_slowest_answers_but_for_one():
    scheduler = make(merge="inpaint")
    for observed, delay in ((0, 1), (2, 3), (4, 7), (8, 3)):
        scheduler.add(ramp(observed, observed + delay))
    plan = scheduler.plan(10)
    assert plan is not None
    kept, rest = plan.weight[0, :3], plan.weight[0, 3:6]
    assert (kept == 1.0).all()
    assert (np.diff(rest) < 0).all()
    assert (rest < 1.0).all()
    assert (rest > 0.0).all()


def test_one_answer_that_stalled_does_not_keep_the_next_ones_from_what_they_see():
    scheduler = make(merge="inpaint")
    scheduler.add(ramp(0, arrived=7))
    for observed in range(4, 40, 4):
        plan = scheduler.plan(observed)
        scheduler.add(ramp(observed, arrived=observed + 1))
        if observed > 8:
            assert plan is not None
            assert (plan.weight[0] == 1.0).sum() == 1
    scheduler.clear()
    scheduler.add(ramp(100, arrived=102))
    plan = scheduler.plan(104)
    assert plan is not None
    assert (plan.weight[0] == 1.0).sum() == 2  # of before the end nothing is remembered


def test_what_is_kept_of_a_plan_is_as_old_as_what_that_rested_on():
    """Through three generations: what was copied twice rests on the first observation."""
    scheduler = make(merge="inpaint")
    scheduler.add(ramp(0, arrived=3))
    for observed in (4, 6):
        assert scheduler.plan(observed) is not None
        scheduler.add(ramp(observed, arrived=observed + 3))
    basis = {tick: scheduler.action_at(tick) for tick in range(6, 14)}
    found = [None if due is None else round(due.basis_s * 50) for due in basis.values()]
    # the third chunk keeps ticks 6, 7 and 8 of the second, which kept 6 of the first and mixed 7
    assert found[:3] == [0, 0, 4]
    assert found[6:] == [6, 6]  # the second says nothing of ticks 12 and 13


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_plan_that_is_not_finite_is_none(bad: float):
    scheduler, chunk = make(merge="inpaint"), ramp(0, arrived=1)
    chunk.act[H - 1] = bad
    scheduler.add(chunk)
    assert scheduler.plan(4) is None


def test_the_mask_is_that_of_real_time_chunking():
    c = np.array([4, 3, 2, 1]) / 5  # of two ticks that pass, four that are left, and two beyond
    soft = c * (np.exp(c) - 1) / (np.e - 1)
    np.testing.assert_allclose(soft_mask(8, 6, 2), [1, 1, *soft, 0, 0])
    np.testing.assert_array_equal(soft_mask(4, 2, 3), [1, 1, 0, 0])  # later than it lasts


def test_after_clear_there_is_nothing():
    scheduler = make()
    scheduler.add(ramp(0))
    scheduler.clear()
    assert scheduler.action_at(1) is None
    assert scheduler.wants_query(1)


class Taken:
    """An env that remembers what it was told to do, and never ends."""

    def __init__(self) -> None:
        self.num_envs, self.device = 1, torch.device("cpu")
        self.obs_spec = ObsSpec(items={"count": TensorSpec(shape=(1,))})
        self.act_spec = ActSpec(shape=(2,), rate_hz=50)
        self.dt_s, self.max_episode_steps = 0.02, 99
        self.acts: list[np.ndarray] = []

    def reset(self, seed: int | None = None) -> dict[str, torch.Tensor]:
        del seed
        return {"count": torch.full((1, 1), float(len(self.acts)))}

    def step(self, act: torch.Tensor) -> Step:
        self.acts.append(act[0].numpy())
        obs, no, yes = self.reset(), torch.zeros(1, dtype=torch.bool), torch.ones(1).bool()
        return Step(obs, obs, torch.zeros(1), no, no, yes, {})

    def close(self) -> None:
        pass


@pytest.mark.parametrize("merge", ["newest", "soft"])
def test_without_delay_it_plays_what_training_executes(merge):
    """The real-time twin of ``ChunkEnv``: the same actions in the same order."""
    chunks = np.random.default_rng(0).normal(size=(5, H, 2))
    world = Taken()
    env = ChunkEnv(world, obs_horizon=1, exec_horizon=E, gamma=0.9)
    env.reset(0)
    for chunk in chunks:
        env.step(torch.from_numpy(chunk)[None])
    scheduler, coming, seen = make(merge=merge), iter(chunks), []
    for tick in range(len(chunks) * E):
        if scheduler.wants_query(tick):
            scheduler.add(Chunk(next(coming), tick, tick, tick / 50.0))
        due = scheduler.action_at(tick)
        assert due is not None
        seen.append(due.act)
    if merge == "newest":
        np.testing.assert_array_equal(seen, world.acts)
    else:  # the first chunk's own ticks have nothing to merge with
        np.testing.assert_array_equal(seen[:E], world.acts[:E])
        assert not np.array_equal(seen, world.acts)
