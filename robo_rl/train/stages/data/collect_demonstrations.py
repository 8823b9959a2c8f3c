"""Stage ``collect``: records demonstrations of a scripted expert to a dataset.

The env or its task provides the expert: ``expert(num_envs, generator, noise)``. The expert acts on
the env's ``view`` and is told which envs begin a new episode (``robo_rl.api.task.Expert``).
"""

from __future__ import annotations

import warnings
from contextlib import closing
from math import floor
from typing import Any, ClassVar, Literal, Self, cast

import torch
from pydantic import Field, model_validator
from torch import Tensor

from robo_rl.api.env import Step, VecEnv
from robo_rl.api.task import Demonstrable, Demonstration
from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import DataError, Notice, PluginError
from robo_rl.core.memory import fits_memory
from robo_rl.core.seeding import derive, make_generator
from robo_rl.core.spec import TensorSpec
from robo_rl.data.dataset import EXECUTED
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.env.instructions import told_sentences
from robo_rl.train.datasets.episode_recorder import (
    EpisodeRecorder,
    Episodes,
    num_successes,
    open_stage_store,
    success_share,
)
from robo_rl.train.datasets.expert_labels import executed_column, find_demonstrator
from robo_rl.train.datasets.wave_recording import expected_total, record_waves
from robo_rl.train.evaluation.action_gain import is_displaceable, label_gain
from robo_rl.train.evaluation.gate import Gate
from robo_rl.train.pipeline.stage import Context, Report, Stage


