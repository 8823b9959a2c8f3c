"""PPO updates from random decisions, for benchmarks that time them.

Observations and rewards are random, and no episode ends. The actor's learning rate is too small to
change any weight, so that one set of chains serves every repeat at the same cost. An update has as
many epochs of the critic as of the actor, without a KL stop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import torch
from torch import nn

from robo_rl.algo.ppo.ppo import Ppo
from robo_rl.algo.ppo.ratio_units import RatioMode
from robo_rl.config.component import component
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.data.normalize import Normalizer
from robo_rl.data.rollout import Rollout, RolloutBuilder, executed_mask
from robo_rl.optim.precision import Precision
from robo_rl.policy.base import DenoisingPolicy

STATE = {"state": TensorSpec(shape=(39,))}
IMAGE = {"eye_rgb": TensorSpec(shape=(3, 64, 64), dtype="uint8")}
ACT = ActSpec(shape=(8,), rate_hz=20.0, low=(-1.0,) * 8, high=(1.0,) * 8)
BLOCK = 8  # decisions of an env in a rollout


class UpdateSetting(NamedTuple):
    """A policy, the number of scored denoising steps, the rollout size, and the precision.

    An encoder other than ``state`` reads an image beside the state, unless ``reads`` names the
    items. ``graphs`` runs minibatches as CUDA graphs. ``algo`` are further settings of PPO.
    """

    ratio: str
    policy: str
    sampler: str
    num_steps: int
    scored_steps: int
    finetune_steps: int = 0
    chunk: int = 8
    num_envs: int = 512
    precision: str = "fp32"
    compiled: bool = False
    net: str | dict[str, Any] = "mlp"
    encoder: str | dict[str, Any] = "state"
    reads: ObsSpec | None = None
    algo: Mapping[str, Any] = MappingProxyType({})
    device: str = "cpu"
    graphs: bool = False

    @property
    def obs_spec(self) -> ObsSpec:
        """Return the observation of the policy."""
        if self.reads is not None:
            return self.reads
        return ObsSpec(items=STATE if self.encoder == "state" else {**STATE, **IMAGE})

    @property
    def decisions(self) -> int:
        """Return the number of decisions of a rollout."""
        return self.num_envs * BLOCK


class PreparedUpdate(NamedTuple):
    """One update, ready to run any number of times, what it learns from, and who learns."""

    run: Callable[[], object]
    rollout: Rollout
    ppo: Ppo


def timed(run: Callable[[], object]) -> float:
    """Return the wall time in s."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def prepared(setting: UpdateSetting, minibatch: int, epochs: int = 1) -> PreparedUpdate:
    """Return an update with minibatches of so many decisions, and epochs of both networks."""
    policy = make_policy(setting)
    generator = torch.Generator(setting.device).manual_seed(0)
    rollout = make_rollout(policy, setting, generator)
    units = setting.scored_steps if setting.ratio == "per_step" else 1
    cfg = Ppo.Config(
        ratio=RatioMode(setting.ratio),
        epochs=epochs,
        critic_epochs=epochs,
        precision=Precision(setting.precision),
        warmup_updates=0,
        minibatch=minibatch * units,
        target_kl=1e6,
        cuda_graphs=setting.graphs,
        **dict.fromkeys(("lr", "lr_min", "lr_max"), 1e-12),
        **setting.algo,
    )
    ppo = Ppo(cfg, policy, setting.num_envs, generator)
    return PreparedUpdate(lambda: ppo.update(rollout), rollout, ppo)


def make_policy(setting: UpdateSetting) -> DenoisingPolicy:
    """Return a policy of the setting's family with random weights."""
    torch.manual_seed(0)
    settings: dict[str, Any] = {
        "name": setting.policy,
        "sampler": setting.sampler,
        "num_steps": setting.num_steps,
        "finetune_steps": setting.finetune_steps,
        "horizon": setting.chunk,
        "exec_horizon": setting.chunk,
        "net": setting.net,
        "encoder": setting.encoder,
    }
    spec = setting.obs_spec
    policy = component("policies").make(settings).build(spec, ACT, Normalizer.identity(spec, ACT))
    policy = policy.to(setting.device)
    if setting.finetune_steps:
        policy.freeze_reference()
    if setting.compiled:
        cast(nn.Module, policy.net).compile()
    return policy


@torch.no_grad()
def make_rollout(
    policy: DenoisingPolicy, setting: UpdateSetting, generator: torch.Generator
) -> Rollout:
    """Return a rollout with chains of the policy on random observations."""
    num_envs = setting.num_envs
    builder = RolloutBuilder()
    num_exec = torch.full((num_envs,), setting.chunk, device=setting.device)
    no, obs = torch.zeros_like(num_exec, dtype=torch.bool), observation(setting, generator)
    for _ in range(BLOCK):
        chain = policy.sample(obs, generator, single_step=setting.ratio == "single_step")
        mask = executed_mask(num_exec, setting.chunk)[:, None]
        columns = {
            "x": chain.x,
            "log_prob": (chain.log_prob * mask).sum(dim=(2, 3)),
            "rew": torch.rand(num_envs, generator=generator, device=setting.device),
            "terminated": no,
            "truncated": no,
            "valid": ~no,
            "discount": torch.full((num_envs,), 0.99, device=setting.device),
            "num_exec": num_exec,
        }
        if chain.k_star is not None:
            columns["k_star"] = chain.k_star
        successor = observation(setting, generator)
        builder.add(obs, successor, columns)
        obs = successor
    return builder.finish(obs)


def observation(setting: UpdateSetting, generator: torch.Generator) -> dict[str, torch.Tensor]:
    on: dict[str, Any] = {"generator": generator, "device": generator.device}
    found = dict[str, torch.Tensor]()
    for name, spec in setting.obs_spec.items.items():
        shape = setting.num_envs, 1, *spec.shape
        if spec.dtype == "float32":
            found[name] = torch.randn(shape, **on)
        else:  # images, and ids of a text, of which −1 would be padding
            found[name] = torch.randint(0, 256, shape, dtype=getattr(torch, spec.dtype), **on)
    return found
