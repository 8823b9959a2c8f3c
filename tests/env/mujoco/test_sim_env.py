from typing import Any

import pytest
import torch

from robo_rl.api.env import Branchable, OpenLoop
from robo_rl.core.errors import CheckpointError, ConfigError, PluginError, RoboRlError, SpecError
from robo_rl.core.spec import ObsSpec, TensorSpec
from robo_rl.env.mujoco.randomization_terms import RandomizeTerm
from robo_rl.env.mujoco.sim_env import SimEnv
from robo_rl.testing.env import check_branchable, check_vec_env, random_act

MASS = (RandomizeTerm(field="body_mass", name="cart", range=(0.2, 5.0)),)
GOOD = 1e-5  # a solver's warm start lives within one rollout call, so T steps and T calls differ


def acts(env, steps, seed=0):
    return random_act(env.act_spec, env.num_envs, steps, torch.Generator().manual_seed(seed))


def same(left, right, rows: Any = ...):
    return all(torch.equal(left[k][rows], right[k][rows]) for k in left)


@pytest.mark.parametrize("open_loop", [True, False])
def test_conforms(cart, open_loop):
    check_vec_env(lambda n: cart.env(n, open_loop=open_loop, end_m=0.3))


@pytest.mark.parametrize("randomize", [(), MASS])
def test_snapshots_are_exact(cart, randomize):
    check_branchable(lambda n: cart.env(n, randomize, end_m=0.3, delta=True))


def test_protocols_are_met(cart):
    env = cart.env(1)
    assert isinstance(env, OpenLoop)
    assert isinstance(env, Branchable)


def test_restore_brings_back_randomised_fields(cart):
    """Mass decides how far the servo gets, so a lost field would show in the bits."""
    env = cart.env(4, MASS)
    env.reset(0)
    env.step(acts(env, 1)[:, 0])
    snapshot = env.snapshot()
    first = env.step(torch.ones(4, 1))
    env.reset()
    other = env.step(torch.ones(4, 1))
    env.restore(snapshot)
    assert same(first.obs, env.step(torch.ones(4, 1)).obs)
    assert not same(first.obs, other.obs)


def test_restore_takes_away_what_was_randomised_later(cart):
    plain, drawn = cart.env(3), cart.env(3, MASS)
    plain.reset(0)
    drawn.reset(0)
    drawn.restore(plain.snapshot())
    assert drawn.snapshot()["backend"]["fields"] == {}
    act = torch.ones(3, 1)
    assert same(plain.step(act).obs, drawn.step(act).obs)


def test_worlds_get_masses_of_their_own_anew_at_each_reset(cart):
    env = cart.env(64, MASS, spread_m=0.0)
    env.reset(0)
    first = env.step(torch.ones(64, 1)).next_obs["cart"][:, 0]
    env.reset()
    second = env.step(torch.ones(64, 1)).next_obs["cart"][:, 0]
    assert len(first.unique()) == 64
    assert not torch.equal(first, second)


@pytest.mark.parametrize("delta", [False, True])
def test_open_loop_chunk_equals_the_step_loop(cart, delta):
    chunk, loop = cart.env(32, delta=delta, end_m=0.08), cart.env(32, delta=delta, end_m=0.08)
    chunk.reset(1)
    loop.reset(1)
    act, live, ended = acts(chunk, 8), torch.ones(32, dtype=torch.bool), 0
    for t, step in enumerate(chunk.rollout(act)):
        alone = loop.step(act[:, t])
        assert torch.equal(step.valid, live)
        assert torch.equal(step.terminated, alone.terminated & live)
        assert torch.allclose(step.rew[live], alone.rew[live], atol=GOOD)
        for name, value in step.next_obs.items():
            assert torch.allclose(value[live], alone.next_obs[name][live], atol=GOOD)
        live &= ~step.terminated
        ended += int(step.terminated.sum())
    assert 0 < ended < 32


def test_closed_loop_rollout_is_the_step_loop_to_the_bit(cart):
    chunk, loop = cart.env(8, open_loop=False), cart.env(8, open_loop=False)
    chunk.reset(1)
    loop.reset(1)
    act = acts(chunk, 8)
    for t, step in enumerate(chunk.rollout(act)):
        assert same(step.next_obs, loop.step(act[:, t]).next_obs)


def test_episode_end_inside_a_chunk(cart):
    """Time limit of 10: two chunks of 6 end at step 4 of the second; the rest does not count."""
    env = cart.env(3, steps=10)
    env.reset(0)
    assert all(bool(step.valid.all()) for step in env.rollout(acts(env, 6)))
    steps = env.rollout(acts(env, 6, seed=1))
    assert [bool(s.truncated.all()) for s in steps] == [False, False, False, True, False, False]
    assert [bool(s.valid.all()) for s in steps] == [True, True, True, True, False, False]
    for late in steps[4:]:
        assert not late.valid.any()
        assert (late.rew == 0).all()
        assert same(late.next_obs, steps[3].next_obs)
        assert same(late.obs, steps[-1].obs)
    assert same(steps[3].obs, steps[-1].obs)
    assert (env.view.time_s == 0).all()


