"""GymEnv: the same transitions as a plain Gymnasium loop, and no fault of an env that spreads."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch

from robo_rl.env.base import OpenLoop
from robo_rl.env.gym_env import GymEnv, env_seed
from robo_rl.errors import ConfigError, PluginError, SpecError
from robo_rl.testing.env import check_vec_env

gymnasium = pytest.importorskip("gymnasium")

OKAY, RAISE, SLEEP, SEGFAULT, NAN, WRONG_SHAPE, EXIT = range(7)
HERE = Path(__file__).parent


@pytest.fixture
def make(monkeypatch):
    """Makes GymEnvs and closes them; workers can import the faulty env."""
    monkeypatch.syspath_prepend(str(HERE))
    made = []

    def _make(env_id="Faults-v0", num_envs=4, **fields):
        fields = {"workers": 2, "import_module": "gym_faults", **fields}
        made.append(GymEnv(GymEnv.Config(id=env_id, **fields), num_envs))
        return made[-1]

    yield _make
    for env in made:
        env.close()


def faults(*commands, steps=1, argument=0.0):
    """Actions (B, T, 2): command b for env b in the first step."""
    act = torch.zeros(len(commands), steps, 2)
    act[:, 0, 0] = torch.tensor(commands, dtype=torch.float32)
    act[:, 0, 1] = argument
    return act


def plain_loop(env_id, seeds, act, **kwargs):
    """What single Gymnasium envs give for act (N, B, T, A), one chunk of T after the other.

    An env whose episode ended waits to the end of the chunk. Rows (chunk, env, t) of
    (obs, next_obs, rew, terminated, truncated).
    """
    rows = {}
    for b, seed in enumerate(seeds):
        env = gymnasium.make(env_id, **kwargs)
        env.reset(seed=seed)
        for n in range(len(act)):
            for t in range(act.shape[2]):
                low, high = env.action_space.low, env.action_space.high
                obs, rew, terminated, truncated, _ = env.step(np.clip(act[n, b, t], low, high))
                next_obs = obs
                if terminated or truncated:
                    obs, _ = env.reset()
                rows[n, b, t] = (obs, next_obs, rew, terminated, truncated)
                if terminated or truncated:
                    break
        env.close()
    return rows


def assert_equal(chunks, rows):
    """Every step of every chunk is the plain loop's row to the bit, and not valid where none is."""
    for n, chunk in enumerate(chunks):
        for t, step in enumerate(chunk):
            for b in range(len(step.rew)):
                assert bool(step.valid[b]) == ((n, b, t) in rows)
                if (n, b, t) in rows:
                    obs, next_obs, rew, terminated, truncated = rows[n, b, t]
                    assert np.array_equal(step.obs["state"][b], np.float32(obs))
                    assert np.array_equal(step.next_obs["state"][b], np.float32(next_obs))
                    assert step.rew[b].item() == np.float32(rew)
                    assert bool(step.terminated[b]) == terminated
                    assert bool(step.truncated[b]) == truncated


def both_ends(rows):
    """How many rows terminated, how many were truncated."""
    return sum(row[3] for row in rows.values()), sum(row[4] for row in rows.values())


def run_plain_and_ours(env_id, num_envs, chunks, horizon, act_of, **fields):
    """Our chunks and the plain loop's rows for the same seeds and actions."""
    seed = 7
    env = GymEnv(GymEnv.Config(id=env_id, workers=2, **fields), num_envs)
    obs, acts, ours = env.reset(seed), [], []
    for n in range(chunks):
        acts.append(act_of(obs["state"], n))
        ours.append(env.rollout(acts[-1]) if horizon > 1 else [env.step(acts[-1][:, 0])])
        obs = ours[-1][-1].obs
    env.close()
    seeds = [env_seed(seed, b) for b in range(num_envs)]
    return ours, plain_loop(env_id, seeds, torch.stack(acts).numpy(), **fields)


def noise(num_envs, horizon, act_dim, scale):
    """Random actions that leave the limits at times."""

    def act_of(_obs, n):
        generator = torch.Generator().manual_seed(n)
        return scale * torch.randn(num_envs, horizon, act_dim, generator=generator)

    return act_of


def test_steps_equal_a_plain_loop_at_the_time_limit():
    ours, rows = run_plain_and_ours(
        "Pendulum-v1", 3, 70, 1, noise(3, 1, 1, 3.0), max_episode_steps=30
    )
    assert both_ends(rows) == (0, 6)
    assert_equal(ours, rows)


