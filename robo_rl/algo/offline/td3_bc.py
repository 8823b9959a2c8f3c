"""TD3+BC: a one-step policy that maximises Q near the actions of the data.

Source: Fujimoto & Gu 2021 (arXiv 2106.06860, eq. 3 to 5), over whole chunks. In terms of
``OneStepActor``: the target is the chunk of the data and w is 1/α. The bootstrap is the rule of Q'
at the averaged student's chunk with clipped noise (Fujimoto et al. 2018, arXiv 1802.09477). This is
a baseline: the student learns to ignore its noise, so it becomes unimodal where the data are
multimodal.

Shapes: B rows of a batch, H horizon, A act_dim.
"""

from __future__ import annotations

from pydantic import Field
from torch import Tensor

from robo_rl.algo.offline.base import OfflineInputs
from robo_rl.algo.offline.one_step_actor import OneStepActor
from robo_rl.algo.target_smoothing import smoothed
from robo_rl.data.transitions import Transitions


class Td3Bc(OneStepActor):
    """One-step actor with the data's chunks as its target.

    Args:
        cfg: See Config.
        inputs: See ``OfflineInputs``.
    """

    class Config(OneStepActor.Config):
        """``alpha`` α weighs values; the smoothing noise is in network units."""

        alpha: float = Field(default=2.5, gt=0.0)
        """Weight of values relative to cloning."""
        smoothing_std: float = Field(default=0.2, ge=0.0)
        """Standard deviation of the noise on the target's action, in network units."""
        smoothing_clip: float = Field(default=0.5, ge=0.0)
        """Clip of the noise on the target's action, in network units."""

    def __init__(self, cfg: Config, inputs: OfflineInputs) -> None:
        super().__init__(cfg, 1.0 / cfg.alpha, inputs)
        self.smoothing_std, self.smoothing_clip = cfg.smoothing_std, cfg.smoothing_clip

    def bc_target(self, batch: Transitions, noise: Tensor) -> Tensor:
        """The chunks (B, H, A) of the data."""
        del noise
        return batch.act

    def next_q(self, obs: dict[str, Tensor]) -> Tensor:
        """Values (B,) of Q' at the averaged student's chunks with smoothing noise."""
        act = self.trainer.ema.module.decode_normalized(obs, self.noise(obs))
        act = smoothed(act, self.smoothing_std, self.smoothing_clip, self.generator)
        return self.critics.next_q(obs, act, self.generator)
