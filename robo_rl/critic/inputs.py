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
        SpecError: There is no such item, an item is an image or a text, or the env has no vectors.
    """
    found = obs_spec.select(sees or obs_spec.vector_names, "critic.sees")
    if (others := found.image_names + found.word_names) or not found.items:
        raise SpecError(
            "a critic reads vectors",
            where="critic.sees",
            expected="items such as joint positions and the poses of objects",
            found=", ".join(others) or "an env of images and texts alone",
            hint="PPO's critic can read the policy's embedding: algo.critic_reads=embedding;"
            " env.text_encoder=sentence makes a vector of an instruction",
        )
    return found


def unread_words(
    policy_spec: ObsSpec, sees: tuple[str, ...] = (), where: str = "critic.sees"
) -> SpecError | None:
    """Return the doubt that a critic knows the goal: the policy reads a text, the critic none.

    Values of such a critic are means over the instructions, unless a vector tells the goal.

    Args:
        policy_spec: What the policy reads of one step.
        sees: The critic's setting; names chosen by the user raise no doubt.
        where: Key of the setting, for the message.
    """
    if sees or not policy_spec.word_names:
        return None
    return SpecError(
        "the policy reads a text, and a critic of all vectors does not",
        where=where,
        expected="names of vectors that tell the goal",
        found=f"none, beside {', '.join(policy_spec.word_names)}",
        hint="name the vectors, the goal's among them, or set env.text_encoder=sentence",
    )
