# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import sys
from typing import Any

import mujoco
import pytest
import torch

pytest.importorskip("mujoco_warp", reason="the extra 'warp' is not installed")

from robo_rl.config import registry
from robo_rl.core.errors import CheckpointError, ConfigError, DeviceError, RoboRlError
from robo_rl.env.mujoco.randomization_terms import RandomizeTerm
from robo_rl.env.warp.backend import MujocoWarp
from robo_rl.testing.env import check_backend, check_branchable, check_vec_env, random_act

WARP = {"name": "mujoco_warp", "device": "cpu"}
MASS = (RandomizeTerm(field="body_mass", name="cart", range=(0.2, 5.0)),)
WORLDS = 256
LOST = [3, 200]
OTHERS = torch.ones(WORLDS, dtype=torch.bool).index_fill(0, torch.tensor(LOST), False)


def make(num_envs, scene, **fields):
    made = MujocoWarp(MujocoWarp.Config(device="cpu", **fields))
    made.load(mujoco.MjSpec.from_string(scene), num_envs)
    return made


@pytest.fixture(scope="module")
def loaded(lasting_cart):
    made = make(5, lasting_cart.scene)
    yield made, made.snapshot()
    made.close()


@pytest.fixture
def backend(loaded):
    """Five worlds as they were loaded."""
    made, begin = loaded
    made.restore(begin)
    return made


def start(backend):
    view = backend.view()
    return view.qpos[:1].clone(), view.qvel[:1].clone()


def same(left, right, rows: Any = ...):
    return all(torch.equal(left[k][rows], right[k][rows]) for k in left)


def test_conforms():
    check_backend(lambda: MujocoWarp(MujocoWarp.Config(device="cpu")))


def test_runs_a_task(cart):
    check_vec_env(lambda n: cart.env(n, backend=WARP, end_m=0.3))


def test_snapshots_are_exact_with_per_world_fields_and_warm_start(cart):
    check_branchable(lambda n: cart.env(n, MASS, backend=WARP, end_m=0.3, delta=True))


def test_views_are_windows_into_the_physics_and_earlier_ones_hold(backend):
    views = backend.step(torch.linspace(0, 1, 20).view(5, 4, 1), 2)
    assert [float(view.time_s[0]) for view in views] == pytest.approx([0.01, 0.02, 0.03, 0.04])
    assert views[-1].qpos.data_ptr() == backend._data.qpos.ptr
    kept = [view.qpos.clone() for view in views[:-1]]
    backend.write(torch.tensor([0]), torch.zeros(1, 9), torch.zeros(1, 8))
    backend.step(torch.ones(5, 1, 1), 2)
    assert all(torch.equal(a, b.qpos) for a, b in zip(kept, views, strict=False))


def test_the_clock_does_not_drift(backend):
    """1000 additions of 5 ms in float32 are off by more than the last bit of a double."""
    view = backend.step(torch.zeros(5, 250, 1), 4)[-1]
    assert torch.equal(view.time_s, torch.full((5,), 1000 * 0.005, dtype=torch.float64))


def test_sensors_of_unwritten_worlds_still_lag(backend):
    """Writing one world runs a forward pass; the others must not gain a fresher sensor by it."""
    before = backend.step(torch.ones(5, 1, 1), 4)[0].sensordata.clone()
    backend.write(torch.tensor([2]), *start(backend))
    others = [0, 1, 3, 4]
    assert torch.equal(backend.view().sensordata[others], before[others])
    assert not torch.equal(backend.view().sensordata[2], before[2])


def acts(env, steps):
    return random_act(env.act_spec, env.num_envs, steps, torch.Generator().manual_seed(0)).unbind(1)


def spoilt(name, value):
    def spoil(env, act):
        snapshot = env.snapshot()
        snapshot["backend"][name][LOST, 0] = value
        env.restore(snapshot)
        return act

    return spoil


def nan_act(env, act):
    return act.index_fill(0, torch.tensor(LOST), torch.nan)


