# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import os
import signal
import time

import mujoco
import pytest
import torch
from small_cameras import CAMERAS, LIGHTS, SCENE, SHAKY, SeenTask, same, still

from robo_rl.api.cameras import CameraItem, RenderConfig
from robo_rl.core.errors import DeviceError
from robo_rl.env.mujoco.sim_env import SimEnv
from robo_rl.env.rendering.pool import RenderPool
from robo_rl.env.rendering.process import RenderProcess


def test_pictures_do_not_depend_on_the_number_of_workers(seen):
    first, second = (seen(5, workers=w, cameras=SHAKY, lights=LIGHTS) for w in (1, 3))
    assert same(first.reset(1), second.reset(1))
    for one, other in zip(still(first, 12), still(second, 12), strict=True):
        assert same(one.obs, other.obs)
        assert same(one.next_obs, other.next_obs)


@pytest.mark.parametrize(
    "how",
    [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.slow)],
    ids=["killed", "hung"],
)
def test_a_lost_worker_is_an_error_and_no_picture(seen, how):
    env = seen(4, rendering={"workers": 2, "timeout_s": 2.0})
    env.reset(0)
    os.kill(env._cameras._renderer.pids[1], how)
    said = "SIGKILL" if how == signal.SIGKILL else "no picture for 2 s"
    begun = time.monotonic()
    with pytest.raises(DeviceError, match=said):
        still(env)
    assert time.monotonic() - begun < 20.0
    with pytest.raises(DeviceError, match="are closed"):
        still(env)
    env.close()


def test_without_opengl_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    where = "robo_rl.env.rendering.offscreen.opengl_environment"
    monkeypatch.setattr(where, lambda kind: no_gl(kind))
    cfg = SimEnv.Config.model_validate({"cameras": CAMERAS, "rendering": {"workers": 1}})
    with pytest.raises(DeviceError, match="no offscreen OpenGL") as caught:
        SimEnv(cfg, SeenTask(), 2)
    assert "apt-get install libosmesa6" in str(caught.value)
    assert "\n" not in str(caught.value)


def no_gl(kind):
    del kind
    return {**os.environ, "MUJOCO_GL": "no-such-gl"}


def test_pictures_that_nobody_fetched_do_not_come_later(seen):
    env = seen(3)
    env.reset(0)
    qpos = env.view.qpos
    whole = env._cameras.start(qpos)()
    forgotten = env._cameras.start(qpos + 0.2)
    rows = torch.tensor([1])
    assert same(env._cameras.start(qpos[rows], rows)(), {k: v[rows] for k, v in whole.items()})
    with pytest.raises(DeviceError, match="after others had been asked for"):
        forgotten()


def test_no_process_is_left_behind(seen):
    env = seen(4)
    env.reset(0)
    pids = env._cameras._renderer.pids
    env.close()
    env.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_no_process_is_left_behind_where_starting_is_interrupted(seen, monkeypatch):
    started = []

    def interrupted(process, *_):
        started.append(process.pid)
        raise KeyboardInterrupt

    monkeypatch.setattr(RenderProcess, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        seen(2)
    assert len(started) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)


def test_a_large_scene_need_not_go_through_a_message(opengl, monkeypatch):
    """A socket that nobody reads from yet holds a small part of it."""
    monkeypatch.setattr("robo_rl.env.rendering.process._MESSAGE_S", 0.05)
    spec = mujoco.MjSpec.from_string(SCENE)
    spec.add_numeric(name="ballast", size=2_000_000, data=[1.0])
    pool = RenderPool(spec.compile(), [CameraItem(name="front")], 1, [], RenderConfig(workers=1))
    assert pool.kind == opengl
    pool.close()


def test_a_program_that_was_suspended_takes_nobody_for_hung():
    """While it sleeps no time counts but that of the wait which it slept in."""
    process = object.__new__(RenderProcess)
    answers = iter([lambda: time.sleep(0.3), lambda: True])
    process._has_answered = lambda *_: bool(next(answers)())
    process.wait(1, 0.1, lambda: 0)
