"""Parity of a graph with its policy: numeric, in closed loop, and in latency.

Shapes: N observations, B rows, To observation history, H horizon, A act_dim.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from robo_rl.bundle.manifest import ClosedLoopParity, QueryLatency
from robo_rl.bundle.session import PlannedActions, PolicySession
from robo_rl.bundle.split_session import SplitSession
from robo_rl.data.normalize import Normalizer
from robo_rl.export.action_gap import ActGap, widest_gap
from robo_rl.nets.encoders.feature_cache import FeatureCache
from robo_rl.stats.intervals import wilson
from robo_rl.stats.paired_tests import newcombe_interval
from robo_rl.stats.power import episodes_for_difference

MIN_ROWS = 1000
_BATCH_ROWS = 256
_WARM_UP_CALLS = 20


def numeric_parity(
    policy: Any,
    session: PolicySession | SplitSession,
    obs: Mapping[str, Tensor],
    generator: torch.Generator,
) -> ActGap:
    """Compare evaluation actions of policy and graph, from the same observations and noise.

    Where the policy finds both equally good, they count as equal; see ``settle_ties``.

    Args:
        policy: The exported policy; its ``act`` is the evaluated function.
        session: Session of its graph.
        obs: Name → (N, To, …), observations of the dataset.
        generator: Draws the noise.

    Returns:
        The largest difference relative to the range. It is NaN, which does not pass, if either side
        returned NaN.
    """
    act = session_as_policy(session)

    def both(batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        state = generator.get_state()
        with torch.inference_mode():
            ours = policy.act(batch, generator)
        generator.set_state(state)
        theirs = act(batch, generator)
        return policy.settle_ties(batch, ours, theirs), theirs

    return _numeric(both, policy, session, obs)


@torch.no_grad()  # unlike inference mode, no_grad allows the inner derivatives
def inpaint_parity(
    policy: Any, session: PolicySession, obs: Mapping[str, Tensor], generator: torch.Generator
) -> ActGap:
    """Compare inpainted actions; the plans are the policy's actions from other noise.

    Args:
        policy: The exported policy.
        session: Session of its inpainting graph.
        obs: Name → (N, To, …), observations of the dataset.
        generator: Draws noise and weights.
    """

    def both(batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        rows = len(next(iter(batch.values())))
        shape = (rows, *session.contract.chunk_shape)
        noise, other = (torch.randn(shape, generator=generator) for _ in range(2))
        plan = policy.decode(batch, other), torch.rand(shape[:2], generator=generator)
        ours, theirs = paired_actions(policy, session, batch, noise, plan)
        return torch.from_numpy(ours), torch.from_numpy(theirs)

    return _numeric(both, policy, session, obs)


def _numeric(
    both: Callable[[dict[str, Tensor]], tuple[Tensor, Tensor]],
    policy: Any,
    session: PolicySession | SplitSession,
    obs: Mapping[str, Tensor],
) -> ActGap:
    """Return the widest gap over batches of obs (N, To, …)."""
    num, normalizer = len(next(iter(obs.values()))), policy.normalizer
    scale = normalizer.affine("act").scale.cpu() if isinstance(normalizer, Normalizer) else None
    pairs = (
        both({name: tensor[rows] for name, tensor in obs.items()})
        for rows in torch.arange(num).split(_BATCH_ROWS)
    )
    return widest_gap(pairs, session.contract.act, scale)


@torch.no_grad()
def paired_actions(
    policy: Any,
    session: PolicySession | SplitSession,
    obs: Mapping[str, Tensor],
    noise: Tensor,
    plan: tuple[Tensor, Tensor] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the actions of policy and graph for one batch, two (B, H, A).

    ``plan`` holds the planned actions (B, H, A) and their weight (B, H); None calls ``decode``.
    """
    device = next(policy.parameters()).device
    call = policy.decode if plan is None else policy.inpaint
    ours = call(
        {k: v.to(device) for k, v in obs.items()}, *(v.to(device) for v in (noise, *(plan or ())))
    )
    given = None if plan is None else PlannedActions(*(each.numpy() for each in plan))
    theirs = session.act({k: v.cpu().numpy() for k, v in obs.items()}, noise.numpy(), given)
    return ours.cpu().numpy(), theirs


def closed_loop_parity(
    successes: int, episodes: int, policy_successes: int, policy_episodes: int
) -> ClosedLoopParity:
    """Compare the graph's success rate with the 95 % Wilson interval of its policy.

    Args:
        successes: Successful episodes of the graph, of ``episodes``.
        episodes: Episodes of the graph.
        policy_successes: Successful episodes of the policy, of ``policy_episodes``.
        policy_episodes: Episodes of the policy.
    """
    low, high = wilson(policy_successes, policy_episodes)
    return ClosedLoopParity(
        success=successes / episodes,
        episodes=episodes,
        policy_success=policy_successes / policy_episodes,
        policy_episodes=policy_episodes,
        low=low,
        high=high,
    )