SPOILS = {
    "act": nan_act,
    "qpos": spoilt("qpos", torch.nan),
    "far": spoilt("qpos", 1e12),
    "qvel": spoilt("qvel", torch.inf),
    "warm start": spoilt("qacc_warmstart", torch.nan),
}


@pytest.fixture(scope="module")
def env(lasting_cart):
    return lasting_cart.env(WORLDS, backend=WARP, steps=50)


@pytest.fixture(scope="module")
def clean(env):
    return course(env, None)


def course(env, spoil):
    env.reset(0)
    run = []
    for t, act in enumerate(acts(env, 6)):
        run.append(env.step(spoil(env, act) if spoil and t == 2 else act))
    return run


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS.keys())
def test_a_lost_world_disturbs_no_other_and_starts_anew(env, clean, spoil):
    for left, right in zip(clean, (dirty := course(env, spoil)), strict=True):
        assert same(left.next_obs, right.next_obs, OTHERS)
        assert torch.equal(left.rew[OTHERS], right.rew[OTHERS])
        assert all(torch.isfinite(v).all() for v in [*right.obs.values(), right.rew])
    hit = dirty[2]
    assert torch.equal(hit.valid, OTHERS)
    assert torch.equal(hit.truncated, ~OTHERS)
    assert torch.equal(hit.metrics["nan_worlds"], (~OTHERS).float())
    assert all(bool(step.valid.all()) for step in dirty[3:])


def test_a_lost_world_does_not_use_up_the_room_for_contacts(cart):
    """All of its distances are NaN, which no test of nearness refuses."""
    tight = make(8, cart.scene, contacts=5, constraints=64)
    state = start(tight)
    tight.step(torch.zeros(8, 1, 1), 20)
    tight.write(torch.arange(4), state[0].expand(4, -1) * torch.nan, state[1].expand(4, -1))
    view = tight.step(torch.zeros(8, 1, 1), 20)[0]
    assert torch.isnan(view.qpos[:4]).all()
    assert not view.counters["lost_contacts"].any()
    assert (view.qpos[4:, 5] > 0.09).all()  # the box still lies on the floor


def test_a_diverged_world_stands_still_and_is_never_plausible(backend):
    backend.write(torch.tensor([2]), start(backend)[0] * torch.nan, torch.zeros(1, 8))
    views = backend.step(torch.zeros(5, 3, 1), 4)
    assert not torch.isfinite(views[-1].qpos[2]).any()
    assert views[-1].time_s.tolist() == pytest.approx([0.06, 0.06, 0.0, 0.06, 0.06])
    assert torch.isfinite(views[-1].qpos[[0, 1, 3, 4]]).all()


@pytest.mark.parametrize("name", ["qacc_warmstart", "qfrc_applied", "xfrc_applied", "mocap_pos"])
def test_writing_a_world_forgets_all_of_its_past(backend, name):
    """Bit for bit the course of a world that has no past."""
    state, ctrl = start(backend), torch.full((5, 3, 1), 0.7)
    fresh = backend.step(ctrl, 4)[-1].qpos.clone()
    snapshot = backend.snapshot()
    snapshot[name][...] = 3.0
    backend.restore(snapshot)
    backend.write(torch.arange(5), state[0].expand(5, -1), state[1].expand(5, -1))
    assert torch.equal(backend.step(ctrl, 4)[-1].qpos, fresh)


def test_a_nan_world_is_healed_to_the_bit(backend):
    state, ctrl = start(backend), torch.full((5, 3, 1), 0.7)
    fresh = backend.step(ctrl, 4)[-1].qpos.clone()
    backend.step(torch.tensor([0, torch.nan, 0, torch.nan, 0]).view(5, 1, 1), 4)
    backend.write(torch.arange(5), state[0].expand(5, -1), state[1].expand(5, -1))
    assert torch.equal(backend.step(ctrl, 4)[-1].qpos, fresh)


