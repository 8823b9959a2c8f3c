"""Only frames that are read are rendered, and those are the right ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_cameras import ITEMS, SeenTask, same

from robo_rl.api.env import OpenLoop
from robo_rl.env.chunk_env import ChunkEnv
from robo_rl.env.latency_env import LatencyEnv

STEPS = 6


class Counted:
    """A renderer that counts the worlds that it is asked for."""

    def __init__(self, env) -> None:
        self.frames, self._start = 0, env._cameras._renderer.start
        env._cameras._renderer.start = self.start

    def start(self, qpos, looks):
        self.frames += len(qpos)
        return self._start(qpos, looks)


def acts(num: int, steps: int = STEPS) -> torch.Tensor:
    return torch.linspace(-1.0, 1.0, num)[:, None, None].expand(-1, steps, 1).clone()


@pytest.mark.parametrize("frames", [*(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2)), 3])
def test_the_last_frames_before_a_decision_and_before_an_end_are_right(seen, frames):
    """Two envs of five end within the sequence; what is read of each is as if all were drawn."""
    one, whole = seen(5, steps=50, end_m=0.2), seen(5, steps=50, end_m=0.2)
    one.reset(0)
    whole.reset(0)
    ended = 0
    for _ in range(3):
        some = one.rollout(acts(5), frames=frames)
        every = whole.rollout(acts(5))
        valid = torch.stack([step.valid for step in every])
        last = valid.sum(dim=0) - 1
        assert [step.valid.tolist() for step in some] == valid.tolist()
        for env in range(5):
            for t in range(max(0, int(last[env]) - frames + 1), int(last[env]) + 1):
                assert same(some[t].next_obs, every[t].next_obs, env)
        assert same(some[-1].obs, every[-1].obs)
        assert torch.equal(some[-1].obs["cart"], every[-1].obs["cart"])
        ended += int((every[-1].obs["cart"] != every[-1].next_obs["cart"]).any(dim=1).sum())
    assert ended >= 2


def test_a_chunk_draws_one_frame_a_world_and_one_a_new_episode(seen):
    env = seen(4, steps=2 * STEPS)
    counted = Counted(env)
    chunks = ChunkEnv(env, obs_horizon=1, exec_horizon=STEPS, gamma=1.0)
    chunks.reset(0)
    assert counted.frames == 4
    chunks.step(acts(4))
    assert counted.frames == 8
    step = chunks.step(acts(4))  # every episode is at its limit
    assert step.truncated.all()
    assert counted.frames == 16
    assert not same(step.obs, step.next_obs)


def test_a_history_is_that_of_steps(seen):
    """With two frames of history, chunks show what single steps show."""
    chunked = ChunkEnv(seen(3), obs_horizon=2, exec_horizon=4, gamma=1.0)
    single = ChunkEnv(seen(3), obs_horizon=2, exec_horizon=1, gamma=1.0)
    assert same(chunked.reset(0), single.reset(0))
    act = acts(3, 4)
    now = chunked.step(act)
    for t in range(4):
        then = single.step(act[:, t : t + 1])
    assert same(now.obs, then.obs)
    assert now.next_obs["map"].shape == (3, 2, 3, 32, 32)


def test_a_lost_world_repeats_the_frame_before_it(seen):
    env = seen(2)
    before = env.reset(0)
    env._backend._state[1, 1] = np.nan
    steps = env.rollout(acts(2), frames=1)
    assert steps[0].valid.tolist() == [True, False]
    for step in steps:
        assert same(step.next_obs, before, 1)


@pytest.mark.slow
@pytest.mark.parametrize("latency_s", [0.0, 0.03, 0.05])
def test_late_frames_are_drawn_too(seen, latency_s):
    fields = {"env": seen(2).cfg.model_dump(mode="json") | {"name": "sim"}}
    fields["obs_delay"] = {"latency_s": [latency_s, latency_s]}
    cfg = LatencyEnv.Config.model_validate(fields)
    some, whole = (LatencyEnv(cfg, SeenTask(), 2) for _ in range(2))
    assert isinstance(some, OpenLoop)
    some.reset(0)
    whole.reset(0)
    for _ in range(2):
        act = acts(2)
        seen_some, seen_whole = some.rollout(act, frames=1)[-1], whole.rollout(act)[-1]
        assert all(torch.equal(seen_some.obs[i], seen_whole.obs[i]) for i in ITEMS)
    some.close()
    whole.close()
