"""Stage ``variants``: evaluates the newest policy in other worlds than that of its training.

A variant changes settings of the task and the env, such as held-out instructions, other lights, or
more friction. The numbers are evidence; no gate depends on them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from pydantic import Field

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import ConfigError
from robo_rl.core.suggestions import is_array_name
from robo_rl.train.checkpoint.policies import load_policy
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.stage import Context, Report, Stage
from robo_rl.train.pipeline.world_specs import check_policy_in_world


class EvaluateVariants(Stage):
    """Evaluates under the experiment's protocol, once in each variant of its world.

    Args:
        cfg: See ``Config``.
    """

    class Config(ConfigModel):
        """The variants, and their number of episodes."""

        of: dict[str, dict[str, Any]] = Field(min_length=1)
        """Name of a variant → ``task`` and ``env`` → settings that differ."""
        episodes: int = Field(default=0, ge=0)
        """Episodes of each variant; 0 for those of ``eval``."""

    needs: ClassVar = ("policy",)
    makes: ClassVar = ()

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

    @classmethod
    def check_experiment(cls, cfg: Config, experiment: Experiment) -> None:
        """Check that every variant is a world.

        Raises:
            ConfigError: A setting is unknown, or a name is none.
        """
        for name, changes in cfg.of.items():
            if not is_array_name(name):
                expected = "a name of letters, digits, _ and -"
                raise ConfigError("variant", expected=expected, found=repr(name))
            try:
                experiment.with_world(changes)
            except ConfigError as error:
                raise ConfigError(f"variant '{name}': {error}") from error

    @classmethod
    def other_worlds(cls, cfg: Config, experiment: Experiment) -> dict[str, Experiment]:
        """See ``Stage``: the worlds of the variants."""
        return {name: experiment.with_world(changes) for name, changes in cfg.of.items()}

    def run(self, context: Context) -> Report:
        """Evaluate in every variant."""
        return self.evaluate(context, Report("variants"))

    def evaluate(self, context: Context, report: Report) -> Report:
        """See ``Reevaluable``."""
        policy = load_policy(context.artifact("policy"), context.device)
        episodes = self.cfg.episodes or context.experiment.eval.episodes
        protocol = context.experiment.eval.model_copy(update={"episodes": episodes})
        worlds = self.other_worlds(self.cfg, context.experiment)
        for name, experiment in worlds.items():
            hint = f"leave out of variant '{name}' what changes actions or observations"
            where = context.artifact("policy")
            check_policy_in_world(where, policy.obs_spec, policy.act_spec, experiment, hint)
        for name, experiment in worlds.items():
            found = replace(context, experiment=experiment).evaluate(policy, name, protocol)
            report.update_numbers(found.report_numbers(f"{name}/{{}}"))
        return report
