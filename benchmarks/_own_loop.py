"""Runs in a simulator's interpreter: steps its envs by its own API, whenever a line arrives.

    PYTHON _own_loop.py isaaclab|mjlab TASK NUM_ENVS STEPS

It prints ``ready``, then for each line of standard input the seconds of STEPS steps with one random
action for each env. Envs reset themselves, as in the simulator's own training. It imports the
simulator and nothing of robo_rl.
"""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any

torch: Any = importlib.import_module("torch")


def isaaclab(task: str, num_envs: int) -> Any:
    """Return Isaac Lab's env on Newton physics, on the processor."""
    importlib.import_module("isaaclab_tasks")
    parse = importlib.import_module("isaaclab_tasks.utils.parse_cfg").parse_env_cfg
    cfg = parse(task, device="cpu", num_envs=num_envs, overrides=["physics=newton_mjwarp"])
    app = importlib.import_module("isaaclab.app")
    launched = app.launch_simulation(cfg, {"headless": True, "visualizer": ["none"]})
    launched.__enter__()
    return importlib.import_module("gymnasium").make(task, cfg=cfg).unwrapped


def mjlab(task: str, num_envs: int) -> Any:
    """Return mjlab's env on the processor."""
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    importlib.import_module("mjlab.tasks")
    cfg = importlib.import_module("mjlab.tasks.registry").load_env_cfg(task)
    cfg.scene.num_envs = num_envs
    env = importlib.import_module("mjlab.envs").ManagerBasedRlEnv(cfg=cfg, device="cpu")
    env.torchvision = library
    return env


def main() -> None:
    simulator, task, num_envs, steps = sys.argv[1:]
    said, sys.stdout = sys.stdout, sys.stderr  # the simulators print much
    env = {"isaaclab": isaaclab, "mjlab": mjlab}[simulator](task, int(num_envs))
    size = env.single_action_space.shape[-1]
    act = 2.0 * torch.rand(int(steps), int(num_envs), size) - 1.0
    with torch.no_grad():
        env.reset()
        env.step(act[0])
        print("ready", file=said, flush=True)
        for _ in sys.stdin:
            begun = time.perf_counter()
            for each in act:
                env.step(each)
            print(time.perf_counter() - begun, file=said, flush=True)


if __name__ == "__main__":
    main()