def test_next_obs_is_the_true_successor_where_the_env_was_reset(cart):
    """An env with the same start and no time limit goes on where the other one was reset."""
    short, long = cart.env(4, steps=5), cart.env(4, steps=50)
    short.reset(2)
    long.reset(2)
    for t, act in enumerate(acts(short, 5).unbind(1)):
        ends, goes_on = short.step(act), long.step(act)
        assert same(ends.next_obs, goes_on.next_obs)
        assert bool(ends.truncated.all()) == (t == 4)
    assert same(ends.obs, {k: v.float() for k, v in short.task.observe(short.view).items()})
    assert not same(ends.obs, ends.next_obs)


def test_only_the_envs_that_ended_are_reset(cart):
    env = cart.env(64, end_m=0.08)
    env.reset(0)
    step = env.step(torch.zeros(64, 1))
    ended = step.terminated
    assert 0 < int(ended.sum()) < 64
    assert same(step.obs, step.next_obs, ~ended)
    assert torch.equal(env.view.time_s == 0, ended)
    assert not torch.equal(step.obs["mark"][ended], step.next_obs["mark"][ended])
    assert torch.equal(env.view.goal["mark"][:, 0].float(), step.obs["mark"][:, 0])


def test_observations_are_not_changed_by_what_comes_later(cart):
    env = cart.env(4, steps=2)
    kept = [env.reset(0)]
    copies = [{k: v.clone() for k, v in kept[0].items()}]
    for act in acts(env, 5).unbind(1):
        step = env.step(act)
        kept += [step.obs, step.next_obs]
        copies += [{k: v.clone() for k, v in o.items()} for o in (step.obs, step.next_obs)]
    assert all(same(a, b) for a, b in zip(kept, copies, strict=True))


def test_reset_observation_is_of_the_start_state(cart):
    """Sensors after a reset come from a forward pass, not from the last world's end."""
    env = cart.env(5)
    obs = env.reset(0)
    assert torch.equal(obs["cart"][:, 0], env.view.qpos[:, 0].float())
    assert (obs["cart"][:, 1] == 0).all()


def test_termination_at_the_time_limit_is_no_truncation(cart):
    env = cart.env(2, steps=1, end_m=-1.0)
    env.reset(0)
    step = env.step(torch.zeros(2, 1))
    assert step.terminated.all()
    assert not step.truncated.any()


def test_metrics_are_success_reward_parts_and_lost_worlds(cart):
    env = cart.env(3)
    obs = env.reset(0)
    step = env.step(torch.zeros(3, 1))
    assert set(step.metrics) == {"success", "rew/near", "nan_worlds"}
    far = (step.next_obs["cart"][:, 0] - obs["mark"][:, 0]).abs()
    assert torch.allclose(step.metrics["rew/near"], -far)
    assert torch.equal(step.metrics["success"], (far < 0.1).float())


def lost_and_clean(cart, spoil):
    """Two runs of 256 worlds, one of them spoilt in worlds 3 and 200 at the third of six steps."""
    runs = []
    for spoilt in (False, True):
        env, run = cart.env(256, steps=50), []
        env.reset(0)
        for t, act in enumerate(acts(env, 6).unbind(1)):
            if spoilt and t == 2:
                act = spoil(env, act)
            run.append(env.step(act))
        runs.append(run)
    return runs


def nan_act(env, act):
    return act.index_fill(0, torch.tensor([3, 200]), torch.nan)


def nan_qpos(env, act):
    snapshot = env.snapshot()
    snapshot["backend"]["state"][[3, 200], 1] = torch.nan
    env.restore(snapshot)
    return act


def far_qpos(env, act):
    """Finite, but beyond what MuJoCo accepts: it freezes the world."""
    snapshot = env.snapshot()
    snapshot["backend"]["state"][[3, 200], 1] = 1e12
    env.restore(snapshot)
    return act


@pytest.mark.parametrize("spoil", [nan_act, nan_qpos, far_qpos])
def test_a_lost_world_disturbs_no_other_and_starts_anew(cart, spoil):
    clean, dirty = lost_and_clean(cart, spoil)
    others = torch.ones(256, dtype=torch.bool).index_fill(0, torch.tensor([3, 200]), False)
    for left, right in zip(clean, dirty, strict=True):
        assert same(left.next_obs, right.next_obs, others)
        assert torch.equal(left.rew[others], right.rew[others])
        assert all(torch.isfinite(v).all() for v in [*right.obs.values(), right.rew])
    hit = dirty[2]
    assert torch.equal(hit.valid, others)
    assert torch.equal(hit.truncated, ~others)
    assert torch.equal(hit.metrics["nan_worlds"], (~others).float())
    assert not hit.terminated.any()
    assert (hit.rew[~others] == 0).all()
    if spoil is nan_act:
        assert same(hit.next_obs, dirty[1].obs, ~others)
    assert all(bool(step.valid.all()) for step in dirty[3:])


def huge_reward(env):
    env.task.reward = lambda view, act: (view.qpos[:, 0].double().fill_(1e300), {})


