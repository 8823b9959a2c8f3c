"""A frozen encoder runs once an update, and its result is what it would be again and again."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_images import make_seeing_policy, make_seen
from small_vla import KINDS, tiny_policy

from robo_rl.algo.ppo.batch.encoded_obs import EncodedObs
from robo_rl.algo.ppo.ppo import Ppo
from robo_rl.data.rollout import Rollout, RolloutBuilder
from robo_rl.nets.embedding import select_rows
