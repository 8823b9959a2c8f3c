"""Stage ``ope``: estimates the return of the newest policy from the newest dataset.

The stage uses the off-policy evaluation of the gates, for a dataset that the policy was not trained
on. With ``evaluate`` the report also has the measured return in the env, in the same unit. Neither
number influences the run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

from robo_rl.core.atomic_files import write_file
from robo_rl.data.dataset import WindowDataset
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.policies import check_trains_all_steps, load_policy
from robo_rl.train.datasets.checks import check_outcomes_differ, check_policy_specs
from robo_rl.train.datasets.demonstrations import demand_transition_memory
from robo_rl.train.ope.ope_evaluator import OpeConfig, OpeEvaluator
from robo_rl.train.pipeline.stage import Context, Report, Stage

MEMBERS = "members.json"
"""File of each estimator's values, one per resample of the episodes.

Policies that were evaluated on one dataset with one seed are compared by these values.
"""


class EvaluateOffPolicy(Stage):
    """Evaluates the newest policy off-policy on all episodes of the newest dataset.

    Args:
        cfg: See ``Config``.
    """

    class Config(OpeConfig):
        """Off-policy evaluation, and whether to evaluate in the env too."""

        evaluate: bool = True
        """Whether the policy is also evaluated in the env, to compare with the estimate."""

    needs: ClassVar = ("dataset", "policy")
    makes: ClassVar = ("estimate",)

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

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
        """Fit the estimators, then evaluate in the env."""
        policy = load_policy(context.artifact("policy"))
        check_trains_all_steps(policy)
        judge = self._judge(context, policy)
        estimates = judge.estimate("policy", policy)
        members = {name: estimate.members.tolist() for name, estimate in estimates.items()}
        write_file(context.directory / MEMBERS, json.dumps(members).encode())
        numbers = judge.numbers(estimates, "value")
        numbers["ood_distance"] = judge.ood_distance(policy)
        return self.evaluate(context, Report("ope", numbers, {"estimate": MEMBERS}))

    def evaluate(self, context: Context, report: Report) -> Report:
        """See ``Reevaluable``."""
        if self.cfg.evaluate:
            policy = load_policy(context.artifact("policy"))
            report.numbers |= context.evaluate(policy, "what was judged").report_numbers()
        return report

    def _judge(self, context: Context, policy: DenoisingPolicy) -> OpeEvaluator:
        store = context.dataset()
        check_policy_specs(store, policy)
        data = WindowDataset(store, policy.obs_horizon, policy.horizon)
        check_outcomes_differ(store, data)
        demand_transition_memory(len(data), policy)
        return OpeEvaluator(self.cfg, data, policy, folder=context.directory, seed=context.seed)