def huge_obs(env, after_s=0.01):
    """Too large for float32 as soon as so much time has passed in an episode."""
    plain = env.task.observe

    def observe(view):
        late = view.time_s[:, None] > after_s
        return plain(view) | {"pole": 1e300 * late.double()}

    env.task.observe = observe


@pytest.mark.parametrize(("spoil", "what"), [(huge_reward, "reward"), (huge_obs, "obs 'pole'")])
def test_what_is_too_large_for_float32_in_a_world_that_is_well_is_the_tasks_fault(
    cart, spoil, what
):
    env = cart.env(2)
    spoil(env)
    env.reset(0)
    with pytest.raises(PluginError, match=f"{what} of a world that is well"):
        env.step(torch.zeros(2, 1))


def test_a_world_whose_numbers_float32_does_not_hold_is_lost_alone(cart):
    env = cart.env(3)
    plain = env.task.reward

    def reward(view, act):
        rew, parts = plain(view, act)
        return torch.where(torch.arange(3) == 1, 1e300, rew.double()), parts

    env.task.reward = reward
    before = env.reset(0)
    step = env.step(torch.zeros(3, 1))
    assert (step.valid.tolist(), step.truncated.tolist()) == (
        [True, False, True],
        [False, True, False],
    )
    assert step.metrics["nan_worlds"].tolist() == [0.0, 1.0, 0.0]
    assert step.rew[1] == 0.0
    assert same(step.next_obs, before, torch.tensor([False, True, False]))


def test_an_episode_that_begins_with_what_is_not_finite_is_refused(cart):
    env = cart.env(2)
    huge_obs(env, after_s=-1.0)
    with pytest.raises(PluginError, match="obs 'pole'"):
        env.reset(0)


def test_names_that_cannot_name_arrays_are_refused_when_the_env_is_made(cart):
    task = cart.task()
    for name, size in (("arm/pos", 1), ("arm", 0)):
        task.obs_spec = ObsSpec(items={name: TensorSpec(shape=(size,))})
        task.observe = lambda view, name=name, size=size: {
            name: view.qpos.new_zeros(len(view.qpos), size)
        }
        with pytest.raises(SpecError, match=rf"CartTask: observations.*found \['{name}'\]"):
            SimEnv(SimEnv.Config(), task, 1)


def test_a_world_lost_inside_a_chunk_waits_for_its_end(cart):
    env = cart.env(4, steps=50)
    env.reset(0)
    act = acts(env, 6)
    act[1, 2] = torch.nan
    steps = env.rollout(act)
    assert [bool(step.valid[1]) for step in steps] == [True, True, False, False, False, False]
    assert [float(s.metrics["nan_worlds"][1]) for s in steps] == [0, 0, 1, 0, 0, 0]
    assert all(bool(step.valid[[0, 2, 3]].all()) for step in steps)
    assert env.step(torch.zeros(4, 1)).valid.all()


def test_a_world_lost_in_the_first_step_of_its_episode_repeats_its_start(cart):
    env = cart.env(2, steps=1)
    env.reset(0)
    start = env.step(torch.zeros(2, 1)).obs
    assert same(env.step(torch.tensor([[torch.nan], [0.0]])).next_obs, start, 0)


def test_a_control_step_of_one_physics_step_is_watched_too(cart):
    """MuJoCo freezes a world behind the bad step only, so the clock alone does not tell."""
    env = cart.env(3, dt_s=0.005)
    env.reset(0)
    step = env.step(torch.tensor([[0.0], [torch.nan], [0.0]]))
    assert step.valid.tolist() == [True, False, True]


def test_an_episode_begins_without_the_control_of_the_last_one(cart):
    env = cart.env(2, steps=3, delta=True, spread_m=0.0)
    env.reset(0)
    first = [env.step(torch.ones(2, 1)).next_obs["cart"] for _ in range(3)]
    second = [env.step(torch.ones(2, 1)).next_obs["cart"] for _ in range(3)]
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_infinite_actions_are_clipped(cart):
    env = cart.env(2)
    env.reset(0)
    wild = env.step(torch.tensor([[torch.inf], [-torch.inf]]))
    env.reset(0)
    assert same(wild.obs, env.step(torch.tensor([[1.0], [-1.0]])).obs)


def test_misuse_is_one_typed_error(cart):
    env = cart.env(2)
    with pytest.raises(RoboRlError, match="reset"):
        env.step(torch.zeros(2, 1))
    env.reset(0)
    with pytest.raises(SpecError, match=r"expected \(2, T, 1\), found \(3, 1, 1\)"):
        env.step(torch.zeros(3, 1))
    three = cart.env(3)
    three.reset(0)
    snapshot = three.snapshot()
    with pytest.raises(CheckpointError, match="expected 2, found 3"):
        env.restore(snapshot)


def test_a_period_that_is_no_multiple_of_the_physics_step_is_refused(cart):
    class Odd(cart.task):
        def __init__(self):
            super().__init__(dt_s=0.013)

    cfg = cart.env(1).Config(backend=cart.env(1).cfg.backend)
    with pytest.raises(ConfigError, match=r"multiple of 0\.005 s, found 0\.013 s"):
        type(cart.env(1))(cfg, Odd(), 1)