def test_the_last_control_is_part_of_the_state(backend):
    """A solver that starts from it goes another way in the last bits; so a snapshot keeps it."""
    backend.step(torch.full((5, 1, 1), 0.7), 4)
    snapshot = backend.snapshot()
    onward = [backend.step(torch.full((5, 2, 1), -0.4), 4)[-1].qpos.clone() for _ in range(2)]
    backend.restore(snapshot)
    again = [backend.step(torch.full((5, 2, 1), -0.4), 4)[-1].qpos.clone() for _ in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(onward, again, strict=True))


def test_snapshots_of_other_worlds_or_backends_are_refused(backend, cart):
    with pytest.raises(CheckpointError, match="other worlds"):
        backend.restore(make(4, cart.scene).snapshot())
    plain = cart.env(5)
    plain.reset(0)
    with pytest.raises(CheckpointError, match="other worlds"):
        backend.restore(plain.snapshot()["backend"])


def test_what_finds_no_room_is_a_metric(cart):
    """The box lies on the floor by four contacts; there is room for the three pairs that may meet.

    Less room than such few pairs is never given: MuJoCo Warp would read beyond its memory.
    """
    env = cart.env(3, backend={**WARP, "contacts": 1, "constraints": 64})
    env.reset(0)
    metrics = env.step(torch.zeros(3, 1)).metrics
    assert env._backend.sizes.contacts == 3
    assert metrics["lost_contacts"].tolist() == [1.0, 1.0, 1.0]
    assert metrics["lost_constraints"].tolist() == [0.0, 0.0, 0.0]


def test_what_had_room_is_not_counted(backend):
    counters = backend.step(torch.zeros(5, 1, 1), 4)[0].counters
    assert not any(bool(count.any()) for count in counters.values())


def test_counters_hold_for_their_control_step_alone(backend):
    backend._state.overflow[...] = torch.tensor([0, 1, 2, 4, 8])
    counters = backend.view().counters
    assert counters["lost_constraints"].tolist() == [False, True, True, False, False]
    assert counters["lost_contacts"].tolist() == [False, False, False, True, True]
    after = backend.step(torch.zeros(5, 1, 1), 4)[0].counters
    assert not any(bool(count.any()) for count in after.values())


def test_what_cannot_be_simulated_is_one_typed_error(cart):
    scene = mujoco.MjSpec.from_string(cart.scene)
    scene.option.noslip_iterations = 2
    with pytest.raises(ConfigError, match=r"does not simulate.*mujoco_cpu"):
        MujocoWarp(MujocoWarp.Config(device="cpu")).load(scene, 1)


def test_too_large_a_scene_is_one_typed_error(cart):
    with pytest.raises(DeviceError, match=r"too large for the memory of 'cpu'.*at most"):
        make(10**9, cart.scene)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_one_typed_error():
    with pytest.raises(DeviceError, match=r"asked to compute on 'cuda'.*device=cpu"):
        MujocoWarp(MujocoWarp.Config(device="cuda"))
    assert MujocoWarp(MujocoWarp.Config()).device.type == "cpu"


@pytest.mark.parametrize("name", ["tpu", "cuda:x", "cuda:99"])
def test_an_unknown_device_is_one_typed_error(name):
    with pytest.raises(DeviceError, match=name):
        MujocoWarp(MujocoWarp.Config(device=name))


def test_a_missing_extra_is_one_typed_error(monkeypatch):
    for name in [k for k in sys.modules if k.startswith("robo_rl.env.warp.backend")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mujoco_warp", None)
    with pytest.raises(DeviceError, match=r"needs the extra 'warp': pip install 'robo-rl\[warp\]'"):
        registry.load("backends", "mujoco_warp")


def test_use_after_close_says_what_to_do(cart):
    backend = make(5, cart.scene)
    backend.close()
    backend.close()
    with pytest.raises(RoboRlError, match="load"):
        backend.step(torch.zeros(5, 1, 1), 1)
