"""Conformance suite for ``DenoisingPolicy``, for use by PPO, evaluation, checkpoints and export.

Shapes: B rows, To observations of history, K denoising steps, H horizon, A act_dim. A plugin's test
calls it::

    def test_my_policy_conforms():
        check_policy(make_my_policy, "my_policy")
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from robo_rl.config.registry import load
from robo_rl.core.spec import TensorSpec
from robo_rl.policy.archive import policy_from_meta, policy_meta
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.chain import Chain, Kernel, Prediction
from robo_rl.policy.kernels.gaussian import GaussianKernel
from robo_rl.testing.backend import require
from robo_rl.testing.env import random_act

MakePolicy = Callable[[], DenoisingPolicy]
Obs = dict[str, Tensor]

_ROWS = 24
_FIT_STEPS = 50
# In float32 a ratio differs from 1 by rounding; real errors are orders of magnitude larger.
_RATIO_ERROR = 1e-3


def check_policy(make_policy: MakePolicy, name: str) -> None:
    """Check the properties of every policy.

    Args:
        make_policy: Returns a new policy with weights of its own, in float32; small networks
            suffice.
        name: Name of its family under ``robo_rl.policies``, as configs write it; any of several.

    Raises:
        PluginError: Names the violated property, or the family is not registered.
        CheckpointError: The policy cannot be rebuilt from its saved state.
    """
    for check in (_check_sample, _check_replay, _check_one_step, _check_seeds, _check_decode):
        _without_gradient(check, make_policy())
    _check_act(make_policy())
    _check_fit(make_policy())
    _check_gradient(make_policy())
    for anchored in (False, True):
        _check_archive(make_policy(), name, anchored=anchored)


@torch.no_grad()
def _without_gradient(check: Callable[[DenoisingPolicy], None], policy: DenoisingPolicy) -> None:
    check(policy)


def _check_sample(policy: DenoisingPolicy) -> None:
    chain = policy.sample(_obs(policy), _generator())
    chunk, steps = _chunk(policy), policy.num_steps
    _check_tensor("sample().x", chain.x, (_ROWS, steps + 1, *chunk))
    _check_tensor("sample().log_prob", chain.log_prob, (_ROWS, steps, *chunk))
    trained = policy.trainable_steps
    require(bool(trained.any()), "no step of the chain can be trained: trainable_steps is empty")
    fits = trained.shape == (steps,) and trained.dtype == torch.bool
    require(fits, "trainable_steps must be (K,) bool", expected=(steps,), found=trained)
    require(chain.k_star is None, "sample() has a k_star without one_step")
    _check_tensor("to_env()", policy.to_env(_obs(policy), chain.act), (_ROWS, *chunk))


def _check_replay(policy: DenoisingPolicy) -> None:
    """Check that log-probs of a chain's rows, in any order, equal those at sampling."""
    obs = _obs(policy)
    chain = policy.sample(obs, _generator())
    steps = policy.trainable_steps.nonzero().flatten()
    row = torch.arange(_ROWS).repeat_interleave(len(steps))
    k = steps.repeat(_ROWS)
    order = torch.randperm(len(row), generator=_generator())
    _compare_scores(policy, obs, chain, row[order], k[order])


def _check_one_step(policy: DenoisingPolicy) -> None:
    """Check hybrid chains: stochastic at k_star alone, with the same log-prob at replay."""
    obs = _obs(policy)
    chain = policy.sample(obs, _generator(), single_step=True)
    k_star = chain.k_star
    fits = k_star is not None and bool(policy.trainable_steps[k_star].all())
    require(fits, "one_step: k_star is not a trainable step of each row", found=k_star)
    others = torch.ones(_ROWS, policy.num_steps, dtype=torch.bool)
    others[torch.arange(_ROWS), cast(Tensor, k_star)] = False
    silent = bool((chain.log_prob[others] == 0).all())
    require(silent, "one_step: steps other than k_star have a log-probability")
    _compare_scores(policy, obs, chain, torch.arange(_ROWS), cast(Tensor, k_star))


