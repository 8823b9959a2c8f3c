"""Stage ``offline``: improves a policy on the dataset and keeps the result only if it is better.

The env influences no choice. Critics learn action values, and an ``OfflineAlgorithm`` improves the
policy with them. Fitted Q evaluation then estimates the returns of both policies on the same
resamples of the data. The gate keeps the old policy unless the new one is better by more than the
margin; keeping the old one is not a failure. A waiver keeps the new policy and records the reason.
The true returns of both policies are measured afterwards, in the units of the gate.
"""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from robo_rl.algo.offline.base import OfflineAlgorithm, OfflineInputs
from robo_rl.algo.offline_critics.base import OfflineCritics
from robo_rl.config.component import Component, component, default
from robo_rl.core.seeding import make_generator, seeded_initialization
from robo_rl.data.dataset import WindowDataset
from robo_rl.data.replay import Replay
from robo_rl.ope.policy_comparison import OpeAnswer
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.policies import check_trains_all_steps, load_policy, save_policy
from robo_rl.train.checkpoint.resumable_steps import take_steps
from robo_rl.train.datasets.checks import check_outcomes_differ, check_policy_specs
from robo_rl.train.datasets.demonstrations import demand_transition_memory, policy_transitions
from robo_rl.train.datasets.split import split
from robo_rl.train.evaluation.gate import Gate, episodes_needed_text
from robo_rl.train.evaluation.gate import GateAnswer as GateAnswer
from robo_rl.train.ope.ope_evaluator import OpeConfig, OpeEvaluator, OpeResult
from robo_rl.train.pipeline.preflight.policy import check_policy_fits
from robo_rl.train.pipeline.stage import Context, Report, Stage
from robo_rl.train.rl.critic_warm_start import save_critics
from robo_rl.train.stages.video import record_video

UNGATED = "ungated"
"""Folder of the new policy, whether or not the gate accepts it."""


