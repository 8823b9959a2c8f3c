"""A recorder keeps what a step held when it was given, whatever the env does to it later."""

from __future__ import annotations

import numpy as np
import torch

from robo_rl.api.env import Step
from robo_rl.train.datasets.episode_recorder import EpisodeRecorder

STEPS = 4


def test_every_column_is_a_copy() -> None:
    """All steps are written to the same tensors; step t holds t, and the last one ends."""
    x, act, executed = (torch.zeros(2, 1) for _ in range(3))
    rew, flags = torch.zeros(2), [torch.zeros(2, dtype=torch.bool) for _ in range(3)]
    terminated, truncated, valid = flags
    step = Step({"x": x}, {"x": x}, rew, terminated, truncated, valid, {"success": rew * 0})
    recorder = EpisodeRecorder(2)
    for t in range(STEPS):
        for tensor in (x, act, executed, rew):
            tensor.fill_(t)
        terminated[:], valid[:] = t == STEPS - 1, True
        recorder.record_step({"x": x}, act, step, executed=executed)
    for tensor in (x, act, executed, rew, *flags):
        tensor.fill_(1)
    episodes = recorder.episodes(seed=0, wave=0)
    assert len(episodes) == 2
    counted = np.arange(STEPS, dtype=np.float32)
    for episode in episodes:
        assert np.array_equal(episode["rew"], counted)
        for column in (episode["obs"]["x"], episode["act"], episode["executed"]):
            assert np.array_equal(column[:, 0], counted)
        assert episode["terminated"].tolist() == [False] * (STEPS - 1) + [True]
        assert not episode["truncated"].any()
