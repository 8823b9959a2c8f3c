"""The online RL loop: collect a rollout, update, check the guard, save a checkpoint."""

from __future__ import annotations

import copy
import time
from contextlib import closing
from typing import Any, ClassVar

import torch

from robo_rl.algo.base import Algorithm
from robo_rl.core.seeding import derive, make_generator, seeded_initialization
from robo_rl.core.stateful import Stateful
from robo_rl.data.rollout import Rollout
from robo_rl.data.running_obs_stats import RunningObsStats
from robo_rl.distributed.process_group import check_identical, rank_info
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.gather_state import all_gather_state
from robo_rl.train.checkpoint.interrupt import between_updates
from robo_rl.train.checkpoint.metrics_log import MetricsLogger
from robo_rl.train.checkpoint.progress import Progress, StatusConsole
from robo_rl.train.checkpoint.pytree import flatten
from robo_rl.train.checkpoint.series import CheckpointSeries
from robo_rl.train.datasets.demonstrations import load_demonstrations
from robo_rl.train.evaluation.evaluate import EvalResult
from robo_rl.train.pipeline.stage import Context
from robo_rl.train.rl.collector_factory import (
    count_envs,
    demand_rollout_memory,
    make_collector,
)
from robo_rl.train.rl.critic_warm_start import load_offline_critics
from robo_rl.train.rl.episode_cohorts import EpisodeOutcomes
from robo_rl.train.rl.exploration.exploration_check import DONE, ExplorationCheck
from robo_rl.train.rl.exploration.exploration_width import describe_exploration
from robo_rl.train.rl.guard.collapse_guard import CollapseGuard
from robo_rl.train.rl.guard.final_choice import FinalChoice
from robo_rl.train.rl.joint_distillation import JointDistillation
from robo_rl.train.rl.loop_config import LoopConfig
from robo_rl.train.rl.periodic_eval import PeriodicEval, probe_protocol
from robo_rl.train.rl.process_reward import success_potential
from robo_rl.train.rl.shards import ShardPlan
from robo_rl.train.rl.stopping import StoppingRule
from robo_rl.train.rl.task_sampler import success_by_task

ALGO_FILES = "replay"
"""Folder of the algorithm's own files in that of the stage."""

_SHOWN = ("success", "kl", "reverse_kl", "env_steps")
"""Metrics on the progress bar, where the algorithm reports them."""


