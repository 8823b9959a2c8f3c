"""Rollouts of a made-up world in which every observation has a number of its own."""

from __future__ import annotations

from typing import NamedTuple

import torch

from robo_rl.data.rollout import Rollout, RolloutBuilder

H = 2
GAMMA = 0.9


class Record(NamedTuple):
    """A decision as the world knows it: numbers of observations, and what was paid."""

    obs: int
    rew: float
    num_exec: int
    terminated: bool
    truncated: bool
    next_obs: int


class World:
    """Envs whose observations are numbered anew; ``history`` is every decision that took place.

    Args:
        num_envs: B.
        seed: Draws what happens.
    """

    def __init__(self, num_envs: int, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.issued = 0
        self.obs = self._new(torch.ones(num_envs, dtype=torch.bool), torch.zeros(num_envs).long())
        self.history: list[Record] = []

    def rollout(self, decisions: int, *, ends: float = 0.15, lost: float = 0.1) -> Rollout:
        """A block; episodes terminate, are truncated, and are lost with these probabilities."""
        builder = RolloutBuilder()
        for _ in range(decisions):
            draw = torch.rand(3, len(self.obs), generator=self.generator)
            invalid = draw[0] < lost
            terminated = (draw[1] < ends) & ~invalid
            truncated = (draw[1] > 1.0 - ends) | invalid
            rew = draw[2] * ~invalid
            num_exec = torch.where(invalid, 0, 1 + (draw[2] * 10).long() % H)
            next_obs = self._new(~invalid, self.obs)
            columns = {
                "x": chunk(self.obs).unsqueeze(1),
                "log_prob": torch.zeros(len(self.obs), 1),
                "rew": rew,
                "terminated": terminated,
                "truncated": truncated,
                "valid": ~invalid,
                "discount": GAMMA**num_exec,
                "num_exec": num_exec,
            }
            builder.add(observation(self.obs), observation(next_obs), columns)
            taken = zip(self.obs, rew, num_exec, terminated, truncated, next_obs, strict=True)
            records = [Record(*(value.item() for value in row)) for row in taken]
            self.history += [r for r, bad in zip(records, invalid, strict=True) if not bad]
            self.obs = self._new(terminated | truncated, next_obs)
        return builder.finish(observation(self.obs))

    def restart(self) -> None:
        """Begin new episodes everywhere, as after a lost block."""
        self.obs = self._new(torch.ones(len(self.obs), dtype=torch.bool), self.obs)

    def _new(self, where: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
        numbers = self.issued + torch.arange(len(where))
        self.issued += len(where)
        return torch.where(where, numbers, old)


def observation(number: torch.Tensor) -> dict[str, torch.Tensor]:
    """Two frames of history and an image that both tell the number (B,)."""
    state = torch.stack([number, number + 0.5], dim=1)[..., None].repeat(1, 1, 3)
    digits = torch.stack([number // 256, number % 256], dim=1).to(torch.uint8)
    return {"state": state.float(), "image": digits[:, None, :, None, None].repeat(1, 2, 1, 4, 4)}


def chunk(number: torch.Tensor) -> torch.Tensor:
    """The chunk (B, H, 1) that is played at observation ``number``."""
    return number[:, None, None] + torch.arange(H)[None, :, None] / 8


def numbers(obs: dict[str, torch.Tensor]) -> torch.Tensor:
    """Numbers (B,) of observations, which all of their parts agree upon."""
    number = obs["state"][:, 0, 0].long()
    for name, value in observation(number).items():
        assert obs[name].dtype == value.dtype
        assert torch.equal(obs[name], value)
    return number
