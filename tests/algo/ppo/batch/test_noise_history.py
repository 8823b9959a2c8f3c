"""Correlated noise in a block: what it followed is found again, and its score is exact."""

from __future__ import annotations

import pytest
import torch
from small_policies import make_obs, make_policy

from robo_rl.algo.encoded_obs import EncodedObs
from robo_rl.algo.ppo.batch.actor_batch import ActorBatch, unit_kernel, unit_log_prob
from robo_rl.algo.ppo.batch.noise_history import NoiseHistory
from robo_rl.algo.ppo.ppo import Ppo
from robo_rl.algo.ppo.ratio_units import RatioMode, Units, make_units
from robo_rl.data.rollout import Rollout, RolloutBuilder, executed_mask
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.correlation import zero_previous_noise
from robo_rl.policy.kernels.gaussian import GaussianKernel

STEPS, ENVS, BETA = 6, 8, 0.8
MODES = [mode for mode in RatioMode if mode is not RatioMode.CFM]
FIELDS = {"correlation": {"start": 0.3, "noise": BETA}}
CASES = [
    ("gaussian", {}),
    ("ddim", {}),
    ("flow_sde", {}),
    ("flow_noise", {"finetune_steps": 2}),
    ("flow_noise", {"sampler": {"name": "flow_noise", "chunk_correlation": 1.0}}),
]


@torch.no_grad()
def block(policy: DenoisingPolicy, seed: int = 0, *, one_step: bool = False) -> Rollout:
    """A block that begins within episodes, with ends and lost worlds on the way."""
    generator = torch.Generator().manual_seed(seed)
    past = zero_previous_noise(ENVS, policy.num_steps, policy.horizon, policy.act_spec.size)
    dtype = policy.normalizer.dtype
    obs = [{n: o.to(dtype) for n, o in make_obs(ENVS, seed + t).items()} for t in range(STEPS + 2)]
    past = policy.sample(obs[0], generator, single_step=one_step, past=past).as_previous(
        torch.arange(ENVS) > 1
    )
    builder, carried = RolloutBuilder(), past.noise
    for t in range(STEPS):
        draw = torch.rand(2, ENVS, generator=generator)
        truncated, valid = draw[0] < 0.3, draw[1] > 0.1
        truncated = truncated | ~valid
        num_exec = torch.where(valid, 1 + (draw[0] > 0.6).long(), 0)
        chain = policy.sample(obs[t + 1], generator, single_step=one_step, past=past)
        mask = executed_mask(num_exec, policy.horizon)[:, None]
        columns = {
            "x": chain.x,
            "log_prob": (chain.log_prob * mask).sum(dim=(2, 3)),
            "rew": draw[0].to(dtype),
            "terminated": torch.zeros_like(truncated),
            "truncated": truncated,
            "valid": valid,
            "discount": 0.99**num_exec,
            "num_exec": num_exec,
            "follows": past.continues,
        }
        columns |= {} if chain.k_star is None else {"k_star": chain.k_star}
        builder.add(obs[t + 1], obs[t + 2], columns)
        past = chain.as_previous(~truncated)
    return builder.finish(obs[-1], carried)