class OfflineRl(Stage):
    """Improves the newest policy on the newest dataset.

    Args:
        cfg: See ``Config``.
    """

    class Config(OpeConfig):
        """Training lengths, critics, algorithm and gate; ``OpeConfig`` has the evaluation.

        Args:
            critic_steps: Gradient steps of the critics.
            steps: Gradient steps of the policy.
            critics: Critics of the action values.
            algo: Offline algorithm that improves the policy.
            holdout_fraction: Fraction of episodes for the OPE evaluator alone. Estimates on the
                training episodes are biased upwards; 0 uses them nevertheless.
            margin: Amount by which the new policy's value must exceed the old one's.
            difference_error: Fraction of the range of returns, from any step of the data, by which
                the interval of the difference is widened. 0.1 costs ``fqe`` none of its verdicts on
                improved policies, and halves its wrong answers among all pairs (35 to 17), with
                success as the reward (``benchmarks/gate_calibration.py``).
        """

        critic_steps: int = Field(default=4000, ge=1)
        steps: int = Field(default=3000, ge=1)
        critics: Annotated[Component[OfflineCritics], component("critics")] = default("iql")
        algo: Annotated[Component[OfflineAlgorithm], component("offline_algos")] = default("awr")
        holdout_fraction: float = Field(default=0.5, ge=0.0, le=0.9)
        margin: float = Field(default=0.0, ge=0.0)
        difference_error: float = Field(default=0.1, ge=0.0, le=1.0)

    needs: ClassVar = ("dataset", "policy")
    makes: ClassVar = ("policy", "critics")
    stops: ClassVar = False

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

    @classmethod
    def check_policy(cls, cfg: Config, policy: Component[DenoisingPolicy]) -> None:
        """See ``Stage``."""
        check_policy_fits(cfg.algo, policy)

    @classmethod
    def check_resources(cls, cfg: Config, policy: DenoisingPolicy, folder: Path) -> None:
        """See ``StageTraits``."""
        del folder
        cfg.check_policy(policy)

    @classmethod
    def learns_values_from_data(cls, cfg: Config) -> bool:
        """See ``StageTraits``."""
        del cfg
        return True

    def run(self, context: Context) -> Report:
        """Train critics and policy, evaluate both policies, and keep one."""
        old = load_policy(context.artifact("policy"), context.device)
        check_trains_all_steps(old)
        self.cfg.algo.cls.check_policy(self.cfg.algo.cfg, old)
        data, apart = self._data(context, old)
        replay = self._replay(data, old, context.experiment.gamma)
        critics, figures = self._critics(context, replay, old)
        new = self._train_policy(context, replay, old, critics)
        judgement, values = self._compare(context, apart, old, new)
        better = judgement.answer is OpeAnswer.BETTER
        chosen = new if better or context.waiver is not None else old
        goes_on = "policy before" if chosen is old else "new policy"
        save_policy(context.directory / UNGATED, new)
        report = Report(
            "offline",
            numbers={
                **values,
                **judgement.numbers(),
                "accepted": float(chosen is new),
                **{f"critics_{name}": figure for name, figure in figures.items()},
            },
            artifacts=self._save_artifacts(context, chosen, old, critics),
            gate=_gate(
                judgement, goes_on, values["value_after"]["n"], passed=better or chosen is old
            ),
            files=record_video(context, chosen, "rollout.mp4"),
            curves={"loss": {"x": "step", "y": "loss"}},
        )
        return self.evaluate(context, report)

    def evaluate(self, context: Context, report: Report) -> Report:
        """See ``Reevaluable``: measure the true returns, which the gate does not use."""
        report.update_numbers(_truths(context, accepted=bool(report.numbers["accepted"])))
        return report

    def _save_artifacts(
        self,
        context: Context,
        chosen: DenoisingPolicy,
        old: DenoisingPolicy,
        critics: OfflineCritics,
    ) -> dict[str, str]:
        """Save the artifacts for later stages; the critics read what ``old`` does."""
        path = save_policy(context.directory / "policy", chosen)
        settings = self.cfg.critics.cfg.model_dump()
        kept = save_critics(context.directory / "critic", critics.target.module, settings, old)
        return {"policy": path.name, "critics": kept.name}

    def _data(
        self, context: Context, policy: DenoisingPolicy
    ) -> tuple[WindowDataset, WindowDataset]:
        """Return the training data and the evaluation data.

        Raises:
            DeviceError: The replay of either does not fit the memory beside the other.
        """
        store = context.dataset()
        check_policy_specs(store, policy)
        parts = split(len(store.episodes), self.cfg.holdout_fraction, context.seed)
        sizes = policy.obs_horizon, policy.horizon
        data = WindowDataset(store, *sizes, among=parts[0], device=policy.device)
        apart = WindowDataset(store, *sizes, among=parts[1])
        check_outcomes_differ(store, data, apart)
        on_cpu = policy.device.type == "cpu"  # the evaluation always is
        demand_transition_memory(len(apart) + on_cpu * len(data), policy)
        return data, apart

    def _replay(self, data: WindowDataset, policy: DenoisingPolicy, gamma: float) -> Replay:
        """Return the replay for critics and algorithm."""
        replay = Replay(Replay.Config(demo_fraction=1.0), policy.device)
        replay.add_demonstrations(policy_transitions(data, policy, gamma))
        return replay

    def _compare(
        self, context: Context, data: WindowDataset, old: DenoisingPolicy, new: DenoisingPolicy
    ) -> tuple[OpeResult, dict[str, Any]]:
        """Compare both policies on the same resamples and batches, from the same weights.

        The comparison runs on the CPU.
        """
        old, new = (deepcopy(policy).cpu() for policy in (old, new))
        judge = OpeEvaluator(self.cfg, data, old, folder=context.directory, seed=context.seed)
        before, after = judge.estimate("before", old), judge.estimate("after", new)
        values = judge.numbers(before, "value_before") | judge.numbers(after, "value_after")
        strange = {
            name: judge.ood_distance(each) for name, each in (("before", old), ("after", new))
        }
        values |= {f"ood_distance_{name}": value for name, value in strange.items()}
        limits = self.cfg.margin, self.cfg.difference_error
        return judge.compare(after, before, strange["after"], *limits), values

    def _critics(
        self, context: Context, replay: Replay, policy: DenoisingPolicy
    ) -> tuple[OfflineCritics, dict[str, float]]:
        generator = make_generator("critics", context.seed, device=policy.device)
        with seeded_initialization("critics", context.seed):
            critics: OfflineCritics = self.cfg.critics.build(policy, replay, generator)
        found = take_steps(
            context.directory / "critics",
            "critics",
            self.cfg.critic_steps,
            critics,
            generator,
            critics.step,
            checkpoint_every=self.cfg.checkpoint_every,
        )
        return critics, found

    def _train_policy(
        self, context: Context, replay: Replay, old: DenoisingPolicy, critics: OfflineCritics
    ) -> DenoisingPolicy:
        generator = make_generator("offline", context.seed, device=old.device)
        inputs = OfflineInputs(old, critics, replay, self.cfg.steps, generator)
        algo: OfflineAlgorithm = self.cfg.algo.build(inputs)
        take_steps(
            context.directory,
            "offline",
            self.cfg.steps,
            algo,
            generator,
            algo.step,
            checkpoint_every=self.cfg.checkpoint_every,
        )
        return algo.policy


def _gate(judgement: OpeResult, goes_on: str, episodes: int, *, passed: bool) -> Gate:
    """Return the gate with the result of off-policy evaluation; refusal is not a failure."""
    answers: dict[OpeAnswer, GateAnswer] = {OpeAnswer.BETTER: "pass", OpeAnswer.WORSE: "fail"}
    answer = answers.get(judgement.answer, "cannot tell")
    needed = judgement.episodes_needed(episodes)
    more = (
        f"; {episodes_needed_text(needed, 'episodes to judge by')}"
        if answer == "cannot tell"
        else ""
    )
    detail = f"{judgement}{more}; the {goes_on} goes on"
    name = "off-policy evaluation"
    return Gate(name=name, passed=passed, detail=detail, answer=answer, episodes_needed=needed)


def _truths(context: Context, *, accepted: bool) -> dict[str, Any]:
    """Measure the true returns of the policies, which influence no choice.

    If a refused policy was not saved, its earlier measurement stays in the report.
    """
    before = context.evaluate(load_policy(context.artifact("policy"), context.device), "before")
    place = context.directory / UNGATED
    found = before.report_numbers("{}_before")
    if not accepted:
        found = {**before.report_numbers(), **found}
    if accepted or place.exists():
        new = load_policy(place if place.exists() else context.directory / "policy", context.device)
        after = context.evaluate(new, "offline, whatever the gate says")
        found = {
            **(after.report_numbers() if accepted else {}),
            **after.report_numbers("{}_ungated"),
            **found,
        }
    return found
