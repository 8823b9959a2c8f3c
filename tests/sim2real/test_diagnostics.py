"""What a node says of its health is so, comes once a second and at once when it matters."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_bundles import make_bundle
from small_nodes import World

from robo_rl_sim2real.messages import Kind
from robo_rl_sim2real.node import Node
from robo_rl_sim2real.readings import Reading
from robo_rl_sim2real.reports import Level
from robo_rl_sim2real.states import State
from robo_rl_sim2real.transport.base import COMMAND
from robo_rl_sim2real.transport.loopback import Loopback
