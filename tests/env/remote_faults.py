"""A world that does what it must not, when its action tells it to; served to ``RemoteEnv``."""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np

OKAY, RAISE, SLEEP, SEGFAULT, NAN, WRONG_SHAPE, EXIT, STOP, OSERROR, NAN_REW = range(10)
EPISODE_STEPS = 6


def make_one(index, fault="", size=2, closes=""):
    if fault == "import":
        import simulator_that_nobody_has  # noqa: F401  # pyright: ignore[reportMissingImports]
    if fault == "make":
        print("the licence server is on fire", file=sys.stderr)
        raise RuntimeError("cannot be made")
    if fault == "file":
        open("/nowhere/a_mesh.stl")  # noqa: SIM115
    if fault == "die":
        print("the licence server is on fire", file=sys.stderr, flush=True)
        os._exit(3)
    return Faults(index, size, fault, closes)


class Faults:
    """Observes (its episode's random number, steps since reset, the last action) and a picture."""

    def __init__(self, index, size, fault, closes):
        self.closes, self.fault = closes, fault
        self.rng = np.random.default_rng(index)
        self.act, self.never = np.zeros(size), fault == "never"
        self.world = {
            "obs": {
                "state": {"shape": [2 + size], "dtype": "float32"},
                "rgb": {"shape": [2, 3, 3], "dtype": "uint8"},
            },
            "act": {"shape": [size], "low": [-10.0] * size, "high": [10.0] * size},
            "dt_s": 0.125,
            "max_episode_steps": EPISODE_STEPS,
            "metrics": ["success"],
            "demonstrates": False,
        }
        if fault == "name":
            self.world["obs"] = {"arm/state": self.world["obs"]["state"]}
        if fault == "spec":
            self.world["obs"]["state"]["low"] = [0.0]
        if fault == "numpy":
            self.world["dt_s"] = np.float32(0.125)
        if fault == "huge":
            self.world["obs"]["state"]["shape"] = [1 << 19] * 4
        if fault == "never ends":
            self.world["max_episode_steps"] = None

    def reset(self, seed):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.number, self.steps = self.rng.random(), 0
        self.act = np.zeros_like(self.act)
        if self.fault == "nan start":
            self.number = np.nan
        return self._observe()

    def close(self):
        if self.closes:
            with open(self.closes, "a") as file:
                file.write("closed\n")

    def step(self, act):
        fault = OKAY if self.never else round(float(act[0]))
        if fault == RAISE:
            raise ArithmeticError("the joints are tied in a knot")
        if fault == OSERROR:
            open("/nowhere/a_texture.png")  # noqa: SIM115
        if fault == SLEEP:
            time.sleep(float(act[1]))
        if fault == SEGFAULT:
            print("falling into the void")
            os.kill(os.getpid(), signal.SIGSEGV)
        if fault == EXIT:
            os._exit(3)
        if fault == STOP:
            os.kill(os.getpid(), signal.SIGSTOP)
        self.act, self.steps = act.astype(np.float64), self.steps + 1
        obs = self._observe()
        if fault == NAN:
            obs["state"][0] = np.nan
        if fault == WRONG_SHAPE:
            obs["state"] = np.zeros(1)
        over = self.steps == EPISODE_STEPS
        rew = np.nan if fault == NAN_REW else float(act.sum())
        success = 1.0 if fault == NAN_REW else float(over)
        if self.fault == "huge reward":
            rew = 1e300
        if self.fault == "huge obs":
            obs["state"][0] = 1e300
        if self.fault == "half a success":
            success = 0.5
        return obs, rew, over, False, {"success": success}

    def _observe(self):
        picture = np.full((2, 3, 3), 10 * self.steps, np.uint8)
        return {"state": np.array([self.number, self.steps, *self.act]), "rgb": picture}
