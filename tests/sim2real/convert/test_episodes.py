"""Where outcomes cut a recording into episodes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from robo_rl_sim2real.convert.episodes import EpisodeStep, cut_into_episodes
from robo_rl_sim2real.convert.outcomes import Outcomes


def rows(number: int) -> list[EpisodeStep]:
    """Consecutive periods of one second."""
    frame: Any = SimpleNamespace(instruction="")
    moments: list[Any] = [SimpleNamespace(at_s=float(i), number=i) for i in range(number)]
    return [EpisodeStep(moment, frame, np.zeros(1)) for moment in moments]


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        pytest.param(
            [(9.5, True), (19.5, False)], [(10, True), (10, False), (10, None)], id="ends alone"
        ),
        pytest.param(
            [(0.0, None), (9.5, True), (14.5, None), (19.5, False)],
            [(10, True), (5, False)],
            id="starts too",
        ),
        pytest.param([(0.0, None), (35.0, None), (39.0, True)], [(30, None)], id="interrupted"),
        pytest.param([], [(30, None)], id="none"),
    ],
)
def test_an_episode_ends_at_its_outcome(
    told: list[tuple[float, bool | None]], wanted: list[tuple[int, bool | None]]
):
    found = cut_into_episodes(iter(rows(30)), Outcomes(told))
    assert [(len(each.steps), each.success) for each in found] == wanted
