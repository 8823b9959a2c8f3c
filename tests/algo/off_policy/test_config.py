"""Settings of SAC and TD3 that do not go together."""

from __future__ import annotations

import pytest

from robo_rl.algo.off_policy.sac import SacConfig
from robo_rl.algo.off_policy.td3 import Td3Config
from robo_rl.config.models import validate
from robo_rl.core.errors import ConfigError


def test_values_of_rewards_as_they_are_do_not_go_with_scaled_ones():
    with pytest.raises(ValueError, match="set scale_rewards to false"):
        Td3Config(warm_start_critics=True)


@pytest.mark.parametrize("config", [Td3Config, SacConfig])
@pytest.mark.parametrize(
    ("replay", "said"),
    [
        ({"demo_fraction": 0.0}, "demo_fraction 0 a minibatch is not of both kinds"),
        ({"demo_fraction": 1.0}, "demo_fraction 1 a minibatch is not of both kinds"),
        ({"n_step": 2}, "set n_step to 1"),
    ],
)
def test_settings_that_leave_nothing_to_compare_are_refused(config, replay, said):
    fields = {"dynamics_gap": {}, "replay": replay}
    if config is SacConfig:
        fields["entropy_in_target"] = False
    with pytest.raises(ConfigError, match=said):
        validate(fields, config)
