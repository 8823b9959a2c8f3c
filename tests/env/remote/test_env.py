"""RemoteEnv: what worlds say arrives to the bit, lost workers are replaced, nothing is mixed."""

from __future__ import annotations

import importlib.util
import os
import random
import signal
import stat
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from small_gym import gone
from small_remote import (
    EXIT,
    FAULTS,
    NAN,
    OKAY,
    RAISE,
    SEGFAULT,
    SLEEP,
    STOP,
    WRONG_SHAPE,
    faults,
    remote,
    seconds,
)

from robo_rl.api.env import VecEnv
from robo_rl.core.errors import PluginError, SpecError
from robo_rl.core.seeding import make_generator
from robo_rl.env.serve import point_mass_world
from robo_rl.env.workers.pooled_env import env_seed
from robo_rl.testing.env import check_vec_env, random_act


@pytest.fixture
def make():
    """Makes remote envs and closes them."""
    made = []

    def _make(*args, **fields):
        made.append(remote(*args, **fields))
        return made[-1]

    yield _make
    for env in made:
        env.close()


def faults_world():
    spec = importlib.util.spec_from_file_location("remote_faults", FAULTS)
    module = importlib.util.module_from_spec(spec)  # pyright: ignore[reportArgumentType]
    spec.loader.exec_module(module)  # pyright: ignore[reportOptionalMemberAccess]
    return module


@pytest.mark.parametrize("workers", [1, 2])
def test_it_conforms(workers: int):
    check_vec_env(
        lambda num_envs: remote(
            "point_mass", num_envs, workers=workers, kwargs={"max_episode_steps": 30}
        )
    )


def test_a_world_of_single_envs_conforms():
    check_vec_env(lambda num_envs: remote(num_envs=num_envs, kwargs={"fault": "never"}))


def test_what_the_world_says_arrives_to_the_bit(make):
    env: VecEnv = make("point_mass", 5, workers=2, kwargs={"max_episode_steps": 7})
    world = point_mass_world.make_all(5, 7)
    act = random_act(env.act_spec, 5, 60, torch.Generator().manual_seed(0))
    obs = world.reset([env_seed(3, i) for i in range(5)])
    assert np.array_equal(env.reset(3)["state"], obs["state"])
    for act_t in act.unbind(1):
        theirs, ours = world.step(act_t.numpy()), env.step(act_t)
        assert np.array_equal(ours.obs["state"], theirs["obs"]["state"])
        assert np.array_equal(ours.next_obs["state"], theirs["next_obs"]["state"])
        assert np.array_equal(ours.rew, theirs["rew"].astype(np.float32))
        assert np.array_equal(ours.terminated, theirs["terminated"])
        assert np.array_equal(ours.truncated, theirs["truncated"])
        assert np.array_equal(ours.metrics["success"], theirs["metrics"]["success"])
        assert ours.valid.all()


def test_single_envs_pixels_and_odd_floats_arrive_to_the_bit(make):
    env = make(num_envs=2, workers=1)
    alone = faults_world().make_one(0)
    env.reset(1)
    alone.reset(env_seed(1, 0))
    for value in (1e-42, -0.0, np.pi, np.nextafter(np.float32(5), np.float32(6))):
        act = torch.tensor([[0.1, value], [0.0, 0.0]], dtype=torch.float32)
        obs, rew, *_ = alone.step(act[0].numpy())
        step = env.step(act)
        sent = obs["state"].astype(np.float32)
        assert step.next_obs["state"][0].numpy().tobytes() == sent.tobytes()
        assert np.array_equal(step.next_obs["rgb"][0], obs["rgb"])
        assert step.rew[0].item() == np.float32(rew)


def test_a_seed_reproduces_whatever_the_number_of_workers(make):
    act = torch.full((5, 2), 0.3)

    def course(workers):
        env = make("point_mass", 5, workers=workers, kwargs={"max_episode_steps": 3})
        return torch.stack([env.reset(2)["state"], *(env.step(act).obs["state"] for _ in range(9))])

    first = course(1)
    assert torch.equal(first, course(3))
    assert len(first[0, :, 4].unique()) == 5


def test_results_are_not_overwritten_by_the_next_call(make):
    env = make()
    before = env.reset(0)["state"].clone()
    first = env.step(faults(OKAY, OKAY, OKAY, OKAY, argument=1.0))
    kept = first.obs["state"].clone(), first.rew.clone()
    env.step(torch.zeros(4, 2))
    assert torch.equal(first.obs["state"], kept[0])
    assert torch.equal(first.rew, kept[1])
    assert not torch.equal(before, kept[0])


def test_actions_are_clipped_to_the_limits(make):
    env = make()
    env.reset(0)
    step = env.step(torch.tensor([[0.0, 99.0], [0.0, -99.0], [0.0, 3.0], [0.0, 0.0]]))
    assert step.rew.tolist() == [10.0, -10.0, 3.0, 0.0]


