"""Collects the steps of envs into whole episodes, and fits episodes to a store.

Shapes: B envs of a wave, L env steps of an episode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from robo_rl.api.env import Step, VecEnv
from robo_rl.core.spec import TensorSpec
from robo_rl.data.dataset import EXECUTED, INTERVENTION
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.env.instructions import told_sentences
from robo_rl.stats.reported import reported_rate
from robo_rl.train.datasets.expert_labels import ExpertLabels
from robo_rl.train.pipeline.stage import Context

Episodes = list[dict[str, Any]]
"""Input of ``ZarrStore.extend``; ``meta`` holds each episode's wave, env, and instruction."""


def open_stage_store(
    context: Context,
    env: VecEnv,
    earlier: ZarrStore | None = None,
    columns: Mapping[str, TensorSpec] | None = None,
    **made_by: Any,
) -> ZarrStore:
    """Create the stage's dataset or open the unfinished one.

    Args:
        context: Context of the stage.
        env: Env with the observations and actions of the dataset.
        earlier: Dataset to start from, with its description; None for an empty one.
        columns: Further per-step columns of an empty dataset.
        made_by: Entries of the description, beside the world.
    """
    path = context.directory / "data.zarr"
    if path.exists():
        return ZarrStore.open(path)
    if earlier is not None:
        return earlier.copy(path)
    meta = {"world": context.experiment.world(), **made_by}
    return ZarrStore.create(path, env.obs_spec, env.act_spec, meta, columns=columns)


def fit_to_store(episodes: Episodes, store: ZarrStore) -> Episodes:
    """Return a policy's episodes with the observations and columns of a store.

    Executed actions are also the labels where no others are, and no human intervened.
    """
    names, columns = store.obs_spec.items, store.schema.columns

    def fitted(episode: dict[str, Any]) -> dict[str, Any]:
        act = episode["act"]
        known = {EXECUTED: act, INTERVENTION: np.zeros(len(act), bool)}
        further = {name: known[name] for name in columns if name in known}
        return {**further, **episode, "obs": {name: episode["obs"][name] for name in names}}

    return [fitted(each) for each in episodes]


def success_share(store: ZarrStore, after: int = 0, total: int | None = None) -> dict[str, Any]:
    """Return the success rate of the episodes from ``after`` on, in the format of reports.

    Args:
        store: Store with at least one such episode.
        after: Number of episodes that do not count.
        total: Number of episodes with those; all by default.
    """
    return reported_rate(num_successes(store, after, total), len(store.episodes[after:total]))


def num_successes(store: ZarrStore, after: int = 0, total: int | None = None) -> int:
    """Return the number of successful episodes, see ``success_share``."""
    return sum(bool(record.success) for record in store.episodes[after:total])


class EpisodeRecorder:
    """Collects each env's steps until its first episode ends.

    Args:
        num_envs: B.
        instructions: (B,) sentence of each env's episode; empty for none.
    """

    def __init__(self, num_envs: int, instructions: Sequence[str] = ()) -> None:
        self.instructions = instructions
        self.running = torch.ones(num_envs, dtype=torch.bool)
        self.length = torch.zeros(num_envs, dtype=torch.int64)
        self.success = torch.zeros(num_envs, dtype=torch.bool)
        self.steps: list[dict[str, Tensor]] = []

    def record_step(
        self, obs: dict[str, Tensor], act: Tensor, step: Step, **further: Tensor
    ) -> None:
        """Add a copy of one step of all envs; a lost world ends its episode before this step.

        Args:
            obs: Name → (B, …), before the step.
            act: (B, A).
            step: Result of the step.
            further: Column → (B, A), further actions of the step.
        """
        columns = {f"obs/{name}": tensor for name, tensor in obs.items()}
        columns |= {name: each.to(torch.float32) for name, each in {"act": act, **further}.items()}
        columns |= {"rew": step.rew}
        columns |= {"terminated": step.terminated, "truncated": step.truncated}
        self.steps.append({name: each.clone() for name, each in columns.items()})
        self.length += self.running & step.valid
        self.success |= self.running & step.success
        self.running &= ~(step.terminated | step.truncated)

    def episodes(self, seed: int, wave: int) -> Episodes:
        """Return one episode for each env with at least one step."""
        columns = {
            name: np.stack([step[name].numpy() for step in self.steps]) for name in self.steps[0]
        }
        envs = self.length.nonzero().flatten().tolist()
        return [
            {
                **self._episode(columns, env),
                "seed": seed,
                "meta": {"wave": wave, "env": env, **self._told(env)},
            }
            for env in envs
        ]

    def _told(self, env: int) -> dict[str, Any]:
        return {"tasks": [self.instructions[env]]} if self.instructions else {}

    def _episode(self, columns: dict[str, Any], env: int) -> dict[str, Any]:
        rows = {name: column[: int(self.length[env]), env] for name, column in columns.items()}
        rows["truncated"][-1] = not rows["terminated"][-1]  # also for a lost world
        obs = {name[4:]: rows.pop(name) for name in list(rows) if name.startswith("obs/")}
        return {"obs": obs, **rows, "success": bool(self.success[env])}


class RecordedEnv:
    """A ``VecEnv`` that records the first episode of every env since the last reset.

    It records actions as executed, clamped to their limits. It has no open-loop rollout, so chunks
    are stepped and recorded action by action.

    Args:
        env: The env to record; the caller closes it.
        labels: Demonstrator that labels every state; executed actions are then a further column.
            None records executed actions.
    """

    def __init__(self, env: VecEnv, labels: ExpertLabels | None = None) -> None:
        self._labels, self.__wrapped__ = labels, env
        self.env, self.num_envs, self.device = env, env.num_envs, env.device
        self.obs_spec, self.act_spec = env.obs_spec, env.act_spec
        self.dt_s, self.max_episode_steps = env.dt_s, env.max_episode_steps
        self.recorder = EpisodeRecorder(env.num_envs)
        self._obs: dict[str, Tensor] = {}
        low, high = self.act_spec.low, self.act_spec.high
        self._low = torch.tensor(low) if low else None
        self._high = torch.tensor(high) if high else None

    def reset(self, seed: int | None = None) -> dict[str, Tensor]:
        """Start new episodes and a new record."""
        self._obs = self.env.reset(seed)
        self.recorder = EpisodeRecorder(self.num_envs, told_sentences(self.env))
        if self._labels is not None:
            self._labels.reset()
        return self._obs

    def step(self, act: Tensor) -> Step:
        """Step and record."""
        if self._low is not None or self._high is not None:
            act = act.clamp(self._low, self._high)
        shown = {} if self._labels is None else {EXECUTED: act}
        label = act if self._labels is None else self._labels.label()
        step = self.env.step(act)
        self.recorder.record_step(self._obs, label, step, **shown)
        if self._labels is not None:
            self._labels.observe(step)
        self._obs = step.obs
        return step

    def close(self) -> None:
        """Close the env; the record stays."""
        self.env.close()
