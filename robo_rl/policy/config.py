"""Settings that all policy families share."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from robo_rl.config.component import Component, component, default
from robo_rl.config.models import ConfigModel
from robo_rl.nets.base import ChunkNet
from robo_rl.nets.encoders.base import ObsEncoder
from robo_rl.policy.chain import Sampler
from robo_rl.policy.correlation import Correlation


class PolicyConfig(ConfigModel):
    """Sizes of the chunk and the chain, network, exploring sampler, and noise correlation.

    ``finetune_steps`` is DPPO's K': RL trains only the last K' steps. Earlier steps keep the
    weights of behaviour cloning. The value 0 trains all steps.
    """

    obs_horizon: int = Field(default=1, ge=1)
    """Control steps of the observation history; the latest is last."""
    horizon: int = Field(default=8, ge=1)
    """Actions of a chunk."""
    exec_horizon: int = Field(default=8, ge=1)
    """Actions of a chunk that are executed before the next query."""
    num_steps: int = Field(default=4, ge=1)
    """Denoising steps K of a chain."""
    finetune_steps: int = Field(default=0, ge=0)
    """Denoising steps that RL trains, counted from the last; 0 is all."""
    sees: tuple[str, ...] = ()
    """Items of the observation that the policy reads; empty for all."""
    encoder: Annotated[Component[ObsEncoder], component("encoders")] = default("state")
    """Encoder of the observation; ``state`` reads vectors, the others images too."""
    net: Annotated[Component[ChunkNet], component("nets")] = default("mlp")
    """Network that denoises."""
    sampler: Annotated[Component[Sampler], component("samplers")]
    """Sampler of exploration."""
    correlation: Correlation = Correlation()
    """Correlation of a decision's noise with the previous decision's noise."""
    relative_to: str = ""
    """Observation that the network's actions are displacements from; empty for none."""
    expected_prediction: ClassVar[str]
    chain_settings: ClassVar[tuple[str, ...]] = ("horizon", "num_steps", "relative_to")
    """Fields that two policies share if x[k] means the same to both."""

    @property
    def eval_is_deterministic(self) -> bool:
        """Whether evaluation is a function of the observation and the initial noise."""
        return True

    @model_validator(mode="after")
    def _sampler_reads_what_the_network_says(self) -> Self:
        if self.sampler.cls.expected_prediction != self.expected_prediction:
            raise ValueError(
                f"sampler '{self.sampler.name}' expects {self.sampler.cls.expected_prediction},"
                f" this family's network says {self.expected_prediction}"
            )
        return self

    @model_validator(mode="after")
    def _sizes_agree(self) -> Self:
        if self.exec_horizon > self.horizon:
            raise ValueError(f"exec_horizon {self.exec_horizon} is beyond horizon {self.horizon}")
        if self.finetune_steps > self.num_steps:
            found = f"finetune_steps {self.finetune_steps}, num_steps {self.num_steps}"
            raise ValueError(f"more steps to fine-tune than there are: {found}")
        return self
