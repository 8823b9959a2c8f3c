"""Episodes to learn from, and episodes to judge by."""

from __future__ import annotations

import pytest

from robo_rl.core.errors import DataError
from robo_rl.train.datasets.split import split


@pytest.mark.parametrize(("number", "share"), [(7, 0.5), (40, 0.3), (41, 0.9)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_episode_is_on_one_side_and_either_has_its_share(
    number: int, share: float, seed: int
):
    learnt, apart = split(number, share, seed)
    assert learnt | apart == set(range(number))
    assert not learnt & apart
    assert len(apart) == pytest.approx(share * number, abs=1.0)


def test_episodes_stay_on_their_side_where_others_are_put_behind_them():
    learnt, apart = split(150, 0.5, seed=3)
    more, others = split(300, 0.5, seed=3)
    assert learnt < more
    assert apart < others


def test_without_a_share_both_sides_have_all_of_them():
    assert split(7, 0.0, seed=0) == (set(range(7)), set(range(7)))


def test_episodes_that_are_too_few_to_keep_some_apart_are_refused():
    with pytest.raises(DataError, match="too few episodes"):
        split(1, 0.5, seed=0)
