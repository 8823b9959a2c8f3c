"""A Gymnasium env that does what an env must not, when its action tells it to."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import time

import gymnasium
import numpy as np

OKAY, RAISE, SLEEP, SEGFAULT, NAN, WRONG_SHAPE, EXIT, NAN_REWARD, HANG = range(9)
EPISODE_STEPS = 6


class Faults(gymnasium.Env):
    """Observes (its episode's random number, steps since reset) and a picture of the same."""

    dt = 0.125

    def __init__(self, fail_on_make: bool = False, fail_on_reset: bool = False):
        if fail_on_make:
            raise RuntimeError("cannot be made")
        self.fail_on_reset = fail_on_reset
        self.action_space = gymnasium.spaces.Box(-10, 10, (2,), np.float64)
        self.observation_space = gymnasium.spaces.Dict(
            {
                "state": gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64),
                "rgb": gymnasium.spaces.Box(0, 255, (2, 3, 3), np.uint8),
            }
        )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.fail_on_reset:
            raise RuntimeError("cannot be reset")
        self.number, self.steps = self.np_random.random(), 0
        return self._observe(), {}

    def step(self, action):
        fault = round(float(action[0]))
        if fault == RAISE:
            raise ArithmeticError("the joints are tied in a knot")
        if fault == SLEEP:
            time.sleep(float(action[1]))
        if fault == HANG:  # in C, with the interpreter's lock
            ctypes.PyDLL(None).sleep(60)
        if fault == SEGFAULT:
            os.kill(os.getpid(), signal.SIGSEGV)
        if fault == EXIT:
            raise SystemExit(3)
        self.steps += 1
        obs = self._observe()
        if fault == NAN:
            obs["state"][0] = np.nan
        if fault == WRONG_SHAPE:
            obs["state"] = np.zeros(1)
        over = self.steps == EPISODE_STEPS
        if fault == NAN_REWARD:
            return obs, np.nan, over, False, {"is_success": True}
        return obs, float(action.sum()), over, False, {"is_success": over}

    def _observe(self):
        picture = np.full((2, 3, 3), 10 * self.steps, np.uint8)
        return {"state": np.array([self.number, self.steps]), "rgb": picture}


gymnasium.register("Faults-v0", "gym_faults:Faults", max_episode_steps=100)
gymnasium.register("NoLimit-v0", "gym_faults:Faults")


class Words(gymnasium.Env):
    """Observes under names of its own; its reward, ends and success are what it was told."""

    def __init__(self, names=("a",), shape=(), **says):
        self.says = {"obs": 0.0, "rew": 0.0, "terminated": False, **says}
        box = gymnasium.spaces.Box(-9, 9, shape, np.float64)
        self.observation_space = gymnasium.spaces.Dict(dict.fromkeys(names, box))
        self.action_space = gymnasium.spaces.Box(-1, 1, (), np.float32)
        self.names = names

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return dict.fromkeys(self.names, np.float64(0.5)), {}

    def step(self, action):
        assert np.shape(action) == ()
        info = {key: value for key, value in self.says.items() if "success" in key}
        obs = dict.fromkeys(self.names, np.float64(self.says["obs"]))
        return obs, self.says["rew"], self.says["terminated"], False, info


gymnasium.register("Words-v0", "gym_faults:Words", max_episode_steps=9)


class Globals(gymnasium.Env):
    """Observes draws from the global generators, made in some phases of an episode."""

    def __init__(self, draws=("reset", "step")):
        self.draws = draws
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        return self._observe("reset"), {}

    def step(self, action):
        return self._observe("step"), 0.0, False, False, {}

    def _observe(self, phase):
        if phase not in self.draws:
            return np.zeros(2)
        return np.array([random.random(), np.random.normal()])


gymnasium.register("Globals-v0", "gym_faults:Globals", max_episode_steps=4)
