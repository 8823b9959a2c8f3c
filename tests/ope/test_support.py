"""How far chunks are from those that were tried, on logs in which that is known."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch
from small_logged import Always, logged_columns, small_policy

from robo_rl.core.errors import DataError
from robo_rl.data.replay import Replay
from robo_rl.ope.support import nearest_chunk_distance, nearest_states, ood_distance

ROWS = 400
EPISODE = torch.arange(ROWS) // 4
GOOD = EPISODE % 2 == 0


def logs(spread: float) -> Replay:
    """Decisions about zero, of one step each, all carried out whole."""
    columns = logged_columns(ROWS)
    columns["act"] = spread * columns["act"]
    columns["num_exec"] = torch.full((ROWS,), small_policy().exec_horizon)
    replay = Replay(Replay.Config(demo_fraction=1.0))
    replay.add_demonstrations(columns)
    return replay


def strange(
    value: float, replay: Replay, episode: torch.Tensor = EPISODE, good: torch.Tensor = GOOD
) -> float:
    policy = cast(Any, Always(small_policy(), value))
    return ood_distance(policy, replay, episode, good, torch.Generator().manual_seed(0))


def test_what_lies_amid_all_that_was_tried_is_not_strange_and_what_lies_beyond_it_is():
    replay = logs(0.2)
    inside, edge, outside = (strange(value, replay) for value in (0.0, 0.3, 0.9))
    assert inside < 1.0 < edge < outside
    assert outside > 3.0


def test_where_all_chunks_are_the_same_a_policy_that_says_so_too_is_not_strange():
    replay = logs(0.0)
    assert strange(0.0, replay) == pytest.approx(1.0)
    assert strange(0.5, replay) > 10.0


def test_no_good_episode_is_no_place_to_look():
    with pytest.raises(DataError, match="one of them good"):
        strange(0.0, logs(0.2), good=torch.zeros(ROWS, dtype=torch.bool))


def test_one_episode_has_nothing_to_be_compared_with():
    with pytest.raises(DataError, match="two episodes"):
        strange(0.0, logs(0.2), torch.zeros(ROWS, dtype=torch.int64))


def test_the_likest_are_of_other_episodes():
    known = torch.tensor([[0.0], [0.1], [1.0], [5.0]])
    own = torch.tensor([[True, True, False, False]])
    assert nearest_states(known[:1], known, own).tolist() == [[2, 3]]
    assert nearest_states(known[:1], known, own, number=1).tolist() == [[2]]


def test_the_nearest_of_each_rows_own_counts():
    act, tried = torch.tensor([[0.0, 0.0]]), torch.tensor([[[3.0, 4.0], [0.0, 2.0]]])
    assert nearest_chunk_distance(act, tried).tolist() == [2.0]
