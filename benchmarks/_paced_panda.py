"""A panda with another control rate, simulated in a separate process over DDS.

Its ``robot.yaml`` has 20 Hz; only the control rate differs.

    python benchmarks/_paced_panda.py HZ DOMAIN [--camera]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager

from robo_rl.api.robot import Robot
from robo_rl.api.robot_description import Rates
from robo_rl.config.component import Component, component
from robo_rl.config.registry import load
from robo_rl_sim2real.cli.signals import stop_on_signal
from robo_rl_sim2real.core.clock import freeze_garbage_collector
from robo_rl_sim2real.simulated.cameras import SimCameras
from robo_rl_sim2real.simulated.robot import SimRobot
from robo_rl_sim2real.simulated.world import SimWorld
from robo_rl_sim2real.transport.dds.transport import Dds

CAMERA = "wrist"
WORLD_HZ = 100


def panda_at_rate(hz: float) -> Robot:
    """Return the panda with this control rate."""
    robot: Robot = load("robots", "panda")
    rates = Rates(control_hz=hz, physics_hz=robot.rates.physics_hz)
    return robot.model_copy(update={"rates": rates})


def as_component(robot: Robot) -> Component:
    """Return the robot as a component of settings."""
    return Component("robots", robot.name, robot, None)


@contextmanager
def simulated(hz: float, domain: int, *, camera: bool) -> Generator[None]:
    """Run the simulated robot in another process within the block."""
    words = [str(hz), str(domain), *(["--camera"] if camera else [])]
    process = subprocess.Popen([sys.executable, __file__, *words])
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    """Run the simulated robot."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("hz", type=float)
    parser.add_argument("domain", type=int)
    parser.add_argument("--camera", action="store_true", help="send pictures")
    args = parser.parse_args()
    kind = load("tasks", "reach")
    robot = as_component(panda_at_rate(args.hz))
    task = kind(kind.Config().model_copy(update={"robot": robot}))
    backend = component("backends").make({"name": "mujoco_cpu", "threads": 1})
    world = SimWorld(task, backend.build(), 1.0 / WORLD_HZ)
    cameras = SimCameras.Config(names=(CAMERA,) if args.camera else (), rate_hz=args.hz)
    cfg = SimRobot.Config(rate_hz=WORLD_HZ, cameras=cameras)
    with closing(SimRobot(cfg, world, Dds(Dds.Config(domain=args.domain), "panda"))) as sim:
        stop_on_signal(sim.stop)
        freeze_garbage_collector()
        sim.run()


if __name__ == "__main__":
    main()
