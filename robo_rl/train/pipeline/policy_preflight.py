"""Whether an algorithm takes a policy, asked of a stand-in before any data is made.

What an algorithm demands of a policy (steps that are random, noise that is learnt, a chain that is
trained whole) is not to depend on what is observed, so one of a world of one number will do.
"""

from __future__ import annotations

import torch

from robo_rl.algo.base import Learner
from robo_rl.config.registry import Component
from robo_rl.core.errors import ConfigError
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.data.normalize import Normalizer
from robo_rl.policy.base import DenoisingPolicy

_OBS = ObsSpec(items={"x": TensorSpec(shape=(1,))})
_ACT = ActSpec(shape=(1,), low=(-1.0,), high=(1.0,), rate_hz=1.0)


def check_policy_fits(algo: Component[Learner], policy: Component[DenoisingPolicy]) -> None:
    """Ask an algorithm.

    Args:
        algo: With its settings.
        policy: The exploring one's family and settings.

    Raises:
        ConfigError: There is no such policy, or the algorithm does not take it.
    """
    if (actor := _stand_in(policy)) is not None:
        algo.cls.check_policy(algo.cfg, actor)


def _stand_in(policy: Component[DenoisingPolicy]) -> DenoisingPolicy | None:
    """The policy as it would be in that world; None of one that wants more of a world.

    Only what is wrong with its settings is an error: a family that cannot be built of one number,
    or not without what is not installed here, may well be right where it is to run.
    """
    try:
        with torch.random.fork_rng(devices=[]):
            return policy.build(_OBS, _ACT, Normalizer.identity(_OBS, _ACT))
    except ConfigError:
        raise
    except Exception:
        return None
