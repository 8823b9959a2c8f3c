"""GymEnv's workers may die, hang and dawdle: no other env notices, and no transition is mixed."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from contextlib import suppress

import pytest
import torch
from small_gym import EXIT, OKAY, SEGFAULT, SLEEP, faults, gone

from robo_rl.core.errors import PluginError

gymnasium = pytest.importorskip("gymnasium")


def assert_restarted(step, ids, before):
    """Envs ids were cut in this step and begin anew; the others went on."""
    lost = torch.tensor([b in ids for b in range(len(step.rew))])
    assert torch.equal(step.valid, ~lost)
    assert torch.equal(step.truncated, lost)
    assert not step.terminated.any()
    assert torch.equal(step.metrics["worker_restarts"], lost.float())
    assert torch.equal(step.next_obs["state"][lost], before["state"][lost])
    assert step.obs["state"][lost, 1].tolist() == [0.0] * len(ids)
    assert (step.obs["state"][lost, 0] != before["state"][lost, 0]).all()
    assert torch.equal(step.obs["state"][~lost, 0], before["state"][~lost, 0])
    assert (step.obs["state"][~lost, 1] == before["state"][~lost, 1] + 1).all()
    assert all(torch.isfinite(value).all() for value in (step.rew, step.obs["state"]))


def test_a_killed_worker_is_replaced_and_no_other_env_notices(make):
    env = make()
    env.reset(0)
    before = env.step(torch.zeros(4, 2)).obs
    os.kill(env.worker_pids[1], signal.SIGKILL)
    assert_restarted(env.step(torch.zeros(4, 2)), [2, 3], before)
    assert env.worker_restarts == 1
    after = env.step(torch.zeros(4, 2))
    assert after.valid.all()
    assert after.obs["state"][:, 1].tolist() == [3.0, 3.0, 1.0, 1.0]


@pytest.mark.parametrize("fault", [SEGFAULT, EXIT])
def test_a_crash_within_a_step_is_survived(make, fault):
    env = make()
    before = env.reset(0)
    assert_restarted(env.step(faults(fault, OKAY, OKAY, OKAY)[:, 0]), [0, 1], before)


def test_a_stopped_worker_is_replaced(make):
    env = make(step_timeout_s=2.0)
    before = env.reset(0)
    stopped = env.worker_pids[0]
    os.kill(stopped, signal.SIGSTOP)
    assert_restarted(env.step(torch.zeros(4, 2)), [0, 1], before)
    assert gone(stopped)


@pytest.mark.slow
def test_a_sleeping_env_is_replaced_and_its_late_answer_is_never_seen(make):
    env = make(step_timeout_s=2.0)
    before = env.reset(0)
    chunk = env.rollout(faults(OKAY, OKAY, OKAY, SLEEP, steps=4, argument=60.0))
    assert_restarted(chunk[0], [2, 3], before)
    assert [s.valid.tolist() for s in chunk[1:]] == [[True, True, False, False]] * 3
    assert not any(s.truncated.any() for s in chunk[1:])
    assert chunk[3].obs["state"][:, 1].tolist() == [4.0, 4.0, 0.0, 0.0]


def test_a_slow_chunk_is_no_hang_while_its_steps_advance(make):
    env = make(step_timeout_s=2.0)
    env.reset(0)
    act = torch.zeros(4, 4, 2)
    act[..., 0], act[..., 1] = SLEEP, 0.4
    assert all(step.valid.all() for step in env.rollout(act))
    assert env.worker_restarts == 0


def assert_continuous(before, chunk):
    """A valid step goes one step on in the same episode; any other leaves the env where it is."""
    for step in chunk:
        acted_on, true_next, obs = before["state"], step.next_obs["state"], step.obs["state"]
        went_on = (true_next[:, 0] == acted_on[:, 0]) & (true_next[:, 1] == acted_on[:, 1] + 1)
        stood = (true_next == acted_on).all(1)
        over = step.terminated | step.truncated
        assert torch.equal(torch.where(step.valid, went_on, stood), torch.ones_like(stood))
        assert torch.equal(obs[over, 1], torch.zeros(int(over.sum())))
        assert torch.equal(obs[~over], true_next[~over])
        assert not (step.metrics["worker_restarts"].bool() & (step.valid | ~step.truncated)).any()
        before = step.obs
    return before


@pytest.mark.slow
def test_no_transition_is_mixed_or_lost_while_workers_are_killed_at_random(make):
    kills, rng = 30, random.Random(0)
    env = make(num_envs=8, workers=4, step_timeout_s=2.0, start_timeout_s=20.0)

    def kill():
        for _ in range(kills):
            time.sleep(rng.random())
            with suppress(ProcessLookupError, KeyError):  # one that is just being replaced
                victim = rng.choice(env.worker_pids)
                os.kill(victim, rng.choice([signal.SIGKILL] * 4 + [signal.SIGSTOP]))

    obs = env.reset(0)
    killer = threading.Thread(target=kill)
    killer.start()
    while killer.is_alive():
        obs = assert_continuous(obs, env.rollout(torch.zeros(8, 5, 2)))
    assert env.worker_restarts > kills / 5  # a worker may be hit twice


def test_all_workers_may_die_at_once(make):
    env = make()
    before = env.reset(0)
    for pid in env.worker_pids:
        os.kill(pid, signal.SIGKILL)
    assert_restarted(env.step(torch.zeros(4, 2)), [0, 1, 2, 3], before)


def test_a_reset_after_a_crash_gives_what_its_seed_says(make):
    env = make()
    expected = env.reset(5)["state"]
    os.kill(env.worker_pids[0], signal.SIGKILL)
    assert torch.equal(env.reset(5)["state"], expected)


def test_a_worker_that_keeps_dying_is_an_error_not_a_loop(make):
    env = make(workers=1, num_envs=1)
    env.reset(0)
    for _ in range(3):
        assert not env.step(faults(SEGFAULT)[:, 0]).valid.any()
    with pytest.raises(PluginError, match=r"4 times in a row.*SIGSEGV"):
        env.step(faults(SEGFAULT)[:, 0])
    with pytest.raises(PluginError, match="closed"):
        env.step(torch.zeros(1, 2))
