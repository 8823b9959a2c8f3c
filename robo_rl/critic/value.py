"""The state-value critic V(o) of on-policy learning.

Shapes: B rows, To observations of history, O observation features. V does not depend on the noisy
action.
"""

from __future__ import annotations

from pydantic import Field
from torch import Tensor, nn

from robo_rl.config.models import ConfigModel
from robo_rl.core.spec import ObsSpec
from robo_rl.critic.inputs import critic_inputs
from robo_rl.data.normalize import Normalizer
from robo_rl.nets.base import FourierFeatures, dense


class ValueCritic(nn.Module):
    """An MLP from the normalised observation to the (scaled) value.

    Args:
        cfg: See Config.
        obs_spec: Observation of one step of the env.
        obs_horizon: To.
        normalizer: The policy's normaliser.

    Raises:
        SpecError: See ``critic_inputs``.
    """

    class Config(ConfigModel):
        """Items that the critic reads, widths of the hidden layers, and Fourier features."""

        sees: tuple[str, ...] = ()
        """Items of the env's observation that the critic reads; empty for all vectors."""
        hidden: tuple[int, ...] = Field(default=(256, 256, 256), min_length=1)
        """Widths of the hidden layers."""
        obs_frequencies: int = Field(default=0, ge=0, le=12)
        """Frequencies of the Fourier features of observations; 0 takes observations alone."""

    def __init__(
        self, cfg: Config, obs_spec: ObsSpec, obs_horizon: int, normalizer: Normalizer
    ) -> None:
        super().__init__()
        seen = critic_inputs(obs_spec, cfg.sees)
        self.names = tuple(seen.items)
        self.normalizer = normalizer
        self.fourier = FourierFeatures(cfg.obs_frequencies)
        self.net = dense([self.fourier.size(seen.size * obs_horizon), *cfg.hidden, 1])

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        """Map name → (B, To, …) to values (B,)."""
        features = self.normalizer.features(obs, self.names)
        return self.net(self.fourier(features)).squeeze(-1)
