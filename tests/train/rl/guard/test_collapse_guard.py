"""The guard goes back to what has proven itself, ends with it, and leaves chance alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from robo_rl.core.errors import PluginError
from robo_rl.train.rl.guard.collapse_guard import CollapseGuard, is_finite

BLOCK = 50
CFG = CollapseGuard.Config()


def state(value: float) -> dict[str, object]:
    return {"policy": {"weight": torch.tensor(value)}, "optim": {"param_groups": [{"lr": 0.1}]}}


def value(found) -> float:
    assert found is not None
    return float(found["policy"]["weight"])


def successes(rng: np.random.Generator, rate: float, episodes: int = BLOCK) -> torch.Tensor:
    return torch.from_numpy(rng.random(episodes) < rate)


def play(guard: CollapseGuard, rng: np.random.Generator, rates, start: int = 0) -> int | None:
    """Blocks at success rates, block i followed by the state i + 1; the block of the first alarm.

    Returns are noise that falls all the time: where episodes succeed they are not looked at.
    """
    if start == 0:
        guard.begin(state(0.0))
    for i, rate in enumerate(rates, start):
        returns = torch.from_numpy(rng.normal(-i, 1.0, BLOCK))
        if guard.observe(successes(rng, rate), returns, state(i + 1.0)) is not None:
            return i
    return None


def test_a_collapse_brings_back_a_state_from_before_it():
    guard, rng = CollapseGuard(CFG), np.random.default_rng(0)
    alarm = play(guard, rng, [0.5] * 20 + [0.9] * 40 + [0.6] * 20)
    assert alarm is not None
    assert 60 <= alarm <= 63
    assert guard.rollbacks == 1
    assert 20 <= value(guard.best_state) <= 60


def test_episodes_that_share_a_start_are_one():
    """A block of eight starts, twelve episodes each, of which all or none succeed."""
    alarms = []
    for size in (1, 12):
        guard, rng = CollapseGuard(CFG, group_size=size), np.random.default_rng(2)
        guard.begin(state(0.0))
        gone = 0
        for i in range(60):
            success = torch.from_numpy(rng.random(8) < 0.8).repeat_interleave(12)
            gone += guard.observe(success, torch.zeros(96), state(i + 1.0)) is not None
        alarms.append(gone)
    assert alarms[0] > 0
    assert alarms[1] == 0


def test_a_collapse_of_groups_is_seen():
    guard, rng = CollapseGuard(CFG, group_size=8), np.random.default_rng(4)
    alarm = play(guard, rng, [0.9] * 60 + [0.0] * 40)
    assert alarm is not None
    assert 60 <= alarm < 100


def test_a_lucky_block_is_not_believed():
    guard, rng = CollapseGuard(CFG), np.random.default_rng(1)
    assert play(guard, rng, [0.8] * 20) is None
    assert guard.observe(torch.ones(BLOCK).bool(), torch.zeros(BLOCK), state(21.0)) is None
    assert play(guard, rng, [0.8] * 20, start=21) is None
    assert guard.best_score < 0.88
    assert play(guard, rng, [0.95] * 10, start=41) is None
    assert value(guard.best_state) > 41


def test_chance_does_not_make_it_go_back():
    for seed in range(10):
        guard = CollapseGuard(CFG)
        assert play(guard, np.random.default_rng(seed), [0.7] * 200) is None
        assert guard.rollbacks == 0


def test_an_env_without_success_is_watched_by_its_returns():
    guard, rng = CollapseGuard(CFG), np.random.default_rng(2)
    guard.begin(state(0.0))
    none = torch.zeros(BLOCK, dtype=torch.bool)
    alarms = []
    for i, mean in enumerate([1000.0] * 40 + [700.0] * 10):
        returns = torch.from_numpy(rng.normal(mean, 400.0, BLOCK))
        alarms.append(guard.observe(none, returns, state(i + 1.0)))
    found = [i for i, alarm in enumerate(alarms) if alarm is not None]
    assert 40 <= found[0] <= 43
    assert value(alarms[found[0]]) <= 40


def test_a_state_that_is_not_finite_is_sent_back_at_once():
    guard, rng = CollapseGuard(CFG), np.random.default_rng(3)
    play(guard, rng, [0.8] * 9)
    good = guard.observe(successes(rng, 0.8), torch.zeros(BLOCK), state(math.nan))
    assert 0 <= value(good) < 9
    assert guard.rollbacks == 1


def test_one_that_is_never_finite_is_refused_in_the_end():
    guard = CollapseGuard(CollapseGuard.Config(max_rollbacks=2))
    guard.begin(state(0.0))
    nothing = torch.zeros(0)
    for _ in range(2):
        assert value(guard.observe(nothing.bool(), nothing, state(math.inf))) == 0.0
    with pytest.raises(PluginError, match="not finite"):
        guard.observe(nothing.bool(), nothing, state(math.inf))


def test_one_that_went_back_as_often_as_it_may_still_ends_with_something_finite():
    guard, rng = CollapseGuard(CollapseGuard.Config(max_rollbacks=1)), np.random.default_rng(4)
    assert play(guard, rng, [0.95] * 30 + [0.4] * 9) is not None
    best, nothing = value(guard.best_state), torch.zeros(0)
    assert value(guard.observe(nothing.bool(), nothing, state(math.nan))) == best
    assert guard.rollbacks == 2
    assert value(guard.finish(state(math.nan))) == best


def test_what_came_after_a_return_has_to_prove_itself():
    guard, rng = CollapseGuard(CFG), np.random.default_rng(4)
    alarm = play(guard, rng, [0.95] * 30 + [0.4] * 9)
    assert alarm is not None
    best = value(guard.best_state)
    assert value(guard.finish(state(1000.0))) == best  # nothing is known of it
    few = torch.zeros(CFG.episodes - 10)
    assert guard.observe(few.bool(), few, state(1000.0)) is None
    assert value(guard.finish(state(1000.0))) == best
    assert guard.observe(few[:5].bool(), few[:5], state(1001.0)) is None


def test_one_that_is_off_never_goes_back():
    guard, rng = CollapseGuard(CollapseGuard.Config(enabled=False)), np.random.default_rng(0)
    assert play(guard, rng, [0.9] * 40 + [0.0] * 20) is None
    assert guard.finish(state(60.0)) is None
    assert guard.observe(torch.zeros(0).bool(), torch.zeros(0), state(math.nan)) is None


def test_numbers_are_looked_at_wherever_they_are():
    assert is_finite(state(1.0))
    assert is_finite({"step": torch.tensor([2**40]), "names": ["nan"], "none": None})
    for bad in (math.nan, math.inf):
        assert not is_finite(state(bad))
        assert not is_finite({"a": [{"b": (1.0, bad)}]})


def test_it_goes_back_no_more_than_it_may_and_still_ends_with_the_best():
    guard = CollapseGuard(CollapseGuard.Config(max_rollbacks=1))
    rng = np.random.default_rng(4)
    assert play(guard, rng, [0.95] * 30 + [0.4] * 9) is not None
    best = value(guard.best_state)
    assert play(guard, rng, [0.95] * 10 + [0.3] * 30, start=40) is None
    assert guard.rollbacks == 1
    assert value(guard.finish(state(99.0))) in {best, *map(float, range(40, 51))}


def test_a_run_that_ends_well_ends_with_its_last_state():
    guard, rng = CollapseGuard(CFG), np.random.default_rng(5)
    play(guard, rng, [0.6] * 20 + [0.95] * 20)
    assert guard.finish(state(40.0)) is None


def test_a_run_too_short_to_tell_ends_with_its_last_state():
    guard = CollapseGuard(CFG)
    guard.begin(state(0.0))
    assert guard.finish(state(1.0)) is None


@pytest.mark.parametrize("returns", [0.0, -3.0])
def test_where_nothing_gets_better_the_best_stays_the_initial_state(returns: float):
    guard = CollapseGuard(CFG)
    guard.begin(state(0.0))
    for i in range(20):
        block = torch.zeros(BLOCK, dtype=torch.bool), torch.full((BLOCK,), returns)
        assert guard.observe(*block, state(i + 1.0)) is None
    assert value(guard.best_state) == 0.0


def test_a_reward_of_success_that_never_comes_ends_with_the_initial_state():
    guard = CollapseGuard(CFG)
    guard.begin(state(0.0))
    for i in range(4):
        guard.observe(torch.zeros(BLOCK).bool(), torch.zeros(BLOCK), state(i + 1.0))
    assert value(guard.finish(state(5.0))) == 0.0


def test_a_tie_keeps_the_earlier_state():
    guard = CollapseGuard(CFG)
    guard.begin(state(0.0))
    best = []
    for i in range(16):  # from four blocks on the credit is that of two perfect cells
        guard.observe(torch.ones(BLOCK, dtype=torch.bool), torch.zeros(BLOCK), state(i + 1.0))
        best.append(value(guard.best_state))
    assert best[:4] == [0.0, 0.0, 0.0, 2.0]
    assert set(best[4:]) == {2.0}


def test_candidates_are_finite_and_in_the_order_of_their_age():
    guard, rng = CollapseGuard(CFG), np.random.default_rng(0)
    play(guard, rng, [0.2] * 4 + [0.9] * 4)
    found = {name: value(each) for name, each in guard.candidates(state(8.0)).items()}
    assert list(found.items()) == [("initial", 0.0), ("best", 6.0), ("last", 8.0)]
    assert list(guard.candidates(state(math.nan))) == ["initial", "best"]
    assert list(CollapseGuard(CFG.model_copy(update={"enabled": False})).candidates({})) == ["last"]


def drift(seed: int, *, guarded: bool, blocks: int = 400) -> tuple[float, float]:
    """A run that is overtrained: success rises to 0.93 and then crumbles, 0.2 points a block.

    The rate of change follows the learning rate, which a return halves. Gives the best and the
    last true success rate.
    """
    rng, guard = np.random.default_rng(seed), CollapseGuard(CFG)
    done, lr, best = 0.0, 1.0, 0.0

    def true(done: float) -> float:
        return 0.5 + 0.43 * min(done / 60.0, 1.0) - 0.002 * max(done - 90.0, 0.0)

    guard.begin({"done": done})
    for _ in range(blocks):
        outcome = successes(rng, max(true(done), 0.0), 30)
        done += lr * rng.normal(1.0, 0.5)
        back = guard.observe(outcome, torch.zeros(30), {"done": done})
        if guarded and back is not None:
            done, lr = back["done"], 0.5 * lr
        best = max(best, true(done))
    back = guard.finish({"done": done})
    return best, true(back["done"] if guarded and back is not None else done)


def test_runs_that_are_overtrained_end_near_their_best():
    guarded = [drift(seed, guarded=True) for seed in range(20)]
    assert sum(last < best - 0.05 for best, last in guarded) == 0, guarded
    unguarded = [drift(seed, guarded=False) for seed in range(3)]
    assert all(last < best - 0.3 for best, last in unguarded)


@pytest.mark.parametrize("group_size", [1, 7])
def test_it_continues_from_its_state(group_size: int):
    rates = [0.9] * 40 + [0.3] * 60
    one, two = (CollapseGuard(CFG, group_size=group_size) for _ in range(2))
    play(one, np.random.default_rng(6), rates[:45])
    two.begin(state(0.0))
    two.load_state_dict(one.state_dict())
    ends = [play(g, np.random.default_rng(7), rates[45:], start=45) for g in (one, two)]
    assert ends[0] == ends[1] is not None
    assert value(one.best_state) == value(two.best_state)


def test_a_guard_that_is_off_keeps_no_copy_and_loads_the_states_of_one_that_did():
    on, off = (
        CollapseGuard(CollapseGuard.Config()),
        CollapseGuard(CollapseGuard.Config(enabled=False)),
    )
    state = {"weights": torch.ones(3)}
    for guard in (on, off):
        guard.begin(state)
    assert off.initial_state is off.best_state is None
    assert list(off.candidates(state)) == ["last"]
    off.load_state_dict(on.state_dict())
    assert off.best_state is None