def _compare_scores(
    policy: DenoisingPolicy, obs: Obs, chain: Chain, row: Tensor, k: Tensor
) -> None:
    x, x_next = chain.x[row, k], chain.x[row, k + 1]
    again = policy.kernel(policy.encode(_pick(obs, row)), k, x).log_prob(x_next)
    _check_tensor("kernel().log_prob()", again, (len(row), *_chunk(policy)))
    said = policy.log_prob(_pick(obs, row), k, x, x_next)
    _check_tensor("log_prob()", said, (len(row), *_chunk(policy)))
    require(torch.allclose(said, again), "log_prob() is not that of kernel()")
    error = float((again - chain.log_prob[row, k]).sum(dim=(1, 2)).expm1().abs().max())
    problem = "the ratio of a fresh chain is not 1: kernel() is not that of sample()"
    require(error <= _RATIO_ERROR, problem, expected=f"1 ± {_RATIO_ERROR}", found=f"1 ± {error:g}")


def _check_seeds(policy: DenoisingPolicy) -> None:
    """Check that draws depend only on the generator argument."""
    obs = _obs(policy)
    first, again = (policy.sample(obs, _generator(1)).x for _ in range(2))
    require(torch.equal(first, again), "sample: the same generator gives another chain")
    other = policy.sample(obs, _generator(2)).x
    require(not torch.equal(first, other), "sample: another generator gives the same chain")
    first, again = (policy.act(obs, _generator(1)) for _ in range(2))
    require(torch.equal(first, again), "act: the same generator gives another action")


def _check_decode(policy: DenoisingPolicy) -> None:
    """Check that decode is deterministic, row-wise, and independent of the exploring sampler."""
    obs, noise = _obs(policy), _noise(policy)
    act = policy.decode(obs, noise)
    _check_tensor("decode()", act, (_ROWS, *_chunk(policy)))
    require(torch.equal(act, policy.decode(obs, noise)), "decode is not deterministic")
    for rows in (1, 3):
        part = policy.decode(_pick(obs, torch.arange(rows)), noise[:rows])
        same = part.shape == act[:rows].shape and torch.allclose(part, act[:rows], atol=1e-4)
        require(same, f"decode: a row differs in a batch of {rows}")
    explorer, policy.sampler = policy.sampler, _Forbidden(policy.sampler)
    quiet = policy.decode(obs, noise)
    policy.sampler = explorer
    require(torch.equal(act, quiet), "decode depends on the exploring sampler")


@torch.no_grad()
def _check_act(policy: DenoisingPolicy) -> None:
    obs = _obs(policy)
    if not policy.eval_is_deterministic:
        return
    start = policy.eval_sampler.start((_ROWS, *_chunk(policy)), _generator(1))
    same = torch.equal(policy.act(obs, _generator(1)), policy.decode(obs, start))
    require(same, "act is not decode of the start noise that the generator gives")


def _check_fit(policy: DenoisingPolicy) -> None:
    """Check that fifty optimiser steps on one batch reduce its loss."""
    obs, act = _obs(policy), random_act(policy.act_spec, _ROWS, policy.horizon, _generator(3))
    loss = policy.loss(obs, act, _generator())
    _check_tensor("loss()", loss, (_ROWS,))
    before = _mean_loss(policy, obs, act)
    optim = torch.optim.Adam(policy.parameters(), lr=1e-3)
    generator = _generator(5)
    for _ in range(_FIT_STEPS):
        optim.zero_grad()
        policy.loss(obs, act, generator).mean().backward()
        optim.step()
    after = _mean_loss(policy, obs, act)
    require(after < before, "the loss of one batch does not fall", expected=before, found=after)


@torch.no_grad()
def _mean_loss(policy: DenoisingPolicy, obs: Obs, act: Tensor) -> float:
    generator = _generator(4)
    return sum(float(policy.loss(obs, act, generator).mean()) for _ in range(16)) / 16


