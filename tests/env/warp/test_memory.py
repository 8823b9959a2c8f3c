# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import json
import subprocess
import sys

import mujoco
import pytest
import torch

pytest.importorskip("mujoco_warp", reason="the extra 'warp' is not installed")

from robo_rl.core.errors import DeviceError
from robo_rl.env.warp import memory as warp_memory
from robo_rl.env.warp.buffer_sizes import BufferSizes
from robo_rl.env.warp.memory import bytes_per_env, envs_that_fit, require_memory

CPU = torch.device("cpu")
GROWTH = """
import json, os, sys
import mujoco, torch
from robo_rl.env.warp.backend import MujocoWarp
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
def run(num):
    backend = MujocoWarp(MujocoWarp.Config(device="cpu", contacts=32, constraints=64))
    backend.load(mujoco.MjSpec.from_string(sys.argv[1]), num)
    backend.step(torch.zeros(num, 1, 1), 2)
    return backend
kept = run(8)
before = resident()
big = run(4096)
print(json.dumps((resident() - before) / 4096))
"""


@pytest.fixture
def model(cart):
    return mujoco.MjModel.from_xml_string(cart.scene)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_estimate_is_above_what_worlds_take_and_of_its_size(cart, model):
    done = subprocess.run(
        [sys.executable, "-c", GROWTH, cart.scene], capture_output=True, text=True, check=True
    )
    taken, said = json.loads(done.stdout), bytes_per_env(model, BufferSizes(32, 64))
    assert 0.9 * taken < said < 12 * taken


def test_more_room_costs_more(model):
    assert bytes_per_env(model, BufferSizes(64, 64)) > bytes_per_env(model, BufferSizes(32, 64))
    assert bytes_per_env(model, BufferSizes(32, 128)) > bytes_per_env(model, BufferSizes(32, 64))


def test_what_is_said_to_fit_is_accepted_and_one_more_is_not(model, monkeypatch):
    monkeypatch.setattr(warp_memory, "free_bytes", lambda device: 2**28)
    sizes = BufferSizes(32, 64)
    fit = envs_that_fit(model, sizes, CPU)
    assert fit > 10
    require_memory(model, sizes, fit, CPU)
    with pytest.raises(DeviceError, match=rf"at most {fit} envs.*found {fit + 1}; use fewer"):
        require_memory(model, sizes, fit + 1, CPU)


def test_a_sim_env_says_how_many_worlds_fit_and_they_do(cart, monkeypatch):
    """As many as were said can be made; on threads of a CPU nothing limits them."""
    monkeypatch.setattr(warp_memory, "free_bytes", lambda device: 2**24)
    env = cart.env(1)
    cfg = type(env).Config.model_validate({"backend": {"name": "mujoco_warp", "device": "cpu"}})
    fit = type(env).capacity(cfg, env.task)
    assert fit is not None
    assert fit > 1
    type(env)(cfg, env.task, fit).close()
    with pytest.raises(DeviceError, match=f"at most {fit} envs"):
        type(env)(cfg, env.task, fit + 1)
    assert type(env).capacity(type(env).Config(), env.task) is None