def test_steps_equal_a_plain_loop_at_termination():
    def pump(state, _n):
        return state[:, 1:].sign().unsqueeze(1)

    ours, rows = run_plain_and_ours("MountainCarContinuous-v0", 3, 130, 1, pump)
    assert both_ends(rows)[0] >= 3
    assert_equal(ours, rows)


@pytest.mark.parametrize("horizon", [1, 7])
def test_hopper_equals_a_plain_loop_in_steps_and_in_open_loop_chunks(horizon):
    pytest.importorskip("mujoco")
    act_of, chunks = noise(4, horizon, 3, 1.0), 280 // horizon
    ours, rows = run_plain_and_ours("Hopper-v5", 4, chunks, horizon, act_of, max_episode_steps=25)
    terminated, truncated = both_ends(rows)
    assert terminated > 0
    assert truncated > 0
    assert_equal(ours, rows)


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "Hopper-v5"])
def test_it_conforms(make, env_id):
    if env_id == "Hopper-v5":
        pytest.importorskip("mujoco")
    check_vec_env(lambda num_envs: make(env_id, num_envs, max_episode_steps=40))


def test_specs_say_what_the_env_is(make):
    env = make("Pendulum-v1")
    assert env.obs_spec.items["state"].shape == (3,)
    assert env.obs_spec.items["state"].high == (1.0, 1.0, 8.0)
    assert (env.act_spec.low, env.act_spec.high) == ((-2.0,), (2.0,))
    assert (env.dt_s, env.max_episode_steps) == (0.05, 200)
    assert isinstance(env, OpenLoop)


def test_dict_observations_keep_names_and_pixels_stay_uint8(make):
    env = make()
    obs = env.reset(0)
    env.obs_spec.validate_obs(obs)
    assert obs["rgb"].dtype == torch.uint8
    assert obs["rgb"].shape == (4, 2, 3, 3)
    assert (env.dt_s, env.act_spec.rate_hz) == (0.125, 8.0)
    steps = env.rollout(torch.zeros(4, 3, 2))
    assert [int(step.next_obs["rgb"].max()) for step in steps] == [10, 20, 30]


def test_actions_are_clipped_to_the_space(make):
    env = make()
    env.reset(0)
    step = env.step(torch.tensor([[0.0, 99.0], [0.0, -99.0], [0.0, 3.0], [0.0, 0.0]]))
    assert step.rew.tolist() == [10.0, -10.0, 3.0, 0.0]


def test_an_env_waits_behind_its_episodes_end(make):
    env = make()
    env.reset(0)
    steps = env.rollout(torch.zeros(4, 9, 2))
    assert [bool(s.valid.all()) for s in steps] == [True] * 6 + [False] * 3
    assert [bool(s.terminated.any()) for s in steps] == [False] * 5 + [True] + [False] * 3
    assert [float(s.metrics["success"].max()) for s in steps] == [0.0] * 5 + [1.0] + [0.0] * 3
    assert steps[5].next_obs["state"][:, 1].tolist() == [6.0] * 4
    for step in steps[5:]:
        assert step.obs["state"][:, 1].tolist() == [0.0] * 4
        assert torch.equal(step.obs["state"], steps[5].obs["state"])


def test_a_seed_reproduces_whatever_the_number_of_workers(make):
    def run(env, seed):
        obs = env.reset(seed)["state"]
        return torch.stack([obs, *(s.obs["state"] for _ in range(8) for s in env.rollout(act))])

    act = torch.zeros(5, 4, 2)
    first, second = make(num_envs=5, workers=1), make(num_envs=5, workers=3)
    assert torch.equal(run(first, 3), run(second, 3))
    assert torch.equal(run(first, 3), run(second, 3))
    assert not torch.equal(run(first, 3), run(first, 4))
    assert not torch.equal(run(first, 3)[0], run(first, None)[0])
    assert len(first.reset(3)["state"][:, 0].unique()) == 5


def test_results_are_not_overwritten_by_the_next_call(make):
    env = make()
    before = env.reset(0)["state"].clone()
    first = env.step(faults(OKAY, OKAY, OKAY, OKAY, argument=1.0)[:, 0])
    kept = first.obs["state"].clone(), first.rew.clone()
    env.step(torch.zeros(4, 2))
    assert torch.equal(first.obs["state"], kept[0])
    assert torch.equal(first.rew, kept[1])
    assert not torch.equal(before, first.obs["state"])


def test_the_first_seed_is_zero(make):
    env = make()
    unseeded = env.reset()
    assert torch.equal(unseeded["state"], env.reset(0)["state"])


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