def _check_gradient(policy: DenoisingPolicy) -> None:
    """Check that loss and log-prob give every weight a gradient, at non-zero weights and inputs."""
    generator = _generator(6)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator)
    obs, act = _obs(policy), random_act(policy.act_spec, _ROWS, policy.horizon, generator)
    total = policy.loss(obs, act, generator).sum()
    for step in policy.trainable_steps.nonzero().flatten().tolist():
        k = torch.full((_ROWS,), step)
        total = total + policy.log_prob(obs, k, _noise(policy), _noise(policy).flip(0)).sum()
    total.backward()
    dead = [
        name
        for name, parameter in policy.named_parameters()
        if parameter.requires_grad and (parameter.grad is None or not bool(parameter.grad.any()))
    ]
    require(not dead, "no gradient reaches a trainable parameter", found=", ".join(dead))


@torch.no_grad()
def _check_archive(policy: DenoisingPolicy, name: str, *, anchored: bool) -> None:
    """Check that a policy rebuilt from JSON and tensors acts and explores bit-identically."""
    registered, cls = load("policies", name), type(policy)
    problem = f"another class is registered as '{name}'"
    require(registered is cls, problem, expected=cls, found=registered)
    if anchored:
        policy.freeze_reference()
    meta = json.loads(json.dumps(policy_meta(policy)))
    tensors = {key: value.clone() for key, value in policy.state_dict().items()}
    again, obs, noise = policy_from_meta(meta, tensors), _obs(policy), _noise(policy)
    same = all(torch.equal(value, tensors[key]) for key, value in again.state_dict().items())
    require(same, "a rebuilt policy has other weights")
    same = torch.equal(policy.decode(obs, noise), again.decode(obs, noise))
    require(same, "a rebuilt policy acts differently")
    chains = [each.sample(obs, _generator(1)).x for each in (policy, again)]
    require(torch.equal(*chains), "a rebuilt policy explores differently")
    loaded = copy.deepcopy(policy)
    loaded.load_state_dict(tensors)
    require(
        torch.equal(policy.decode(obs, noise), loaded.decode(obs, noise)), "state_dict is lossy"
    )


class _Forbidden:
    """An exploring sampler that returns only NaN, to detect any use of it."""

    def __init__(self, like: Any) -> None:
        self.times = torch.full_like(like.times, torch.nan)
        self.stochastic, self.learns_noise = like.stochastic, like.learns_noise
        self.expected_prediction = like.expected_prediction

    def start(self, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        del generator
        return torch.full(shape, torch.nan)

    def kernel(self, k: Tensor, x: Tensor, prediction: Prediction) -> Kernel:
        del k, prediction
        return GaussianKernel(torch.full_like(x, torch.nan), torch.ones(1, 1, 1))


def _check_tensor(what: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    require(tuple(tensor.shape) == shape, f"{what} shape", expected=shape, found=tensor.shape)
    require(bool(tensor.isfinite().all()), f"{what} is not finite")


def _chunk(policy: DenoisingPolicy) -> tuple[int, int]:
    return policy.horizon, policy.act_spec.size


def _noise(policy: DenoisingPolicy) -> Tensor:
    return torch.randn(_ROWS, *_chunk(policy), generator=_generator(7))


def _obs(policy: DenoisingPolicy) -> Obs:
    generator = _generator(8)
    leading = (_ROWS, policy.obs_horizon)
    return {name: _random(spec, leading, generator) for name, spec in policy.obs_spec.items.items()}


def _random(spec: TensorSpec, leading: tuple[int, int], generator: torch.Generator) -> Tensor:
    shape, dtype = (*leading, *spec.shape), getattr(torch, spec.dtype)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(0, 256 if dtype == torch.uint8 else 2, shape, generator=generator).to(
        dtype
    )


def _pick(obs: Obs, rows: Tensor) -> Obs:
    return {name: value[rows] for name, value in obs.items()}


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
