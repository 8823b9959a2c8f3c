"""An algorithm refuses a policy before data is made, whatever its actions are relative to."""

from __future__ import annotations

import pytest

from robo_rl.config.component import component
from robo_rl.core.errors import ConfigError
from robo_rl.train.pipeline.preflight.policy import check_policy_fits

PPO = component("algos").make("ppo")


@pytest.mark.parametrize("relative_to", ["", "joint_pos"])
def test_ppo_asks_for_a_policy_that_explores(relative_to: str):
    policy = {"name": "flow", "relative_to": relative_to}
    explores = {"sampler": {"name": "flow_noise"}, "finetune_steps": 1}
    check_policy_fits(PPO, component("policies").make(policy | explores))
    with pytest.raises(ConfigError, match="stochastic and trained"):
        check_policy_fits(PPO, component("policies").make(policy | {"sampler": "flow_ode"}))
