"""Stage ``explore``: the newest policy, its weights as they are, under another exploring sampler.

So that several ways of exploring can start from one cloned policy.
"""

from __future__ import annotations

from typing import Annotated, Any, cast

from pydantic import Field
from torch import nn

from robo_rl.config import ConfigModel
from robo_rl.errors import ConfigError
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.registry import Component, component
from robo_rl.seeding import initialising
from robo_rl.train.policies import load_policy, save_policy
from robo_rl.train.stage import Context, Report


class Explore:
    """Changes how a policy explores, and how much of its chain is trained.

    Args:
        cfg: See Config.
    """

    class Config(ConfigModel):
        """The sampler and the number of steps that RL trains; what is not given stays."""

        sampler: Annotated[Component, component("samplers")] | None = None
        finetune_steps: int | None = Field(default=None, ge=0)

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

    def run(self, context: Context) -> Report:
        """Rebuild the policy around its network.

        Raises:
            ConfigError: The sampler reads what this family's network does not say.
        """
        policy = load_policy(context.artifact("policy"))
        with initialising("explore", context.seed):
            changed = self._rebuilt(policy)
        cast(nn.Module, changed.net).load_state_dict(policy.net.state_dict())
        path = save_policy(context.directory / "policy", changed)
        return Report("explore", artifacts={"policy": path.name})

    def _rebuilt(self, policy: DenoisingPolicy) -> DenoisingPolicy:
        changes = self.cfg.model_dump(mode="json", exclude_none=True)
        fields: dict[str, Any] = policy.cfg.model_dump(mode="json") | changes
        try:
            family = component("policies").make({"name": policy.family, **fields})
        except ValueError as error:
            raise ConfigError(f"the cloned policy cannot explore so: {error}") from error
        return family.build(policy.obs_spec, policy.act_spec, policy.normalizer)
