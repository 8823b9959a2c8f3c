"""Stage ``collect``: the task's scripted expert demonstrates, episodes go to a dataset.

Shapes: B envs of a wave, L env steps of an episode.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from robo_rl.config import ConfigModel
from robo_rl.data.zarr_store import ZarrStore
from robo_rl.env.sim import SimEnv
from robo_rl.errors import PluginError
from robo_rl.seeding import derive, make_generator
from robo_rl.stats import wilson
from robo_rl.task import Demonstrable
from robo_rl.train.logger import Progress
from robo_rl.train.stage import Context, Gate, Report


class Collect:
    """Records whole episodes, wave by wave; a wave's seed depends on its index alone.

    Args:
        cfg: See Config.
    """

    class Config(ConfigModel):
        """Number of episodes, noise of the demonstrator in [0, 1], envs of a wave."""

        episodes: int = Field(default=50, ge=1)
        noise: float = Field(default=0.2, ge=0.0, le=1.0)
        num_envs: int = Field(default=50, ge=1)

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

    def run(self, context: Context) -> Report:
        """Record what is still missing.

        Raises:
            PluginError: The task brings no expert.
        """
        env = context.experiment.make_env(min(self.cfg.num_envs, self.cfg.episodes))
        if not isinstance(env, SimEnv) or not hasattr(env.task, "expert"):
            raise PluginError("the task brings no scripted expert", hint="give it expert()")
        store = self._store(context, env)
        with Progress(self.cfg.episodes, "collect", "episodes") as progress:
            while len(store.episodes) < self.cfg.episodes:
                done = len(store.episodes)
                wave, skip = divmod(done, env.num_envs)
                episodes = self._wave(env, derive("collect", context.seed, wave))
                store.extend(episodes[skip : skip + self.cfg.episodes - done])
                progress.update(len(store.episodes))
        env.close()
        return self._report(store)

    def _store(self, context: Context, env: SimEnv) -> ZarrStore:
        path = context.directory / "data.zarr"
        if path.exists():
            return ZarrStore.open(path)
        meta = {"world": context.experiment.world(), "collect": self.cfg.model_dump()}
        return ZarrStore.create(path, env.obs_spec, env.act_spec, meta)

    def _wave(self, env: SimEnv, seed: int) -> list[dict[str, Any]]:
        """The first episode of every env."""
        generator = make_generator("expert", seed)
        expert = cast(Demonstrable, env.task).expert(env.num_envs, generator, self.cfg.noise)
        obs = env.reset(seed)
        expert.reset(torch.arange(env.num_envs))
        recorder = _Recorder(env.num_envs, seed)
        while recorder.running.any():
            act = expert.act(env.view)
            step = env.step(act)
            recorder.add(obs, act, step)
            obs = step.obs
        return recorder.episodes()

    def _report(self, store: ZarrStore) -> Report:
        good = sum(bool(record.success) for record in store.episodes)
        total = len(store.episodes)
        low, high = wilson(good, total)
        rate = {"value": good / total, "low": low, "high": high, "n": total, "unit": "1"}
        return Report(
            "collect",
            numbers={
                "demonstrations": total,
                "success": rate,
                "rows": store.num_rows,
                "dataset": store.digest(),
            },
            artifacts={"dataset": "data.zarr"},
            gate=Gate(
                name="demonstrations",
                passed=good > 0,
                detail=f"{good} of {total} demonstrations succeed; at least one must",
            ),
        )


class _Recorder:
    """Keeps each env's steps until its first episode ends."""

    def __init__(self, num_envs: int, seed: int) -> None:
        self.running = torch.ones(num_envs, dtype=torch.bool)
        self.length = torch.zeros(num_envs, dtype=torch.int64)
        self.success = torch.zeros(num_envs, dtype=torch.bool)
        self.seed = seed
        self.steps: list[dict[str, Tensor]] = []

    def add(self, obs: dict[str, Tensor], act: Tensor, step: Any) -> None:
        """One step of all envs; a lost world ends its episode before it."""
        columns = {f"obs/{name}": tensor.clone() for name, tensor in obs.items()}
        columns |= {"act": act.to(torch.float32), "rew": step.rew}
        columns |= {"terminated": step.terminated, "truncated": step.truncated}
        self.steps.append(columns)
        self.length += self.running & step.valid
        self.success |= self.running & (step.metrics["success"] > 0)
        self.running &= ~(step.terminated | step.truncated)

    def episodes(self) -> list[dict[str, Any]]:
        """What ``ZarrStore.extend`` takes, one mapping an env that has any step."""
        columns = {
            name: np.stack([step[name].numpy() for step in self.steps]) for name in self.steps[0]
        }
        return [self._episode(columns, env) for env in range(len(self.running))]

    def _episode(self, columns: dict[str, Any], env: int) -> dict[str, Any]:
        rows = {name: column[: int(self.length[env]), env] for name, column in columns.items()}
        obs = {name[4:]: rows.pop(name) for name in list(rows) if name.startswith("obs/")}
        return {"obs": obs, **rows, "success": bool(self.success[env]), "seed": self.seed}
