"""The policy of a bundle as the query of a control loop, after its first slow inferences."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from robo_rl.bundle.bundle import Bundle
from robo_rl.bundle.manifest import Contract
from robo_rl.bundle.split_session import SplitSession
from robo_rl_sim2real.control.inference import Query
from robo_rl_sim2real.messages.readings import Values

_WARM_UP = 20
"""Queries before the first that counts."""


def warm_up_session(bundle: Bundle, seed: int, *, inpaint: bool = False) -> Query:
    """Return the bundle's policy after warm-up queries, because first inferences are slow.

    Raises:
        BundleError: Inpainting is required, and the policy does not support it.
    """
    session, noise = bundle.session(inpaint=inpaint), np.random.default_rng(seed)
    zeros = zero_observation(bundle.manifest.contract)
    for _ in range(_WARM_UP):
        session.act(zeros, noise)
    return lambda obs, plan: session.act(obs, noise, plan)


class SplitPolicy(NamedTuple):
    """A policy in two graphs: the session, and the query of its expert alone.

    The query reads the tensors of a prefix among the observations.
    """

    session: SplitSession
    expert: Query


def warm_up_split(bundle: Bundle, seed: int) -> SplitPolicy:
    """Return the bundle's policy in two graphs, after warm-up queries.

    Raises:
        BundleError: The bundle has one graph alone.
    """
    session, noise = bundle.split_session(), np.random.default_rng(seed)
    zeros = zero_observation(bundle.manifest.contract)
    for _ in range(_WARM_UP):
        session.act(zeros, noise)
    return SplitPolicy(session, lambda obs, _: session.act_on(obs, noise))


def zero_observation(contract: Contract) -> dict[str, Values]:
    """Return an observation of zeros: name → (1, To, …)."""
    return {
        name: np.zeros((1, contract.obs_horizon, *spec.shape), spec.dtype)
        for name, spec in contract.obs.items.items()
    }
