"""Stage ``policy``: loads an existing policy, such as that of another run."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import ClassVar

from robo_rl.config.component import Component
from robo_rl.config.models import ConfigModel
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.policies import load_policy, save_policy, weights_digest
from robo_rl.train.datasets.spec_checks import demand_items_read, world_changes
from robo_rl.train.evaluation.gate import Gate
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.stage import Context, Report, Stage, find_policy
from robo_rl.train.pipeline.world_specs import check_same_specs
from robo_rl.train.stages.first_weights import demand_same_settings


class LoadPolicy(Stage):
    """Copies a policy into the run, if its settings and specs match the experiment.

    The gate of its stage comes with it; a failed gate needs a waiver here too. Fine-tuning can thus
    start from an existing clone or continue earlier fine-tuning. Export also needs a dataset, from
    its own stage.

    Args:
        cfg: See ``Config``.
    """

    class Config(ConfigModel):
        """Path of a stage's directory such as ``runs/mine/01-bc``, or of a policy."""

        path: str
        """Directory of a stage such as ``runs/mine/01-bc``, or of a policy."""

    makes: ClassVar = ("policy",)

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

    @classmethod
    def output_policy(
        cls, cfg: Config, policy: Component[DenoisingPolicy] | None, own: Component[DenoisingPolicy]
    ) -> Component[DenoisingPolicy] | None:
        """See ``Stage``."""
        del cfg, policy
        return own

    @classmethod
    def check_inputs(cls, cfg: Config, experiment: Experiment) -> None:
        """Check that there is such a policy, which loads and has the experiment's settings.

        Raises:
            CheckpointError: The policy is missing or damaged.
            DataError: Its settings differ from the experiment's, or its stage's report is damaged.
        """
        place, _ = find_policy(Path(cfg.path).absolute())
        demand_same_settings(place, load_policy(place), experiment)

    def run(self, context: Context) -> Report:
        """Check, copy and evaluate the policy.

        Raises:
            CheckpointError: The policy is missing or damaged.
            DataError: Its settings, observations or actions differ from the experiment's.
            SpecError: It reads an observation that the env lacks.
        """
        place, made = find_policy(Path(self.cfg.path).absolute())
        policy = load_policy(place, context.device)
        demand_same_settings(place, policy, context.experiment)
        with closing(context.experiment.make_env(1)) as env:
            check_same_specs(place, policy.env_spec, policy.act_spec, env)
            demand_items_read(place, "policy", policy.obs_spec, env.obs_spec)
        kept = save_policy(context.directory / "policy", policy)
        elsewhere = {} if made is None else world_changes(made.world, context)
        numbers = {"weights": weights_digest(policy), **elsewhere}
        gate = None if made is None else _taken_up(made.gate)
        report = Report("policy", numbers=numbers, artifacts={"policy": kept.name}, gate=gate)
        return self.evaluate(context, report)

    def evaluate(self, context: Context, report: Report) -> Report:
        """See ``Reevaluable``; the gate stays that of the stage that made the policy."""
        policy = load_policy(context.directory / report.artifacts["policy"], context.device)
        report.update_numbers(context.evaluate(policy, "policy taken up").report_numbers())
        return report


def _taken_up(gate: Gate | None) -> Gate | None:
    """Return the gate without a setting to raise, since this stage has none.

    Its text keeps the reason of a waiver, which the experiment gives anew.
    """
    if gate is None:
        return None
    reason = f"; waived there: {gate.waiver}" if gate.waiver else ""
    return gate.model_copy(update={"setting": None, "detail": f"{gate.detail}{reason}"})
