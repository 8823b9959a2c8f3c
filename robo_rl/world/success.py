"""Success classifier: an ensemble with a calibrated probability that the task is done.

Each member is an MLP on the normalised observation with its history. The members learn from batches
with equal numbers of positive and negative rows (``world.success_trainer``). A ``Calibration``
converts their joint output to a probability. An observation precedes its action, so the last row of
an episode shows the state before the final action.

Shapes: M members, B rows, L steps of an episode, To history, D elements of an observation with its
history.
"""

from __future__ import annotations

from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import CheckpointError
from robo_rl.core.spec import ObsSpec
from robo_rl.data.normalize import Normalizer
from robo_rl.nets.ensemble import MlpEnsemble
from robo_rl.world.calibration import correct_prior, ensemble_log_odds


class Calibration(ConfigModel):
    """Converts the ensemble's output to a probability, and the probability to a decision.

    Args:
        temperature: Temperature of the balanced log-odds.
        prior: Log-odds of the share of rows in which the task is done.
        threshold: Log-odds above which the task counts as done.
    """

    temperature: float = Field(default=1.0, gt=0.0)
    prior: float = 0.0
    threshold: float = 0.0


class SuccessClassifier(nn.Module):
    """The ensemble, its normaliser, and its calibration.

    Args:
        cfg: See Config.
        obs_spec: One step's observation; the classifier reads its vectors.
        normalizer: Normaliser of the training data.
    """

    class Config(ConfigModel):
        """History, number of consecutive rows of a success, and networks.

        Args:
            obs_horizon: To.
            consecutive_rows: Number of last rows of a successful episode that are labelled as done,
                and number of consecutive positive rows that count as success.
            members: M.
            hidden: Widths of the hidden layers.
        """

        obs_horizon: int = Field(default=1, ge=1)
        consecutive_rows: int = Field(default=1, ge=1)
        members: int = Field(default=5, ge=1)
        hidden: tuple[int, ...] = Field(default=(128, 128), min_length=1)

    def __init__(self, cfg: Config, obs_spec: ObsSpec, normalizer: Normalizer) -> None:
        super().__init__()
        self.cfg, self.normalizer = cfg, normalizer
        self.obs_spec = obs_spec.select(obs_spec.vector_names, "success")
        self.calibration = Calibration()
        inputs = self.obs_spec.size * cfg.obs_horizon
        self.net = MlpEnsemble(cfg.members, [inputs, *cfg.hidden, 1], layer_norm=True)

    def features(self, obs: dict[str, Tensor]) -> Tensor:
        """Map name → (B, To, …) to the networks' inputs (B, D)."""
        return self.normalizer.features(obs, self.obs_spec.items)

    def forward(self, features: Tensor) -> Tensor:
        """Map features (B, D), or (M, B, D), to each member's balanced log-odds (M, B)."""
        return self.net(features).squeeze(-1)

    @torch.no_grad()
    def balanced_log_odds(self, obs: dict[str, Tensor]) -> Tensor:
        """Log-odds (B,) of the ensemble, for equally frequent classes."""
        return ensemble_log_odds(self(self.features(obs)))

    def log_odds(self, obs: dict[str, Tensor]) -> Tensor:
        """Calibrated log-odds (B,) that the task is done."""
        return correct_prior(
            self.balanced_log_odds(obs), self.calibration.temperature, self.calibration.prior
        )

    def success_row(self, log_odds: Tensor) -> int | None:
        """Return the first row of an episode (L,) at which it succeeds; None without success."""
        above = sustained_log_odds(log_odds, self.cfg.consecutive_rows) > self.calibration.threshold
        return int(above.int().argmax()) if bool(above.any()) else None


def sustained_log_odds(log_odds: Tensor, hold: int) -> Tensor:
    """Minimum over the last ``hold`` rows (L,); −∞ for rows with a shorter history.

    For a shorter episode the minimum is over all of its rows.
    """
    span = min(hold, len(log_odds))
    least = log_odds.unfold(0, span, 1).amin(dim=1)
    return torch.cat([log_odds.new_full((span - 1,), -torch.inf), least])


def classifier_meta(model: SuccessClassifier) -> dict[str, Any]:
    """Return everything except the weights as JSON."""
    return {
        "model": model.cfg.model_dump(mode="json"),
        "obs_spec": model.obs_spec.model_dump(mode="json"),
        "normalizer": model.normalizer.to_meta(),
        "calibration": model.calibration.model_dump(mode="json"),
    }


def classifier_from_meta(meta: dict[str, Any], tensors: dict[str, Tensor]) -> SuccessClassifier:
    """Rebuild a classifier from ``classifier_meta`` and ``state_dict``.

    Raises:
        CheckpointError: The description is damaged or of another kind, or the weights do not fit
            it.
    """
    try:
        model = SuccessClassifier(
            SuccessClassifier.Config.model_validate(meta["model"]),
            ObsSpec.model_validate(meta["obs_spec"]),
            Normalizer.from_meta(meta["normalizer"]),
        )
        model.calibration = Calibration.model_validate(meta["calibration"])
        model.load_state_dict(tensors)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(
            "is no classifier of success, or a damaged one",
            expected="what a stage 'success' left",
            found=f"{type(error).__name__}: {reason}",
        ) from error
    return model.eval()
