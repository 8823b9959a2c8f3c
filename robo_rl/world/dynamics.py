"""Dynamics ensemble: predicts the next observation, the reward and the termination of a chunk.

Each member is an MLP. Its inputs are the observation and the executed part of the chunk. Its
outputs are the change of the observation over the chunk, the reward, and the log-odds that the task
terminates (Chua et al. 2018, PETS, arXiv 1805.12114; over whole chunks as in RL-100, arXiv
2510.14830). ``world.dynamics_trainer`` trains it.

Shapes: M members, N rows, B rows of a batch, D elements of an observation with its history, E
executed actions, A act_dim.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import DataError
from robo_rl.nets.ensemble import MlpEnsemble

_OBS = "obs."


class DynamicsPrediction(NamedTuple):
    """The members' predictions for a chunk.

    Args:
        delta: (M, B, D), change of the observation, in units of its spread.
        rew: (M, B), discounted within the chunk.
        termination_logit: (M, B) log-odds.
    """

    delta: Tensor
    rew: Tensor
    termination_logit: Tensor


class DynamicsEnsemble(nn.Module):
    """The ensemble, and its normalisation.

    Args:
        cfg: See Config.
        rows: Rows as ``dataset_transitions`` returns them, without rows beyond a time limit.
        exec_horizon: E.
        members: M.

    Raises:
        DataError: An observation is an image or a text, or no chunk was executed whole.
    """

    mean: Tensor
    spread: Tensor
    step: Tensor
    rew_spread: Tensor
    low: Tensor
    high: Tensor
    act_low: Tensor
    act_high: Tensor

    class Config(ConfigModel):
        """Network, optimiser and length; members are evaluated every ``eval_every`` steps."""

        hidden: tuple[int, ...] = Field(default=(256, 256), min_length=1)
        """Widths of the hidden layers."""
        steps: int = Field(default=3000, ge=1)
        """Gradient steps."""
        minibatch: int = Field(default=256, ge=1)
        """Rows of a minibatch."""
        lr: float = Field(default=1e-3, gt=0.0)
        """Learning rate."""
        grad_clip: float = Field(default=10.0, gt=0.0)
        """Largest gradient norm."""
        eval_every: int = Field(default=250, ge=1)
        """Gradient steps between two evaluations of the members."""

    def __init__(
        self, cfg: Config, rows: Mapping[str, Tensor], exec_horizon: int, members: int
    ) -> None:
        super().__init__()
        self.cfg, self.exec_horizon, self.members = cfg, exec_horizon, members
        self.shapes = {
            name.removeprefix(_OBS): column.shape[1:]
            for name, column in rows.items()
            if name.startswith(_OBS)
        }
        seen = flatten_obs(rows)
        usable = rows["decision"] & ((rows["num_exec"] == exec_horizon) | rows["terminated"])
        if not bool(usable.any()):
            raise DataError(
                "no chunk was executed whole",
                expected=f"episodes of at least {exec_horizon} steps",
                found="shorter ones alone",
            )
        change = (seen[rows["next"]] - seen)[usable & ~rows["terminated"]]
        self.register_buffer("mean", seen.mean(dim=0))
        self.register_buffer("spread", seen.std(dim=0).clamp(min=1e-6))
        self.register_buffer("step", _spread(change, seen))
        rew = rows["rew"][rows["decision"]].float()
        self.register_buffer("rew_spread", rew.abs().amax().clamp(min=1e-6))
        self.register_buffer("low", seen.amin(dim=0))
        self.register_buffer("high", seen.amax(dim=0))
        self.register_buffer("act_low", rows["act"].amin(dim=(0, 1)))
        self.register_buffer("act_high", rows["act"].amax(dim=(0, 1)))
        size = seen.shape[1]
        inputs = size + rows["act"].shape[2] * exec_horizon
        self.net = MlpEnsemble(members, [inputs, *cfg.hidden, size + 2], layer_norm=True)

    def forward(self, seen: Tensor, act: Tensor) -> DynamicsPrediction:
        """Predict from observations (B, D) or (M, B, D), in physical units, and chunks (…, H, A).

        Actions are clamped to the range of the data.
        """
        scaled = (seen - self.mean) / self.spread
        within = torch.minimum(torch.maximum(act, self.act_low), self.act_high)
        executed = within[..., : self.exec_horizon, :].flatten(-2)
        out = self.net(torch.cat([scaled, executed], dim=-1))
        return DynamicsPrediction(out[..., :-2], out[..., -2] * self.rew_spread, out[..., -1])

    def next_obs(self, seen: Tensor, ahead: DynamicsPrediction) -> Tensor:
        """Return the observation (M, B, D) after the chunk, clamped to the range of the data."""
        after = seen + ahead.delta * self.step
        return torch.minimum(torch.maximum(after, self.low), self.high)

    def loss(self, batch: Mapping[str, Tensor], after: Tensor) -> Tensor:
        """Return each member's loss (M, B); it is 0 for chunks that were not executed whole.

        Args:
            batch: Rows with masked chunk tails in ``act``.
            after: (B, D), the next observations.
        """
        seen = flatten_obs(batch)
        found = self(seen, batch["act"])
        ended = batch["terminated"]
        whole = (batch["num_exec"] == self.exec_horizon) | ended
        change = (after - seen) / self.step
        error = (found.delta - change).square().mean(dim=-1) * ~ended
        error = error + ((found.rew - batch["rew"]) / self.rew_spread).square()
        ends = ended.to(found.termination_logit).expand_as(found.termination_logit)
        error = error + F.binary_cross_entropy_with_logits(
            found.termination_logit, ends, reduction="none"
        )
        return error * whole

    def to_obs_dict(self, seen: Tensor) -> dict[str, Tensor]:
        """Split observations (B, D) by name: (B, To, …)."""
        parts = seen.split([shape.numel() for shape in self.shapes.values()], dim=-1)
        pairs = zip(self.shapes.items(), parts, strict=True)
        return {name: part.unflatten(-1, shape) for (name, shape), part in pairs}


def flatten_obs(rows: Mapping[str, Tensor]) -> Tensor:
    """Concatenate all observations of rows, (N, D), in float32.

    Raises:
        DataError: An observation is an image or a text.
    """
    columns = {name: column for name, column in rows.items() if name.startswith(_OBS)}
    for name, column in columns.items():
        if not column.is_floating_point():
            kind = "a picture" if column.dtype == torch.uint8 else "no physical quantity"
            raise DataError(
                f"'{name.removeprefix(_OBS)}' is {kind}, and this model does not predict it",
                found=str(column.dtype),
                hint="estimators: [fqe]; env.text_encoder=sentence gives a text as numbers",
            )
    return torch.cat([column.flatten(1).float() for column in columns.values()], dim=-1)


def _spread(change: Tensor, seen: Tensor) -> Tensor:
    """Unit of observation changes: their std, or that of the observations for fewer than two."""
    own = change.std(dim=0) if len(change) > 1 else seen.std(dim=0)
    return own.clamp(min=1e-6)
