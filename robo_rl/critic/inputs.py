"""Which items of the env's observation a critic reads.

A critic exists in training alone. It may read what the policy does not see, such as the poses of
objects (asymmetric actor-critic; Pinto et al. 2017, arXiv 1710.06542).
"""

from __future__ import annotations

from robo_rl.core.errors import SpecError
from robo_rl.core.spec import ObsSpec


def critic_inputs(obs_spec: ObsSpec, sees: tuple[str, ...] = ()) -> ObsSpec:
    """Return the items that a critic reads: those of ``sees``, or all vectors.

    Args:
        obs_spec: Observation of one step of the env.
        sees: Names of items; empty for all vectors.

    Raises:
        SpecError: There is no such item, an item is an image, or the env has no vectors.
    """
    found = obs_spec.select(sees or obs_spec.vector_names, "critic.sees")
    if found.image_names or not found.items:
        raise SpecError(
            "a critic reads vectors",
            where="critic.sees",
            expected="items such as joint positions and the poses of objects",
            found=", ".join(found.image_names) or "an env of images alone",
            hint="PPO's critic can read the policy's embedding: algo.critic_reads=embedding",
        )
    return found
