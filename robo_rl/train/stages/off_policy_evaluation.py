"""Stage ``ope``: what the newest policy would come to, from the newest dataset alone.

Off-policy evaluation as it stands at gates, by itself: for a dataset that the policy did not learn
from. What the policy really comes to in the env stands beside it where ``evaluate`` asks for it, in
the same unit; nothing is chosen by either.
"""

from __future__ import annotations

import json
from typing import ClassVar

from robo_rl.core.atomic_files import write_file
from robo_rl.data.dataset import WindowDataset
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.policies import demand_whole, load_policy
from robo_rl.train.datasets.checks import demand_fit, demand_outcomes
from robo_rl.train.ope.judge import Judge, JudgeConfig
from robo_rl.train.pipeline.stage import Context, Report

MEMBERS = "members.json"
"""Of each estimator its values, one a resample of the episodes: by them policies are compared that
were judged on one dataset with one seed."""


class EstimateWorth:
    """Judges the newest policy on all episodes of the newest dataset.

    Args:
        cfg: See Config.
    """

    class Config(JudgeConfig):
        """Who judges, and whether the env is asked, too."""

        evaluate: bool = True

    needs: ClassVar = ("dataset", "policy")
    makes: ClassVar = ("estimate",)

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

    def run(self, context: Context) -> Report:
        """Fit the values, then ask the env."""
        policy = load_policy(context.artifact("policy"))
        demand_whole(policy)
        judge = self._judge(context, policy)
        estimates = judge.estimates("policy", policy)
        members = {name: estimate.members.tolist() for name, estimate in estimates.items()}
        write_file(context.directory / MEMBERS, json.dumps(members).encode())
        numbers = judge.numbers(estimates, "value")
        numbers["strangeness"] = judge.strangeness(policy)
        return self.evaluate(context, Report("ope", numbers, {"estimate": MEMBERS}))

    def evaluate(self, context: Context, report: Report) -> Report:
        """See ``Evaluated``."""
        if self.cfg.evaluate:
            policy = load_policy(context.artifact("policy"))
            report.numbers |= context.evaluate(policy, "what was judged").named()
        return report

    def _judge(self, context: Context, policy: DenoisingPolicy) -> Judge:
        store = context.dataset()
        demand_fit(store, policy)
        data = WindowDataset(store, policy.obs_horizon, policy.horizon)
        demand_outcomes(store, data)
        return Judge(self.cfg, data, policy, folder=context.directory, seed=context.seed)