class CollectDemonstrations(Stage):
    """Records whole episodes in waves; a wave's seed depends only on its index.

    Args:
        cfg: See ``Config``.
    """

    class Config(ConfigModel):
        """Number of episodes, noise of the demonstrator in [0, 1], envs of a wave.

        The demonstrator defines the meaning of the noise. For the tasks of robo-rl, 0 is its best
        and 1 mostly fails. For Meta-World and Gymnasium-Robotics it is a standard deviation
        (``ScriptedExpert``). In a fraction ``expert_fraction`` of the waves, evenly spread, the
        noise is 0.

        With ``successes`` the stage ends with the last of that many successful episodes. An expert
        that fails often then makes more attempts, at most ``episodes``.
        """

        episodes: int = Field(default=50, ge=1)
        """Number of episodes; with ``successes`` the largest."""
        successes: int = Field(default=0, ge=0)
        """Number of successful episodes that ends the stage; 0 records all episodes."""
        noise: float = Field(default=0.2, ge=0.0, le=1.0)
        """Noise of the demonstrator."""
        num_envs: int = Field(default=50, ge=1)
        """Envs that are stepped at once."""
        record: Literal["label", "executed"] = "label"
        """Action of a row. ``label`` has no noise; the executed action is then a further column."""
        expert_fraction: float = Field(default=0.0, ge=0.0, le=1.0)
        """Fraction of the waves in which the demonstrator has no noise."""

        @model_validator(mode="after")
        def _successes_fit(self) -> Self:
            if self.successes > self.episodes:
                problem = f"{self.successes} of {self.episodes} episodes cannot succeed"
                raise ValueError(f"successes: {problem}; raise episodes")
            return self

        def noise_of(self, wave: int) -> float:
            """Return the demonstrator's noise in a wave."""
            best = floor((wave + 1) * self.expert_fraction) > floor(wave * self.expert_fraction)
            return 0.0 if best else self.noise

    reads: ClassVar = ("task", "env", "seed")
    makes: ClassVar = ("dataset",)

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

    def run(self, context: Context) -> Report:
        """Record the remaining episodes.

        Raises:
            PluginError: Neither env nor task has an expert, or no world survives its first step.
            DataError: Too few of the episodes succeed.
            DeviceError: The disk has no room for so many episodes with images.
        """
        num_envs = min(self.cfg.num_envs, self.cfg.episodes)
        with closing(context.experiment.make_env(num_envs)) as env:
            brings = find_demonstrator(env)
            columns = self._columns(env)
            store = open_stage_store(context, env, None, columns, collect=self.cfg.model_dump())
            record_waves(
                store,
                self.cfg.episodes,
                lambda wave: self._wave(env, brings, context.seed, wave),
                successes=self.cfg.successes,
            )
            self._demand_successes(store)
            displaceable = is_displaceable(env)
        gain = label_gain(context.experiment.make_env, context.seed) if displaceable else None
        return self._report(store, {} if gain is None else {"label_gain": gain})

    def _columns(self, env: VecEnv) -> dict[str, TensorSpec]:
        if self.cfg.record == "executed":
            return {}
        return executed_column(env)

    def _wave(self, env: VecEnv, brings: Demonstrable, run_seed: int, wave: int) -> Episodes:
        """Return the first episode of every env, except worlds lost at their first step."""
        seed, ids = derive("collect", run_seed, wave), torch.arange(env.num_envs)
        generator = make_generator("expert", seed)
        expert = brings.expert(env.num_envs, generator, self.cfg.noise_of(wave))
        obs = env.reset(seed)
        expert.reset(ids)
        recorder = EpisodeRecorder(env.num_envs, told_sentences(env))
        while recorder.running.any():
            shown = Demonstration.of(expert.act(cast(Any, env).view))
            step = env.step(shown.act)
            self._record(recorder, obs, shown, step)
            expert.reset(ids[step.terminated | step.truncated])
            obs = step.obs
        episodes = recorder.episodes(seed, wave)
        if not episodes:
            raise PluginError("under the expert every world is lost at its first step")
        if wave == 0:
            self._tell_memory(env, episodes)
        return episodes

    def _tell_memory(self, env: VecEnv, episodes: Episodes) -> None:
        """Tell at the first wave if the demonstrations will not fit the memory of this machine."""
        length = sum(len(each["act"]) for each in episodes) / len(episodes)
        good = sum(bool(each["success"]) for each in episodes)
        total = expected_total(self.cfg.episodes, len(episodes), good, self.cfg.successes)
        needed = round(length * total * env.obs_spec.num_bytes)
        if not fits_memory(needed):
            in_files = "cloning will read the images from files"
            then = in_files if env.obs_spec.image_names else "record fewer"
            warnings.warn(
                f"these demonstrations need about {needed / 1e9:.1f} GB, more than half of the"
                f" available memory: {then}",
                Notice,
                stacklevel=2,
            )

    def _record(
        self, recorder: EpisodeRecorder, obs: dict[str, Tensor], shown: Demonstration, step: Step
    ) -> None:
        if self.cfg.record == "executed":
            recorder.record_step(obs, shown.act, step)
        else:
            recorder.record_step(obs, shown.label, step, **{EXECUTED: shown.act})

    def _demand_successes(self, store: ZarrStore) -> None:
        good, total = num_successes(store), len(store.episodes)
        if good < self.cfg.successes:
            raise DataError(
                "too few demonstrations succeed",
                where=store.path,
                expected=f"successes: {self.cfg.successes}",
                found=f"{good} of {total} episodes",
                hint="raise episodes, or lower noise or successes, in a run of another name=…",
            )

    def _success(self, store: ZarrStore) -> dict[str, Any]:
        """Return the success rate of the expert.

        A recording that stops at its r-th success overstates the rate. Without the last episode
        the share is unbiased (Haldane 1945, Biometrika 33).
        """
        ended = self.cfg.successes and num_successes(store) >= self.cfg.successes
        total = len(store.episodes) - bool(ended)
        return {"success": success_share(store, total=total)} if total else {}

    def _report(self, store: ZarrStore, gain: dict[str, Any]) -> Report:
        good, total = num_successes(store), len(store.episodes)
        return Report(
            "collect",
            numbers={
                "demonstrations": total,
                **self._success(store),
                **gain,
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
