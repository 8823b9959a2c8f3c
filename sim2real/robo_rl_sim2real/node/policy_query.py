"""The policy of a bundle as the query of a control loop, after its first slow inferences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from robo_rl.bundle.bundle import Bundle
from robo_rl.bundle.manifest import Contract
from robo_rl.bundle.split_session import SplitSession
from robo_rl_sim2real.control.inference import Query
from robo_rl_sim2real.control.prefix import PrefixConfig, PrefixedPolicy
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


def open_prefixed(
    bundle: Bundle, cfg: PrefixConfig, seed: int, now_s: Callable[[], float]
) -> PrefixedPolicy:
    """Return the bundle's policy in two graphs, after warm-up queries.

    Raises:
        BundleError: The bundle has one graph alone.
    """
    noise = np.random.default_rng(seed)
    return PrefixedPolicy(_warm_split(bundle), cfg, noise, now_s)


def expert_query(bundle: Bundle, seed: int) -> Query:
    """Return the expert with the prefix of an observation of zeros, to time it.

    Raises:
        BundleError: The bundle has one graph alone.
    """
    session, noise = _warm_split(bundle), np.random.default_rng(seed)
    contract = bundle.manifest.contract
    prefix = session.encode(zero_observation(contract))
    shape = (1, *contract.chunk_shape)
    return lambda obs, _: session.act_on(prefix, obs, noise.standard_normal(shape, np.float32))


def zero_observation(contract: Contract) -> dict[str, Values]:
    """Return an observation of zeros: name → (1, To, …)."""
    return {
        name: np.zeros((1, contract.obs_horizon, *spec.shape), spec.dtype)
        for name, spec in contract.obs.items.items()
    }


def _warm_split(bundle: Bundle) -> SplitSession:
    session, noise = bundle.split_session(), np.random.default_rng(0)
    zeros = zero_observation(bundle.manifest.contract)
    for _ in range(_WARM_UP):
        session.act(zeros, noise)
    return session
