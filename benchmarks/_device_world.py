"""A small world, policies and blocks that compute on any device, for runs on two of them.

Shapes: B envs, N rows, To observations of history, T decisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from robo_rl.api.env import Step
from robo_rl.config.component import component
from robo_rl.core.spec import TOKEN, ActSpec, ObsSpec, TensorSpec
from robo_rl.data.normalize import Normalizer
from robo_rl.data.replay import Replay
from robo_rl.data.rollout import Rollout, RolloutBuilder
from robo_rl.env.chunk_env import ChunkEnv
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.rl.collector import Collector

OBS = ObsSpec(items={"pos": TensorSpec(shape=(3,)), "goal": TensorSpec(shape=(2,))})
ACT = ActSpec(shape=(2,), rate_hz=20.0, low=(-1.0, -1.0), high=(1.0, 1.0))
NUM_ENVS, EPISODE = 16, 10
SIDE = 36
SEEN = ObsSpec(items={**OBS.items, "eye": TensorSpec(shape=(3, SIDE, SIDE), dtype="uint8")})
TOLD = ObsSpec(items={**SEEN.items, "words": TensorSpec(shape=(4,), dtype="int64", unit=TOKEN)})
EYES: dict[str, dict[str, Any]] = {
    "conv": {"channels": [4, 4, 4], "width": 8},
    "resnet18": {"channels": [4, 4, 4, 4], "groups": 2, "width": 8},
    "vit": {"patch": 4, "channels": 8, "depth": 1, "heads": 2, "width": 8},
    "mini_vla": {"vocabulary": 16, "text_width": 8, "channels": [4, 4], "heads": 2},
}
"""Encoder → settings of a small one."""

Obs = dict[str, Tensor]


class GoalEnv:
    """Walk to a goal in the plane; all of it on the device, without a word to the host.

    Args:
        device: Where.
        sees: Whether the observation has an image too.
        told: Whether it has an image and words that tell the goal.
    """

    num_envs, dt_s, max_episode_steps, act_spec = NUM_ENVS, 0.05, EPISODE, ACT

    def __init__(self, device: torch.device, *, sees: bool = False, told: bool = False) -> None:
        self.device, self.sees, self.told = device, sees or told, told
        self.obs_spec = TOLD if told else SEEN if sees else OBS

    def reset(self, seed: int | None = None) -> Obs:
        """See ``VecEnv``; the first episodes are of unequal length."""
        self.generator = generator(self.device, seed or 0)
        self.pos, self.goal = self._start()
        self.age = torch.arange(NUM_ENVS, device=self.device) % EPISODE
        return self._obs()

    def reset_groups(self, size: int, seed: int) -> Obs:
        """See ``Groupable``."""
        self.reset(seed)
        rows = torch.arange(NUM_ENVS, device=self.device) // size * size
        self.pos, self.goal, self.age = self.pos[rows], self.goal[rows], self.age * 0
        return self._obs()

    def step(self, act: Tensor) -> Step:
        """See ``VecEnv``."""
        self.pos = self.pos + torch.nn.functional.pad(0.1 * act.clamp(-1.0, 1.0), (0, 1))
        gap = (self.pos[:, :2] - self.goal).norm(dim=1)
        self.age = self.age + 1
        success = gap < 0.1
        truncated, next_obs = (self.age >= EPISODE) & ~success, self._obs()
        over = success | truncated
        pos, goal = self._start()
        self.pos = torch.where(over[:, None], pos, self.pos)
        self.goal = torch.where(over[:, None], goal, self.goal)
        self.age = torch.where(over, 0, self.age)
        metrics = {"success": success.float(), "lost_contacts": 0.0 * gap}
        valid = torch.ones_like(over)
        return Step(self._obs(), next_obs, -gap, success, truncated, valid, metrics)

    def close(self) -> None:
        """See ``VecEnv``."""

    def _start(self) -> tuple[Tensor, Tensor]:
        drawn = torch.rand(NUM_ENVS, 5, generator=self.generator, device=self.device)
        return drawn[:, :3], drawn[:, 3:]

    def _obs(self) -> Obs:
        eye = {"eye": picture(self.pos)} if self.sees else {}
        words = {"words": sentence(self.goal)} if self.told else {}
        return {"pos": self.pos.clone(), "goal": self.goal.clone(), **eye, **words}


def picture(pos: Tensor) -> Tensor:
    """Stripes (N, 3, S, S) whose width tells where positions (N, 3) are."""
    across = torch.arange(SIDE, device=pos.device, dtype=pos.dtype)
    stripes = 100.0 * (1.0 + (pos[..., None] * across).sin())
    return stripes[..., None, :].expand(*stripes.shape[:-1], SIDE, SIDE).to(torch.uint8)


def sentence(goal: Tensor) -> Tensor:
    """Return ids (N, 4) that tell goals (N, 2); the last is padding where the first is even."""
    ids = (10.0 * goal.abs()).long().clamp(max=15).repeat(1, 2)
    return torch.where((torch.arange(4, device=goal.device) == 3) & (ids[:, :1] % 2 == 0), -1, ids)


def generator(device: torch.device, seed: int = 0) -> torch.Generator:
    return torch.Generator(device).manual_seed(seed)


def make_policy(device: torch.device, family: str = "flow", **fields: Any) -> DenoisingPolicy:
    """A tiny policy; its first weights are drawn on the CPU."""
    torch.manual_seed(0)
    settings = {
        "name": family,
        "num_steps": 1 if family == "gaussian" else 4,
        "horizon": 4,
        "exec_horizon": 2,
        "obs_horizon": 2,
        "net": {"name": "mlp", "width": 32, "depth": 1},
        **fields,
    }
    spec = OBS if "encoder" not in fields else TOLD if _reads_words(fields) else SEEN
    policy = component("policies").make(settings).build(spec, ACT, Normalizer.identity(spec, ACT))
    return policy.to(device)


def _reads_words(fields: Mapping[str, Any]) -> bool:
    return component("encoders").make(fields["encoder"]).cls.reads_words


def observations(device: torch.device, rows: int = 32, *, sees: bool = False) -> Obs:
    """Random histories (N, To, …); with an image and words if they see."""
    draws = generator(device, 3)
    found = {
        name: torch.randn(rows, 2, *spec.shape, generator=draws, device=device)
        for name, spec in OBS.items.items()
    }
    if not sees:
        return found
    words = sentence(found["goal"].flatten(0, 1)).unflatten(0, (rows, 2))
    return {**found, "eye": picture(found["pos"]), "words": words}


def make_collector(
    device: torch.device, *, single_step: bool = False, sees: bool = False
) -> Collector:
    """A collector whose episodes have begun."""
    env = ChunkEnv(GoalEnv(device, sees=sees), obs_horizon=2, exec_horizon=2, gamma=0.99)
    collector = Collector(env, generator(device, 5), single_step=single_step)
    collector.start(1)
    return collector


def make_block(
    policy: DenoisingPolicy, device: torch.device, *, single_step: bool = False
) -> Rollout:
    """T = 8 decisions of one env step each, without a collector."""
    told = bool(policy.obs_spec.word_names)
    env = GoalEnv(device, sees=bool(policy.obs_spec.image_names), told=told)
    draws, builder = generator(device, 5), RolloutBuilder()
    obs = _history(env.reset(1))
    for _ in range(8):
        with torch.no_grad():
            chain = policy.sample(obs, draws, single_step=single_step)
            step = env.step(policy.to_env(obs, chain.act)[:, 0])
        columns = {
            "x": chain.x,
            "log_prob": chain.log_prob[:, :, :2].sum(dim=(2, 3)),
            "rew": step.rew,
            "terminated": step.terminated,
            "truncated": step.truncated,
            "valid": step.valid,
            "discount": torch.full_like(step.rew, 0.98),
            "num_exec": torch.full_like(step.valid, 2, dtype=torch.int64),
        }
        if chain.k_star is not None:
            columns["k_star"] = chain.k_star
        builder.add(obs, _history(step.next_obs), columns)
        obs = _history(step.obs)
    return builder.finish(obs)


def make_replay(device: torch.device, rows: int = 64) -> Replay:
    """Random decisions of four episodes, as demonstrations."""
    draws, on = generator(device), {"device": device}
    columns = {
        f"obs.{name}": torch.randn(rows, 2, *spec.shape, generator=draws, device=device)
        for name, spec in OBS.items.items()
    }
    number = torch.arange(rows, device=device)
    columns |= {
        "act": torch.rand(rows, 4, 2, generator=draws, device=device),
        "rew": torch.rand(rows, generator=draws, device=device),
        "discount": torch.full((rows,), 0.98, device=device),
        "terminated": number % 16 == 15,
        "num_exec": torch.full((rows,), 2, device=device),
        "next": (number + 1).clamp(max=rows - 1),
        "decision": torch.ones(rows, dtype=torch.bool, device=device),
        "human": torch.zeros(rows, dtype=torch.bool, device=device),
    }
    replay = Replay(Replay.Config(demo_fraction=1.0), **on)
    replay.add_demonstrations(columns)
    return replay


def _history(obs: Obs) -> Obs:
    return {name: frame[:, None].repeat_interleave(2, dim=1) for name, frame in obs.items()}
