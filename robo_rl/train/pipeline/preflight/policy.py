"""Checks with a stand-in policy whether an algorithm accepts a policy, before data is made.

An algorithm's requirements (random steps, learnt noise, a fully trained chain) must not depend on
the observations. So the stand-in observes one number and no image, and has one action, which is
relative to that number where the policy's actions are relative. A policy whose steps divide the
chunk has an action of as many elements as steps.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from robo_rl.algo.base import Learner
from robo_rl.config.component import Component, component
from robo_rl.core.errors import ConfigError
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.data.normalize import Normalizer
from robo_rl.policy.base import DenoisingPolicy


def _act(size: int) -> ActSpec:
    return ActSpec(shape=(size,), low=(-1.0,) * size, high=(1.0,) * size, rate_hz=1.0)


def check_policy_fits(algo: Component[Learner], policy: Component[DenoisingPolicy]) -> None:
    """Check a policy against an algorithm.

    Args:
        algo: Algorithm with its settings.
        policy: Family and settings of the exploring policy.

    Raises:
        ConfigError: There is no such policy, or the algorithm does not accept it.
    """
    if (actor := _stand_in(policy)) is not None:
        algo.cls.check_policy(algo.cfg, actor)


def _stand_in(policy: Component[DenoisingPolicy]) -> DenoisingPolicy | None:
    """Build the policy with the stand-in specs; None if it needs other specs.

    Only wrong settings are an error. A family that does not build with one number, or needs a
    missing package, may still be right on the target machine.
    """
    try:
        relative_to = policy.cfg.relative_to
        obs = ObsSpec(items={relative_to or "x": TensorSpec(shape=(1,))})
        blind = {"sees": (), "encoder": component("encoders").make("state")}
        plain = replace(policy, cfg=policy.cfg.model_copy(update=blind))
        with torch.random.fork_rng(devices=[]):
            act = _act(policy.cfg.num_steps if policy.cls.depends_on_actions else 1)
            return plain.build(obs, act, Normalizer.identity(obs, act, relative_to))
    except ConfigError:
        raise
    except Exception:
        return None
