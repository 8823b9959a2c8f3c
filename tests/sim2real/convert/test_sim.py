"""Record → convert → retrain, with the simulator as the robot, in lock-step on one clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_bundles import make_bundle
from small_runs import EXPERIMENT

from robo_rl.config import strict, validate
from robo_rl.data.zarr_store import ZarrStore
from robo_rl.registry import component
from robo_rl.train.pipeline import run_experiment
from robo_rl.train.stage import Experiment
from robo_rl_sim2real.flight import recording
from robo_rl_sim2real.messages import Kind
from robo_rl_sim2real.node import Node
from robo_rl_sim2real.readings import Reading
from robo_rl_sim2real.settings import Settings
from robo_rl_sim2real.sim_robot import SimRobot
from robo_rl_sim2real.sim_world import SimWorld
from robo_rl_sim2real.ticks import Clock
from robo_rl_sim2real.transport.base import COMMAND
from robo_rl_sim2real.transport.loopback import Bus, Loopback
