"""A world that does what it must not, when its action tells it to; served to ``RemoteEnv``."""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np

OKAY, RAISE, SLEEP, SEGFAULT, NAN, WRONG_SHAPE, EXIT, STOP = range(8)
EPISODE_STEPS = 6


def make_one(index, fault="", size=2):
    if fault == "import":
        import simulator_that_nobody_has  # noqa: F401  # pyright: ignore[reportMissingImports]
    if fault == "make":
        print("the licence server is on fire", file=sys.stderr)
        raise RuntimeError("cannot be made")
    if fault == "die":
        print("the licence server is on fire", file=sys.stderr, flush=True)
        os._exit(3)
    return Faults(index, size, fault)


class Faults:
    """Observes (its episode's random number, steps since reset, the last action) and a picture."""

    def __init__(self, index, size, fault):
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
        if fault == "spec":
            self.world["obs"]["state"]["low"] = [0.0]

    def reset(self, seed):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.number, self.steps = self.rng.random(), 0
        self.act = np.zeros_like(self.act)
        return self._observe()

    def step(self, act):
        fault = OKAY if self.never else round(float(act[0]))
        if fault == RAISE:
            raise ArithmeticError("the joints are tied in a knot")
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
        return obs, float(act.sum()), over, False, {"success": float(over)}

    def _observe(self):
        picture = np.full((2, 3, 3), 10 * self.steps, np.uint8)
        return {"state": np.array([self.number, self.steps, *self.act]), "rgb": picture}
