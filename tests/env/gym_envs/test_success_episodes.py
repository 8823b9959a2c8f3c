"""Success pays once an episode, and ends it or not, as asked."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest

from robo_rl.env.gym_envs.success_episodes import SuccessEpisodes

FLAGS = [0, 1, 0, 1]


class Scripted(gymnasium.Env):
    """Succeeds as the flags say; its own reward is the number of the step, and it never ends."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.step_count = 0
        return 0, {"is_success": True}

    def step(self, action: Any) -> Any:
        flag = FLAGS[self.step_count]
        self.step_count += 1
        return self.step_count, float(self.step_count), False, True, {"is_success": flag, "x": 1}


def played(reward: Any, *, ends: bool) -> list[Any]:
    env = SuccessEpisodes(
        Scripted(), reward, lambda x: -x / 10, flag="is_success", terminate_on_success=ends
    )
    found = []
    for _ in range(2):  # a reset begins anew
        assert env.reset() == (0, {})
        found.append([env.step(None) for _ in FLAGS])
    assert found[0] == found[1]
    return found[0]


def test_success_pays_once():
    assert [rew for _, rew, *_ in played("success", ends=False)] == [0.0, 1.0, 0.0, 0.0]


def test_the_dense_reward_is_the_cost_and_none_at_success():
    assert [rew for _, rew, *_ in played("dense", ends=False)] == [
        -0.1,
        0.0,
        pytest.approx(-0.3),
        0.0,
    ]


@pytest.mark.parametrize("ends", [True, False])
def test_success_ends_an_episode_if_asked_and_nothing_else_does(ends: bool):
    steps = played("success", ends=ends)
    assert [terminated for *_, terminated, _, _ in steps] == [bool(flag) and ends for flag in FLAGS]
    assert not any(truncated for *_, truncated, _ in steps)
    assert [info for *_, info in steps] == [{"success": float(flag)} for flag in FLAGS]