class ParityShortfall(NamedTuple):
    """Reason for missing parity; ``undecided`` says that more episodes may resolve it."""

    text: str
    undecided: bool


def closed_loop_shortfall(closed: ClosedLoopParity) -> ParityShortfall | None:
    """Return the shortfall of closed-loop parity; None if parity holds.

    Without one success on either side, the episodes show nothing.

    Outside the policy's interval, Newcombe's interval of the difference decides. If it excludes 0,
    the graph differs. If it contains 0, the episodes do not suffice, and the text names a
    sufficient number.
    """
    rates = closed.success, closed.policy_success
    if not any(rates):
        of = f"{closed.episodes} episodes of the graph and {closed.policy_episodes} of the policy"
        return ParityShortfall(
            f"closed loop: none of {of} succeeded; train further, or compare returns"
            " (eval.measure=return)",
            undecided=True,
        )
    if closed.passed:
        return None
    low, high = newcombe_interval(
        rates[0] * closed.episodes,
        closed.episodes,
        rates[1] * closed.policy_episodes,
        closed.policy_episodes,
    )
    seen = (
        f"closed loop: success {closed.success:.1%} of {closed.episodes} episodes,"
        f" outside the policy's interval [{closed.low:.1%}, {closed.high:.1%}]"
    )
    if low > 0.0 or high < 0.0:
        return ParityShortfall(seen, undecided=False)
    needed = episodes_for_difference(*rates)
    more = f", about {needed:,} episodes would tell (eval.episodes={needed})" if needed else ""
    return ParityShortfall(f"{seen}, but these show no difference{more}", undecided=True)


def session_as_policy(
    session: PolicySession | SplitSession,
) -> Callable[[dict[str, Tensor], torch.Generator], Tensor]:
    """Return the graph as a function like ``policy.act``: a generator draws the same noise."""

    def act(obs: dict[str, Tensor], generator: torch.Generator) -> Tensor:
        rows = len(next(iter(obs.values())))
        shape = (rows, *session.contract.chunk_shape)
        noise = torch.randn(shape, generator=generator, device=generator.device)
        read = {name: obs[name].cpu().numpy() for name in session.contract.obs.items}
        chunk = session.act(read, noise.cpu().numpy())
        return torch.from_numpy(chunk)

    return act


def session_latency(
    session: PolicySession, obs: Mapping[str, Tensor], *, calls: int = 1000
) -> QueryLatency:
    """Return the graph's latency on the first row of obs (N, To, …), with input checks."""
    row = {name: tensor[:1].cpu().numpy() for name, tensor in obs.items()}
    noise = np.zeros((1, *session.contract.chunk_shape), np.float32)
    return latency(lambda: session.act(row, noise), calls=calls)


class SplitLatency(NamedTuple):
    """Latency of each of the two graphs of a policy."""

    prefix: QueryLatency
    expert: QueryLatency


def split_latency(
    session: SplitSession, obs: Mapping[str, Tensor], *, calls: int = 1000
) -> SplitLatency:
    """Return the latency of both graphs on the first row of obs (N, To, …)."""
    row = {name: tensor[:1].cpu().numpy() for name, tensor in obs.items()}
    noise = np.zeros((1, *session.contract.chunk_shape), np.float32)
    given = {**row, **session.encode(row)}
    return SplitLatency(
        latency(lambda: session.encode(row), calls=calls),
        latency(lambda: session.act_on(given, noise), calls=calls),
    )


def policy_latency(policy: Any, obs: Mapping[str, Tensor], *, calls: int = 1000) -> QueryLatency:
    """Return the latency of the policy on the first row, in eager torch on its own device.

    Features of images are computed at every call, as for the new images of a robot.
    """
    policy = copy.deepcopy(policy)
    for module in policy.modules():
        if isinstance(getattr(module, "cache", None), FeatureCache):
            module.cache = FeatureCache(0)
    device = next(policy.parameters()).device
    row = {name: tensor[:1].to(device) for name, tensor in obs.items()}
    noise = torch.zeros(1, policy.horizon, policy.act_spec.shape[-1], device=device)
    with torch.inference_mode():
        return latency(lambda: policy.decode(row, noise).cpu(), calls=calls)


def latency(query: Callable[[], Any], *, calls: int) -> QueryLatency:
    """Time ``query`` on one thread after a warm-up.

    Args:
        query: One query of batch 1.
        calls: Number of timed queries.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for _ in range(_WARM_UP_CALLS):
            query()
        spent_ns = np.array([_timed_ns(query) for _ in range(calls)])
    finally:
        torch.set_num_threads(threads)
    p50, p99 = np.percentile(spent_ns, [50, 99]) / 1e3
    return QueryLatency(p50_us=float(p50), p99_us=float(p99), calls=calls)


def _timed_ns(query: Callable[[], Any]) -> int:
    start = time.perf_counter_ns()
    query()
    return time.perf_counter_ns() - start