def test_its_demonstrator_reaches_the_mark_and_its_noise_can_be_repeated(make):
    env = make("point_mass", 8)

    def run(noise):
        expert = env.expert(8, make_generator("expert", 0), noise)
        env.reset(0)
        acts, good = [], torch.zeros(8)
        for _ in range(99):
            acts.append(expert.act(env.view).act)
            good += env.step(acts[-1]).metrics["success"]
        return torch.stack(acts), good

    exact, good = run(0.0)
    assert (good >= 1).all()
    assert torch.equal(run(0.3)[0], run(0.3)[0])
    assert not torch.equal(run(0.3)[0], exact)


def test_a_world_without_a_demonstrator_says_so(make):
    with pytest.raises(PluginError, match="no scripted expert"):
        make().expert(4, torch.Generator(), 0.0)


def test_a_step_that_is_not_finite_is_cut_and_its_env_begins_anew(make):
    env = make()
    before = env.reset(0)
    step = env.step(faults(OKAY, NAN, OKAY, OKAY))
    assert step.valid.tolist() == [True, False, True, True]
    assert step.truncated.tolist() == [False, True, False, False]
    assert torch.equal(step.next_obs["state"][1], before["state"][1])
    assert step.obs["state"][:, 1].tolist() == [1.0, 0.0, 1.0, 1.0]
    assert torch.isfinite(step.obs["state"]).all()
    assert not step.metrics["worker_restarts"].any()


def test_a_world_that_raises_is_named_and_goes_on_after_a_reset(make):
    env = make()
    env.reset(0)
    with pytest.raises(PluginError, match="ArithmeticError: the joints are tied") as caught:
        env.step(faults(OKAY, OKAY, RAISE, OKAY))
    assert "in step" in "".join(caught.value.__notes__)
    with pytest.raises(PluginError, match="reset it first"):
        env.step(torch.zeros(4, 2))
    env.reset(0)
    assert env.step(torch.zeros(4, 2)).valid.all()


def test_arrays_that_do_not_fit_are_refused(make):
    env = make(workers=1, num_envs=1)
    env.reset(0)
    with pytest.raises(SpecError, match=r"'obs.state'.*expected \(1, 4\).*found \(1, 1\)"):
        env.step(faults(WRONG_SHAPE))
    env.reset(0)
    with pytest.raises(SpecError, match="'act' does not fit"):
        env.step(torch.zeros(1, 3))


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


def test_a_killed_worker_is_replaced_within_seconds_and_no_other_env_notices(make):
    env = make()
    env.reset(0)
    before = env.step(torch.zeros(4, 2)).obs
    os.kill(env.worker_pids[1], signal.SIGKILL)
    took, step = seconds(lambda: env.step(torch.zeros(4, 2)))
    assert took < 5.0
    assert_restarted(step, [2, 3], before)
    assert env.worker_restarts == 1
    assert env.step(torch.zeros(4, 2)).obs["state"][:, 1].tolist() == [3.0, 3.0, 1.0, 1.0]


@pytest.mark.parametrize("fault", [SEGFAULT, EXIT])
def test_a_crash_within_a_step_is_survived(make, fault):
    env = make()
    before = env.reset(0)
    assert_restarted(env.step(faults(fault, OKAY, OKAY, OKAY)), [0, 1], before)


@pytest.mark.parametrize(
    "when", ["before the step", pytest.param("within it", marks=pytest.mark.slow)]
)
def test_a_stopped_worker_is_replaced_within_seconds_and_killed(make, when):
    env = make()
    before, stopped = env.reset(0), env.worker_pids[0]
    if when == "before the step":
        os.kill(stopped, signal.SIGSTOP)
    act = faults(STOP if when == "within it" else OKAY, OKAY, OKAY, OKAY)
    took, step = seconds(lambda: env.step(act))
    assert 1.5 <= took < 5.0
    assert_restarted(step, [0, 1], before)
    assert gone(stopped)


@pytest.mark.slow
def test_a_sleeping_world_gives_signs_of_life_until_the_step_takes_too_long(make):
    env = make(step_timeout_s=3.5)
    before = env.reset(0)
    assert env.step(faults(OKAY, OKAY, OKAY, SLEEP, argument=2.0)).valid.all()
    before = env.reset(0)
    assert_restarted(env.step(faults(OKAY, OKAY, OKAY, SLEEP, argument=10.0)), [2, 3], before)


def test_a_worker_lost_while_it_demonstrates_is_marked_in_the_next_step(make):
    env = make("point_mass")
    before = env.reset(0)
    os.kill(env.worker_pids[0], signal.SIGKILL)
    act = env.demonstrate()
    assert not act[:2].any()
    assert act[2:].any(1).all()
    step = env.step(act)
    assert step.valid.tolist() == [False, False, True, True]
    assert torch.equal(step.next_obs["state"][:2], before["state"][:2])