def test_an_env_that_raises_says_so_and_can_be_reset(make):
    env = make()
    env.reset(0)
    with pytest.raises(PluginError, match=r"'Faults-v0', env 1, step.*ArithmeticError.*in a knot"):
        env.step(faults(OKAY, RAISE, OKAY, OKAY)[:, 0])
    with pytest.raises(PluginError, match="reset it first"):
        env.step(torch.zeros(4, 2))
    assert torch.equal(env.reset(0)["state"][:, 1], torch.zeros(4))
    assert env.step(torch.zeros(4, 2)).valid.all()
    assert env.worker_restarts == 0


def test_a_world_that_is_not_finite_is_cut_and_reset_alone(make):
    env = make()
    before = env.reset(0)
    chunk = env.rollout(faults(OKAY, OKAY, NAN, OKAY, steps=3))
    assert chunk[0].valid.tolist() == [True, True, False, True]
    assert chunk[0].truncated.tolist() == [False, False, True, False]
    assert torch.equal(chunk[0].next_obs["state"][2], before["state"][2])
    assert [s.valid[2].item() for s in chunk] == [False] * 3
    assert chunk[2].obs["state"][:, 1].tolist() == [3.0, 3.0, 0.0, 3.0]
    assert all(torch.isfinite(s.obs["state"]).all() for s in chunk)


def test_an_observation_that_breaks_its_space_is_refused(make):
    env = make()
    env.reset(0)
    with pytest.raises(SpecError, match=r"obs 'state'.*expected \(2,\) float32, found \(1,\)"):
        env.step(faults(WRONG_SHAPE, OKAY, OKAY, OKAY)[:, 0])


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({"env_id": "Pendulm-v1"}, PluginError, "Did you mean: `Pendulum`"),
        ({"env_id": "CartPole-v1"}, SpecError, r"action space.*Discrete\(2\)"),
        ({"env_id": "NoLimit-v0"}, ConfigError, "max_episode_steps"),
        ({"kwargs": {"fail_on_make": True}}, PluginError, "RuntimeError: cannot be made"),
        ({"import_module": "no_such_module"}, PluginError, "no_such_module"),
    ],
)
def test_an_env_that_cannot_be_used_is_a_typed_error(make, fields, error, says):
    with pytest.raises(error, match=says):
        make(workers=1, num_envs=1, **fields)


def test_an_env_that_cannot_be_reset_is_a_typed_error(make):
    env = make(workers=1, num_envs=1, kwargs={"fail_on_reset": True})
    with pytest.raises(PluginError, match=r"env 0, reset.*cannot be reset"):
        env.reset(0)


@pytest.mark.parametrize("shape", [(3, 1, 2), (4, 1, 3), (4, 0, 2), (4, 2)])
def test_actions_of_another_shape_are_refused(make, shape):
    env = make(workers=1)
    env.reset(0)
    with pytest.raises(SpecError, match="act"):
        env.rollout(torch.zeros(shape))


def gone(pid):
    """No process, and no zombie, has this id."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def mapped_segments():
    """Shared memory that this process has open or mapped."""
    opened = [os.path.realpath(fd) for fd in Path("/proc/self/fd").iterdir()]
    mapped = Path("/proc/self/maps").read_text().splitlines()
    return [entry for entry in opened + mapped if "memfd:robo-rl-envs" in entry]


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc to look in")
def test_close_leaves_no_process_and_no_shared_memory(make):
    gc.collect()
    before = len(mapped_segments())
    env = make()
    env.reset(0)
    env.rollout(torch.zeros(4, 5, 2))
    pids = env.worker_pids
    assert len(mapped_segments()) > before
    os.kill(pids[0], signal.SIGSTOP)  # one that cannot answer, too
    env.close()
    env.close()
    assert all(gone(pid) for pid in pids)
    assert len(mapped_segments()) == before


def test_an_env_that_is_forgotten_closes_itself(make):
    env = GymEnv(GymEnv.Config(id="Pendulum-v1", workers=1), 1)
    pid = env.worker_pids[0]
    del env
    gc.collect()
    assert gone(pid)


def test_a_killed_trainer_leaves_no_process():
    script = """
import os, signal
from robo_rl.env.gym_env import GymEnv
env = GymEnv(GymEnv.Config(id="Pendulum-v1", workers=2), 2)
env.reset(0)
print(*env.worker_pids, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    # From standard input and without a guard on __main__, as in a notebook.
    done = subprocess.run([sys.executable], input=script, capture_output=True, text=True)
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2
    assert all(gone(pid) for pid in pids)
