"""The encoder of observations that are vectors alone."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from robo_rl.config.models import ConfigModel
from robo_rl.core.spec import ObsSpec
from robo_rl.nets.encoders.base import ObsEncoder, ObsFeatures


class StateEncoder(ObsEncoder):
    """Returns the vectors as they are; it has no weights.

    Args:
        cfg: See Config.
        obs_spec: Observation of one step.
        obs_horizon: To.
    """

    class Config(ConfigModel):
        """No settings."""

    reads_images: ClassVar[bool] = False

    def __init__(self, cfg: Config, obs_spec: ObsSpec, obs_horizon: int) -> None:
        super().__init__()
        del cfg
        self.num_features = obs_spec.size * obs_horizon

    def forward(self, features: ObsFeatures) -> Tensor:
        """Return the vectors (B, F)."""
        return features.vectors