def test_a_world_that_keeps_dying_ends_the_env_with_its_reason(make):
    env = make()
    env.reset(0)
    for _ in range(3):
        env.step(faults(SEGFAULT, OKAY, OKAY, OKAY))
    with pytest.raises(PluginError, match=r"4 times in a row: .*by SIGSEGV.*into the void"):
        env.step(faults(SEGFAULT, OKAY, OKAY, OKAY))
    with pytest.raises(PluginError, match="it is closed"):
        env.reset(0)


@pytest.mark.slow
def test_no_transition_is_mixed_while_workers_are_killed_at_random(make):
    env, rng = make(num_envs=8, workers=4), random.Random(0)

    def kill():
        for _ in range(30):
            time.sleep(rng.random())
            with suppress(ProcessLookupError, IndexError):  # one that is just being replaced
                victim = rng.choice(env.worker_pids)
                os.kill(victim, rng.choice([signal.SIGKILL] * 4 + [signal.SIGSTOP]))

    killer, before, count = threading.Thread(target=kill), env.reset(0)["state"], 0
    killer.start()
    while killer.is_alive():
        count += 1
        told = (count % 400) / 1000  # which is no fault's number
        step = env.step(torch.full((8, 2), told))
        after = step.next_obs["state"]
        went_on = (after[:, 0] == before[:, 0]) & (after[:, 1] == before[:, 1] + 1)
        went_on &= (after[:, 2:] == told).all(1)  # by this action and by no other
        stood = (after == before).all(1)
        assert torch.where(step.valid, went_on, stood).all()
        assert torch.equal(step.metrics["worker_restarts"].bool(), ~step.valid)
        before = step.obs["state"]
    assert env.worker_restarts > 6  # a worker may be hit twice


def test_closing_ends_all_processes_and_leaves_no_file(make):
    env = make()
    env.reset(0)
    pids, folder = env.worker_pids, Path(env._pool._host._socket).parent
    os.kill(pids[0], signal.SIGSTOP)
    env.close()
    env.close()
    assert all(gone(pid) for pid in pids)
    assert not folder.exists()


def test_nothing_is_left_behind_by_a_process_that_is_killed():
    code = (
        "import time; from small_remote import remote; env = remote('point_mass'); "
        "print(*env.worker_pids, env._pool._host._folder, flush=True); time.sleep(60)"
    )
    where = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=where)
    assert process.stdout is not None
    *pids, folder = process.stdout.readline().split()
    assert Path(folder.decode()).is_dir()
    process.kill()
    process.wait()
    assert all(gone(int(pid)) for pid in pids)
    deadline = time.monotonic() + 10
    while Path(folder.decode()).exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_only_its_owner_may_connect(make):
    env = make()
    path = Path(env._pool._host._socket)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_server_that_is_killed_is_started_anew_with_the_worker_it_had(make):
    env = make(workers=1)
    before = env.reset(0)
    os.kill(env._pool._host._process.pid, signal.SIGKILL)
    assert env.step(torch.zeros(4, 2)).valid.all()  # its worker lives on
    before = env.reset(0)
    os.kill(env.worker_pids[0], signal.SIGKILL)
    assert_restarted(env.step(torch.zeros(4, 2)), [0, 1, 2, 3], before)


@pytest.fixture
def served(tmp_path_factory):
    """The socket of a server that the command line started."""
    path = tmp_path_factory.mktemp("s") / "socket"
    words = ["-m", "robo_rl", "serve-env", sys.executable, str(path)]
    process = subprocess.Popen([sys.executable, *words])
    while not path.exists():
        time.sleep(0.01)
    yield path
    process.terminate()
    assert process.wait(5) == 0
    assert not path.exists()


def test_a_server_that_runs_already_serves_several_and_outlives_a_worker(served):
    with closing(remote("point_mass", socket=str(served))) as env:
        before = env.reset(0)
        with closing(remote("point_mass", socket=str(served))) as other:
            assert torch.equal(other.reset(0)["state"], before["state"])
        os.kill(env.worker_pids[0], signal.SIGKILL)
        step = env.step(torch.zeros(4, 2))
        assert step.valid.tolist() == [False, False, True, True]
        pids = env.worker_pids
    assert all(gone(pid) for pid in pids)


def test_memory_goes_with_its_worker(make):
    env = make("point_mass")
    env.reset(0)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        os.kill(env.worker_pids[0], signal.SIGKILL)
        env.step(torch.zeros(4, 2))
        env.step(torch.zeros(4, 2))
    assert len(os.listdir("/proc/self/fd")) == before
