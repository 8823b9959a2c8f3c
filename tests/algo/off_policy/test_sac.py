"""What soft values may be asked for; see ``test_off_policy`` for what SAC shares with TD3."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from robo_rl.algo.off_policy.sac import SacConfig


def test_values_of_several_steps_hold_all_entropy_or_none():
    several = {"n_step": 3}
    with pytest.raises(ValidationError, match=r"n_step 3.*entropy_in_target to false"):
        SacConfig.model_validate({"replay": several})
    for fields in ({"replay": several, "entropy_in_target": False}, {"replay": {"n_step": 1}}):
        SacConfig.model_validate(fields)