def units_of(policy: DenoisingPolicy, rollout: Rollout, mode: RatioMode) -> Units:
    k_star = None if rollout.k_star is None else rollout.rows(rollout.k_star)
    steps = policy.trainable_steps.nonzero().flatten()
    units = make_units(mode, int(rollout.valid.sum()), steps, k_star)
    return units.select(torch.randperm(len(units.row), generator=torch.Generator().manual_seed(0)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("sampler", "fields"), CASES)
def test_replayed_log_prob_is_the_rollouts(sampler, fields, mode):
    policy = make_policy(sampler, 4, **FIELDS, **fields)
    if policy.cfg.finetune_steps:
        policy.freeze_reference()
    rollout = block(policy, one_step=mode is RatioMode.SINGLE_STEP)
    data = ActorBatch.of(rollout, rollout.rew)
    data = data.replayed(policy) if mode is RatioMode.NOISE_CONDITIONED else data
    units = units_of(policy, rollout, mode)
    again = unit_log_prob(unit_kernel(policy, data, units), data, units)
    want = data.log_prob[units.row[:, None], units.k]
    torch.testing.assert_close(again, want, rtol=0, atol=1e-10)
    assert data.noise_history is not None
    plain = data._replace(noise_history=None)
    independent = unit_log_prob(unit_kernel(policy, plain, units), plain, units)
    assert float((independent - want).detach().abs().max()) > 0.1


def test_the_score_of_an_episode_is_that_of_its_joint_law_gradients_included():
    """K = 1: x_1 … x_T of an episode are jointly normal, with mean μ_θ(o_t) and σ_s·σ_t·β^|s−t|."""
    policy = make_policy("gaussian", 1, **FIELDS)
    rollout = block(policy)
    rollout.num_exec[:] = policy.horizon
    rollout.valid[:] = True
    assert rollout.initial_noise is not None
    rollout.initial_noise[:] = 0.0  # so that each first decision is new, or follows noise 0
    data, units = ActorBatch.of(rollout, rollout.rew), units_of(policy, rollout, RatioMode.JOINT)
    ours = unit_log_prob(unit_kernel(policy, data, units), data, units).sum()
    theirs = joint_log_prob(policy, rollout)
    assert float(ours.detach()) == pytest.approx(float(theirs.detach()))
    parameters = [p for p in policy.parameters() if p.requires_grad]
    for one, other in zip(
        torch.autograd.grad(ours, parameters, allow_unused=True),
        torch.autograd.grad(theirs, parameters, allow_unused=True),
        strict=True,
    ):
        assert (one is None) is (other is None)
        if one is not None and other is not None:
            torch.testing.assert_close(one, other)


def joint_log_prob(policy: DenoisingPolicy, rollout: Rollout) -> torch.Tensor:
    """Log-density of all of a block's actions, episode by episode, by its covariance matrix."""
    assert rollout.noise_continues is not None
    total = torch.zeros((), dtype=torch.float64)
    for env in range(ENVS):
        obs = {name: tensor[:, env] for name, tensor in rollout.obs.items()}
        zeros = torch.zeros(STEPS, dtype=torch.int64)
        law = policy.kernel(policy.encode(obs), zeros, rollout.x[:, env, 0])
        assert isinstance(law, GaussianKernel)
        episode = (~rollout.noise_continues[:, env]).cumsum(0)
        t = torch.arange(STEPS).double()
        corr = torch.where(episode[:, None] == episode, BETA ** (t[:, None] - t).abs(), 0.0)
        if rollout.noise_continues[0, env]:  # it is known that the noise before was 0
            known = BETA ** (t + 1.0) * (episode == 0)
            corr = corr - known[:, None] * known
        std = law.std.expand_as(law.mean)
        for h in range(policy.horizon):
            for a in range(policy.act_spec.size):
                cov = corr * std[:, h, a] * std[:, h, a][:, None]
                joint = torch.distributions.MultivariateNormal(law.mean[:, h, a], cov)
                total = total + joint.log_prob(rollout.x[:, env, 1, h, a])
    return total


@pytest.mark.parametrize("mode", MODES)
def test_fresh_ratios_are_one(mode, generator):
    policy = make_policy("flow_noise", 4, **FIELDS).float()
    rollout = block(policy, one_step=mode is RatioMode.SINGLE_STEP)
    ppo = Ppo(Ppo.Config(ratio=mode, warmup_updates=0), policy, ENVS, generator)
    assert ppo.update(rollout)["ratio_error"] < 1e-3


def test_uncorrelated_blocks_have_no_before():
    policy = make_policy("flow_noise", 4, **FIELDS)
    rollout = block(policy)
    rollout.noise_continues = None
    assert NoiseHistory.of(rollout, EncodedObs({})) is None


def test_of_a_replayed_decision_the_previous_noise_is_replayed_too():
    """Under other weights the previous chain ends elsewhere, from the same noise."""
    policy = make_policy("flow_noise", 4, **FIELDS)
    rollout = block(policy)
    data = ActorBatch.of(rollout, rollout.rew).replayed(policy)
    history, units = data.noise_history, units_of(policy, rollout, RatioMode.NOISE_CONDITIONED)
    assert history is not None
    assert history.replay is not None
    with torch.no_grad():
        policy.net.out.bias += 0.1
        found = history.noise(policy, units)
        here = history.position[units.row]
        earlier = here - ENVS
        embedding = history.obs.encode(policy, earlier)
        x = history.replay.last_state(policy, embedding, earlier)
        want = policy.kernel(embedding, units.k[:, 0], x).noise(history.x[earlier, -1])
        stored = history._replace(replay=None).noise(policy, units)
    follows = here >= ENVS
    torch.testing.assert_close(found[follows], want[follows])
    assert float((found - stored)[follows].abs().min()) > 1e-6
