"""Stage ``record``: records episodes of the newest policy to a dataset.

A trained policy thus replaces a scripted expert. Shapes: B envs of a wave, H horizon, A act_dim.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from robo_rl.api.env import VecEnv
from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import DataError
from robo_rl.core.seeding import derive, make_generator
from robo_rl.data.dataset import EXECUTED
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.env.chunk_env import ChunkEnv
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.stats.reported import reported_mean
from robo_rl.train.checkpoint.policies import load_policy
from robo_rl.train.datasets.episode_recorder import (
    Episodes,
    RecordedEnv,
    fit_to_store,
    open_stage_store,
    success_share,
)
from robo_rl.train.datasets.expert_labels import ExpertLabels, executed_column
from robo_rl.train.datasets.wave_recording import record_waves
from robo_rl.train.pipeline.stage import Context, Report, Stage
from robo_rl.train.pipeline.world_specs import check_same_specs


class CollectRollouts(Stage):
    """Records whole episodes in waves; a wave's seed depends only on its index.

    Args:
        cfg: See ``Config``.
    """

    class Config(ConfigModel):
        """Number of episodes, envs of a wave, sampler, and filter.

        ``explore`` acts as in training, with fresh noise for each decision; ``evaluate`` acts as in
        evaluation. ``min_return`` replaces episodes with a lower sum of rewards. ``append`` puts
        the episodes after those of the newest dataset.

        With ``labels: expert`` the scripted expert of the env labels every state that the policy
        visits. A policy that is cloned from them learns to return from its own errors (DAgger,
        Ross et al. 2011, arXiv 1011.0686). The expert must be a function of the measured state.
        Failed episodes have good labels too; ``bc.only_success: false`` clones them.
        """

        episodes: int = Field(default=50, ge=1)
        """Number of episodes."""
        num_envs: int = Field(default=50, ge=1)
        """Envs that are stepped at once."""
        sampler: Literal["explore", "evaluate"] = "explore"
        """Whether the policy acts as in training or as in evaluation."""
        min_return: float | None = None
        """Return below which an episode is left out; null keeps all."""
        append: bool = False
        """Whether the episodes of the newest dataset come first."""
        labels: Literal["executed", "expert"] = "executed"
        """Labels of the states: executed actions, or those of the env's scripted expert."""

    needs: ClassVar = ("policy",)
    makes: ClassVar = ("dataset",)
    evaluates: ClassVar = False

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

    @classmethod
    def extends_dataset(cls, cfg: Config) -> bool:
        """See ``StageTraits``."""
        return cfg.append

    def run(self, context: Context) -> Report:
        """Record the remaining episodes.

        Raises:
            DataError: A whole wave has no episode of at least ``min_return``, or the newest dataset
                has other observations or actions, or no column for executed actions beside labels.
            PluginError: The env brings no expert for labels.
            DeviceError: The disk has no room for so many episodes with images.
        """
        policy = load_policy(context.artifact("policy"))
        earlier = context.dataset() if self.cfg.append else None
        after = 0 if earlier is None else len(earlier.episodes)
        num_envs = min(self.cfg.num_envs, self.cfg.episodes)
        with closing(context.experiment.make_env(num_envs)) as env:
            self._check_earlier(earlier, policy, env)
            columns = executed_column(env) if self.cfg.labels == "expert" else {}
            said, place = {"record": self.cfg.model_dump()}, _place(context)
            store = open_stage_store(context, env, earlier, columns, **said)
            record_waves(
                store,
                self.cfg.episodes,
                lambda wave: fit_to_store(self._wave(env, policy, (*place, wave)), store),
                after=after,
            )
        by_success = context.experiment.eval.measure == "success"
        # of episodes that were kept for their return, the share of successes says nothing
        by_success &= self.cfg.min_return is None
        return _report(store, after, judged_by_success=by_success)

    @torch.no_grad()
    def _wave(self, env: VecEnv, policy: DenoisingPolicy, place: tuple[int, ...]) -> Episodes:
        """Return the first episode of every env, without those below ``min_return``.

        Args:
            env: The env.
            policy: The policy that acts.
            place: Seed of the run, number of the stage, and the wave, from which streams are drawn.
        """
        seed, wave = derive("record", *place), place[-1]
        generator = make_generator("record-noise", *place)
        by_expert = self.cfg.labels == "expert"
        labels = ExpertLabels(env, make_generator("label", seed)) if by_expert else None
        recorded = RecordedEnv(env, labels)
        chunks = ChunkEnv(
            recorded, obs_horizon=policy.obs_horizon, exec_horizon=policy.exec_horizon, gamma=1.0
        )
        obs = chunks.reset(seed)
        while recorded.recorder.running.any():
            obs = chunks.step(self._act(policy, obs, generator)).obs
        found = recorded.recorder.episodes(seed, wave)
        good = [each for each in found if self._is_good(each["rew"])]
        if not good:
            raise DataError(
                "the policy made no episode that is worth keeping",
                expected=f"a return of at least {self.cfg.min_return}",
                found=f"{len(found)} episodes, the best {_best(found)}",
                hint="lower min_return, or train the policy longer",
            )
        return good

    def _act(
        self, policy: DenoisingPolicy, obs: dict[str, Tensor], generator: torch.Generator
    ) -> Tensor:
        if self.cfg.sampler == "evaluate":
            return policy.act(obs, generator)
        return policy.to_env(obs, policy.sample(obs, generator).act)

    def _check_earlier(
        self, earlier: ZarrStore | None, policy: DenoisingPolicy, env: VecEnv
    ) -> None:
        """Refuse a dataset of other arrays, or one that cannot hold labels, before it is copied."""
        if earlier is None:
            return
        sees = policy.cfg.sees or None
        check_same_specs(earlier.path, earlier.obs_spec, earlier.act_spec, env, sees)
        if self.cfg.labels == "expert" and EXECUTED not in earlier.schema.columns:
            raise DataError(
                "has no column for executed actions beside labels",
                where=earlier.path,
                expected=f"column '{EXECUTED}'",
                hint="collect with record: label, or record without append",
            )

    def _is_good(self, rew: NDArray[Any]) -> bool:
        return self.cfg.min_return is None or float(rew.sum()) >= self.cfg.min_return


def _place(context: Context) -> tuple[int, ...]:
    """Return the seed of the run, and the number of ``record`` stages before, if there are any.

    Further stages of a run begin at other states: the same policy would repeat its episodes.
    """
    before = list(context.experiment.stages.values())[: len(context.earlier)]
    earlier = sum(issubclass(stage.cls, CollectRollouts) for stage in before)
    return (context.seed, earlier) if earlier else (context.seed,)


def _best(episodes: Episodes) -> str:
    returns = [float(each["rew"].sum()) for each in episodes]
    return f"{max(returns):.4g}" if returns else "none, every world was lost at its first step"


def _report(store: ZarrStore, after: int, *, judged_by_success: bool) -> Report:
    """Return the report on the episodes after the first ``after`` ones."""
    numbers: dict[str, Any] = {"demonstrations": len(store.episodes)}
    if judged_by_success:
        numbers["success"] = success_share(store, after)
    numbers |= {"return": _return(store, after), "rows": store.num_rows, "dataset": store.digest()}
    return Report("record", numbers=numbers, artifacts={"dataset": "data.zarr"})


def _return(store: ZarrStore, after: int) -> dict[str, Any]:
    stops = np.cumsum([record.length for record in store.episodes])
    parts = np.split(store.read(["rew"])["rew"].astype(np.float64), stops[:-1])
    return reported_mean([part.sum() for part in parts[after:]], "reward")
