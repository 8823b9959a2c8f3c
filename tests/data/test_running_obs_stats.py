"""Statistics that move with what is seen, for all who share the normaliser."""

from __future__ import annotations

import copy
import json

import pytest
import torch

from robo_rl.core.errors import ConfigError
from robo_rl.data.normalize import Normalizer
from robo_rl.data.running_obs_stats import FRESH_ROWS, RunningObsStats
from robo_rl.data.statistics import KeyStats, Stats


def normalizer(mean: float = 0.0, std: float = 1.0, mode: str = "standard") -> Normalizer:
    def stats(low: float, high: float, mean: float, std: float) -> KeyStats:
        each = [torch.full((2,), x, dtype=torch.float64) for x in (low, high, mean, std)]
        return KeyStats(each[0], each[1], each[2], each[3])

    keys = {"obs.pos": stats(-9.0, 9.0, mean, std), "act": stats(-1.0, 1.0, 0.0, 1.0)}
    return Normalizer.from_stats(Stats(keys, "digest"), {"obs.pos": mode})


def rows(count: int, seed: int = 0) -> torch.Tensor:
    """(N, To, 2), of which the newest frame counts."""
    generator = torch.Generator().manual_seed(seed)
    return 4.0 + 3.0 * torch.randn(count, 2, 2, generator=generator)


def test_blocks_add_up_to_all_rows_at_once():
    found, seen = normalizer(mean=1.0, std=2.0), rows(500)
    tracker = RunningObsStats(found, weight=100.0)
    for part in seen.split([200, 299, 1, 0]):
        tracker.update({"pos": part})
    new = seen[:, -1].double()
    total = 100.0 * 1.0 + new.sum(0)
    mean = total / 600.0
    square = 100.0 * (2.0**2 + 1.0) + new.square().sum(0)
    std = (square / 600.0 - mean**2).sqrt()
    affine = found.affine("obs.pos")
    torch.testing.assert_close(affine.shift, mean.float())
    torch.testing.assert_close(affine.scale, std.float())
    assert torch.equal(found.affine("act").scale, torch.ones(2))


def test_the_hash_moves_along_and_travels():
    found = normalizer()
    before = found.stats_hash
    RunningObsStats(found).update({"pos": rows(50)})
    assert found.stats_hash != before
    again = Normalizer.from_meta(found.to_meta())
    assert again.stats_hash == found.stats_hash
    assert torch.equal(again.affine("obs.pos").scale, found.affine("obs.pos").scale)


def test_it_continues_from_its_state():
    one, other = normalizer(), normalizer()
    first, second = RunningObsStats(one), RunningObsStats(other)
    first.update({"pos": rows(50)})
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for tracker in (first, second):
        tracker.update({"pos": rows(50, seed=1)})
    assert one.stats_hash == other.stats_hash


def test_a_later_stage_goes_on_from_the_rows_that_were_seen():
    """Statistics of two stages are those of one with all the rows."""
    whole, parted = normalizer(), normalizer()
    tracker = RunningObsStats(whole)
    tracker.update({"pos": rows(5000)})
    tracker.update({"pos": rows(5000, seed=1)})
    RunningObsStats(parted).update({"pos": rows(5000)})
    saved = Normalizer.from_meta(json.loads(json.dumps(parted.to_meta())))
    RunningObsStats(saved).update({"pos": rows(5000, seed=1)})
    for found, wanted in zip(
        saved.affine("obs.pos").buffers(), whole.affine("obs.pos").buffers(), strict=True
    ):
        torch.testing.assert_close(found, wanted)


def test_fresh_statistics_and_those_of_earlier_revisions_count_as_few_rows():
    fresh = normalizer()
    assert "running_rows" not in fresh.to_meta()
    assert RunningObsStats(Normalizer.from_meta(fresh.to_meta())).count == FRESH_ROWS


def test_the_rows_go_back_with_the_statistics():
    """As after a resume or a rollback."""
    found = normalizer()
    tracker = RunningObsStats(found)
    tracker.update({"pos": rows(50)})
    state = copy.deepcopy(tracker.state_dict())
    tracker.update({"pos": rows(50)})
    tracker.load_state_dict(state)
    assert found.to_meta()["running_rows"] == FRESH_ROWS + 50


def test_what_does_not_vary_keeps_its_scale():
    found = normalizer(std=0.0)
    RunningObsStats(found, weight=1.0).update({"pos": torch.zeros(10, 1, 2)})
    assert torch.equal(found.affine("obs.pos").scale, torch.ones(2))


def test_numbers_of_demonstrations_are_not_moved():
    with pytest.raises(ConfigError, match="scratch"):
        RunningObsStats(normalizer(mode="min_max"))