class Loop(Stateful):
    """The online RL loop and its resumable state.

    After ``train``, ``ended_with`` is ``initial`` for the policy that entered RL, ``best`` for the
    guard's best, or ``last``.

    Args:
        cfg: See ``LoopConfig``.
        context: Context of the stage.
        policy: Policy to train in place.
    """

    state_parts: ClassVar[tuple[str, ...]] = (
        "algo",
        "minibatch",
        "guard",
        "collector",
        "obs_stats",
        "joint_distillation",
        "stopping",
        "num_envs",
        "progress",
        "exploration_check",
    )

    def __init__(self, cfg: LoopConfig, context: Context, policy: DenoisingPolicy) -> None:
        self.cfg, self.policy, self.seed = cfg, policy, (seed := context.seed)
        self._context, self._task = context, context.experiment.task
        self.is_main_process = rank_info().rank == 0
        self.console = StatusConsole(quiet=not self.is_main_process)
        self.series = CheckpointSeries(context.directory / "ckpt", device=policy.device.type)
        state = self.series.load_latest()
        group_size = getattr(cfg.algo.cfg, "group_size", 1)
        kept = state and state["num_envs"]
        self.num_envs = count_envs(context, cfg.num_envs, kept, group_size, cfg.shards)
        if group_size == 1:  # the decisions of whole episodes are known with the env
            reused = getattr(cfg.algo.cfg, "reused_rollouts", 0)
            demand_rollout_memory(policy, self.num_envs * cfg.decisions, reused)
        if policy.cfg.finetune_steps and policy.reference_net is None:
            policy.freeze_reference()
        cfg.algo.cls.check_processes(cfg.algo.cfg, rank_info().world_size)
        with seeded_initialization("critic", seed):
            mine = self.num_envs // rank_info().world_size
            self.algo: Algorithm = cfg.algo.build(policy, mine, _stream(seed, policy.device))
        self.algo.keep_files_in(context.directory / ALGO_FILES)
        load_demonstrations(self.algo, policy, context)
        load_offline_critics(self.algo, context)
        self.obs_stats = RunningObsStats(policy.normalizer) if cfg.running_obs_stats else None
        self.guard = CollapseGuard(cfg.guard, self.algo.group_size)
        self.final_choice = FinalChoice(cfg.guard.final_episodes, context)
        self.joint_distillation = JointDistillation.of(cfg.student, policy, seed)
        self.periodic_eval = PeriodicEval(cfg.periodic_eval, context)
        self.exploration_check = ExplorationCheck(context)
        self.parts = self._split(state and _shards(state))
        self._announce()
        self.collector = make_collector(
            context,
            policy,
            self.algo,
            self.num_envs,
            self.parts,
            sharded=state is not None and "shards" in state["collector"],
            by_failures=cfg.task_sampling == "failures",
            potential=(
                success_potential(cfg.process_reward, context, policy)
                if cfg.process_reward.weight
                else None
            ),
        )
        self.stopping, self.ended_with = StoppingRule(cfg), "last"
        try:
            self.log = (
                MetricsLogger(context.directory / "metrics.jsonl") if self.is_main_process else None
            )
            self._resume(state)
        except BaseException:
            self.collector.close()
            raise

    def _split(self, kept: int | None) -> ShardPlan:
        groups = self.algo.group_size > 1
        return ShardPlan.of(self.cfg.shards, kept, self.num_envs, single=groups)

    def _announce(self) -> None:
        """Print how a run of several processes shares its envs, and that rates need no change."""
        if rank_info().world_size > 1:
            rows = self.num_envs * self.cfg.decisions
            text = (
                f"{rank_info().world_size} processes, {self.num_envs} envs in"
                f" {self.parts.total} parts:"
                f" {rows:,} decisions an update. num_envs and minibatch count those of all, so"
                " learning rates are as with one process"
            )
            self._print(text)

    @property
    def progress(self) -> float:
        """Share of the budget at which the policy explores; saved with the policy."""
        return self.policy.progress

    @progress.setter
    def progress(self, value: float) -> None:
        self.policy.set_progress(value)

    @property
    def eval_policy(self) -> DenoisingPolicy:
        """The policy that is evaluated and kept."""
        return self.algo.eval_policy()

    def train(self) -> None:
        """Update until the budget is spent or success suffices; save checkpoints between updates.

        Raises:
            Interrupted: A signal arrived; all finished updates are saved.
        """
        with closing(self.collector):
            self._update_to_the_end()
        self._finish()

    def _update_to_the_end(self) -> None:
        shown = Progress(self.cfg.updates, "fine-tune", "updates", console=self.console)
        with shown as progress, between_updates() as pause:
            progress.update(*self._progress())
            while not self._ends:
                metrics = self._update() | self._confirm_stop()
                if self.log is not None:
                    metrics |= self.periodic_eval.run(
                        self.algo.updates, self.eval_policy, last=self._ends
                    )
                    self.log.log(metrics)
                shown = {name: metrics[name] for name in _SHOWN if name in metrics}
                progress.update(*self._progress(), **shown)
                due = self.algo.updates % self.cfg.checkpoint_every == 0 or self._ends
                pause.checkpoint(self._save, due=due, kept=f"{self.algo.updates:,} updates")

    def _finish(self) -> None:
        """Go to the policy that training ends with."""
        if self.joint_distillation is not None:
            self.joint_distillation.finish()
        last = copy.deepcopy(self._acting())
        candidates = self.guard.candidates(last)
        if self.cfg.guard.final_episodes:
            self.ended_with = self.final_choice.run(candidates, self._eval_policy_at)
            self._print(f"keeps the {self.ended_with} policy")
        elif self.guard.finish(last) is not None:
            self.ended_with = "best"
        self._go_back(candidates[self.ended_with])

    def _eval_policy_at(self, state: dict[str, Any]) -> DenoisingPolicy:
        """Restore a state of ``_acting`` and return the policy that is evaluated."""
        self._go_back(state)
        return self.eval_policy

    def _progress(self) -> tuple[int, int]:
        """Return the number of updates so far, and the expected total."""
        done = self.algo.updates
        return done, self.stopping.expected_updates(done, self.collector.env_steps)

    @property
    def _ends(self) -> bool:
        return self.stopping.is_due(self.algo.updates)

    def _update(self) -> dict[str, float]:
        start = time.perf_counter()
        spent = self.stopping.budget_fraction(self.algo.updates, self.collector.env_steps)
        self.policy.set_progress(spent)
        rollout, stats = self.collector.collect(self.policy, self.cfg.decisions)
        collected = time.perf_counter()
        self._show_exploration(rollout)
        updated = time.perf_counter()
        metrics, outcomes = self._learn(rollout)
        ended = time.perf_counter()
        student = self.joint_distillation
        taught = {} if student is None else student.update(self.eval_policy, rollout)
        return {
            "step": self.algo.updates,
            "env_steps": self.collector.env_steps,
            **success_by_task(stats),
            **outcomes.metrics(),
            **metrics,
            "rollbacks": float(self.guard.rollbacks),
            "collect_s": collected - start,
            "update_s": ended - updated,
            **taught,
        }

    def _print(self, text: str) -> None:
        self.console.print(f"fine-tune: {text}", soft_wrap=True, highlight=False, markup=False)

    def _show_exploration(self, rollout: Rollout) -> None:
        """Print once how far exploration moves the actions."""
        if self.algo.updates:
            return
        task = None if self._task is None else self._task.build()
        text = describe_exploration(self.policy, rollout, task)
        self._print(text)

    def _learn(self, rollout: Rollout) -> tuple[dict[str, float], EpisodeOutcomes]:
        """Update from a rollout; returns the algorithm's metrics and the episodes that ended."""
        metrics = self.algo.update(rollout)
        if self.obs_stats is not None:
            self.obs_stats.update({name: rollout.rows(seen) for name, seen in rollout.obs.items()})
        outcomes = self.collector.finish_block()
        self.stopping.update(outcomes, self.collector.env_steps)
        self._guard(outcomes)
        if (warning := self.exploration_check.observe(outcomes)) is not None:
            self._print(warning)
        return metrics, outcomes

    def _confirm_stop(self) -> dict[str, float]:
        """Let episodes without exploration confirm that success suffices; see ``StoppingRule``."""
        updates = self.algo.updates
        if self._ends:
            return {}

        def evaluate() -> EvalResult:
            protocol = probe_protocol(self._context, self.cfg.stop_confirm, f"stop {updates}")
            label = f"update {updates}, to stop"
            return self._context.evaluate(self.eval_policy, label, protocol)

        return self.stopping.confirm(evaluate)

    def _guard(self, outcomes: EpisodeOutcomes) -> None:
        """Pass complete episodes to the guard; roll back if it says so."""
        good = self.guard.observe(*outcomes, self._acting())
        if good is not None:
            self._go_back(good)
            self.collector.discard_running()

    def _acting(self) -> dict[str, Any]:
        """Return what a rollback restores: the algorithm's parts and the observation statistics."""
        return {"actor": self.algo.actor_state(), **self.states_of(("obs_stats",))}

    def _go_back(self, state: dict[str, Any]) -> None:
        self.algo.rollback(state["actor"])
        self.load_states_of(("obs_stats",), state)

    def _save(self) -> None:
        """Save a checkpoint in the first process, for all processes."""
        state = self.state_dict()
        check_identical([*flatten(state["algo"])[0].values()])
        if self.is_main_process:
            self.series.save(self.algo.updates, state)

    def _resume(self, state: dict[str, Any] | None) -> None:
        self.guard.begin(self._acting())  # no checkpoint is loaded yet
        if state is None:
            self.collector.start(derive("online", self.seed))
        else:
            if self.joint_distillation is None:  # only the main process has the student
                state = {name: part for name, part in state.items() if name != "joint_distillation"}
            # An older checkpoint has no progress, and resumes at that of the loaded policy.
            self._load({"progress": self.progress, "exploration_check": DONE, **state})
            if self.collector.restarted:
                self.algo.restart_episodes()
        check_identical([torch.tensor(self.algo.updates), *self.policy.parameters()])
        if self.log is not None:
            self.log.truncate_after(self.algo.updates)

    def _load(self, state: dict[str, Any]) -> None:
        """Load a checkpoint; a fault of the envs, which restart or go on, is none of its fit."""
        with self.series.loading():
            self.load_states_of([name for name in self.state_parts if name != "collector"], state)
        with self.series.loading(runs_env=True):
            self.load_states_of(["collector"], state)
        self._loaded()

    @property
    def minibatch(self) -> list[torch.Tensor]:
        """The minibatch streams, one per process; all processes read the property together.

        Setting it restores each stream if the number of processes is unchanged. With another
        number, all processes but the main one get newly seeded streams.
        """
        return all_gather_state([self.algo.generator.get_state()])

    @minibatch.setter
    def minibatch(self, kept: list[torch.Tensor]) -> None:
        rank, size = rank_info()
        if rank == 0 or len(kept) == size:
            self.algo.generator.set_state(kept[rank])
        else:
            seed = derive("minibatch", self.seed, rank, self.algo.updates)
            self.algo.generator.manual_seed(seed)


def _stream(seed: int, device: torch.device) -> torch.Generator:
    """Return this process's minibatch stream; the first process's is that of a single process."""
    rank = rank_info().rank
    return make_generator("minibatch", seed, *((rank,) if rank else ()), device=device)


def _shards(state: dict[str, Any]) -> int:
    """Return the number of shards of a checkpoint."""
    return len(state["collector"].get("shards", (None,)))
