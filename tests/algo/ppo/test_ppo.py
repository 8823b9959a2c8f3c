"""PPO on every family and ratio mode: fresh ratios are 1, and a bandit is learnt."""

from __future__ import annotations

import copy

import pytest
import torch
from small_bandit import ROWS, one_decision
from small_policies import make_policy
from torch import Tensor, nn

from robo_rl.algo.advantages.critic_advantages import GaeEstimator
from robo_rl.algo.ppo.batch.actor_batch import ActorBatch, unit_kernel, unit_log_prob
from robo_rl.algo.ppo.objective import Objective, ObjectiveConfig
from robo_rl.algo.ppo.ppo import Ppo
from robo_rl.algo.ppo.ratio_units import RatioMode, Units, make_units
from robo_rl.core.errors import PluginError
from robo_rl.data.rollout import Rollout
from robo_rl.nets.base import ChunkNet

BOUNDED = {"clip": 0.05, "target_kl": 0.03}
"""Ratios of bounds need smaller steps than ratios of likelihoods."""
VEL = {"prediction_type": "vel"}
OFFSET = {"sampler": {"name": "flow_noise", "chunk_correlation": 1.0}, "finetune_steps": 2}
NOISE_CONDITIONED = {"ratio": "noise_conditioned"}
CASES = [
    pytest.param("gaussian", "joint", {}, marks=pytest.mark.slow),
    pytest.param("ddpm", "per_step", {}, marks=pytest.mark.slow),
    pytest.param("ddim", "joint", {}, marks=pytest.mark.slow),
    pytest.param("flow_sde", "single_step", {}, marks=pytest.mark.slow),
    # Its last step has no density: an action prediction would drift.
    pytest.param("flow_cps", "per_step", VEL, marks=pytest.mark.slow),
    pytest.param("flow_noise", "joint", {}, marks=pytest.mark.slow),
    pytest.param("flow_noise", "per_step", {}, marks=pytest.mark.slow),
    pytest.param("flow_noise", "single_step", {}, marks=pytest.mark.slow),
    ("flow_noise", "joint", OFFSET),
    ("flow_noise", "noise_conditioned", OFFSET),
]


@pytest.mark.parametrize(("sampler", "mode", "fields"), CASES)
def test_a_bandit_is_learnt_and_fresh_ratios_are_one(sampler, mode, fields, generator):
    policy = make_policy(sampler, 4, **fields).float()
    if policy.cfg.finetune_steps:
        policy.freeze_reference()
    learns_a_bandit(policy, generator, ratio=mode)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampler", "fields", "options"),
    [
        ("flow_noise", {"sampler": {"name": "flow_ode"}}, {"ratio": "cfm", **BOUNDED}),
        (
            "flow_noise",
            {},
            {"ratio": "cfm", **BOUNDED, "cfm": {"num_samples": 4, "per_sample": True}},
        ),
        ("ddim", {}, {"ratio": "cfm", **BOUNDED, "trust_region": "spo"}),
        ("flow_noise", {}, {"trust_region": "spo", "entropy_coef": 1e-3}),
        (
            "flow_sde",
            {},
            {"ratio": "single_step", "ratio_norm": "guard", "trust_region": "dual_clip"},
        ),
        ("ddpm", {}, {"ratio": "per_step", "clip_base": 0.02, "clip_high": 0.3}),
        ("flow_noise", {}, {"regularization": {"reverse_kl": 1e-3, "bc_rollout": 1e-3}}),
        ("flow_noise", {}, {"proximal_ema": 0.8, "ema_decay": 0.9}),
        ("flow_noise", {}, {"reused_rollouts": 2}),
        ("flow_sde", {}, {"reused_rollouts": 1, "ratio_norm": "guard"}),
        ("ddpm", {}, {"reused_rollouts": 1, "ratio": "per_step", "precision": "bf16"}),
        ("gaussian", {}, {"trust_region": "spo", "entropy_coef": 1e-3, "proximal_ema": 0.5}),
        ("gaussian", {}, {"advantage": "monte_carlo"}),
        ("flow_noise", {}, {"precision": "bf16"}),
        ("flow_noise", {}, {**NOISE_CONDITIONED, "precision": "bf16"}),
        ("flow_noise", {}, {**NOISE_CONDITIONED, "proximal_ema": 0.5, "entropy_coef": 1e-3}),
        ("flow_noise", {}, {**NOISE_CONDITIONED, "regularization": {"bc_reference": 1e-3}}),
        ("flow_noise", {}, {**NOISE_CONDITIONED, "ratio_norm": "guard", "trust_region": "spo"}),
    ],
)
def test_a_bandit_is_learnt_with_every_option(sampler, fields, options, generator):
    learns_a_bandit(make_policy(sampler, 4, **fields).float(), generator, **options)


def learns_a_bandit(policy, generator, **options) -> None:
    """Thirty updates take a fifth off the distance, and every first ratio is 1."""
    fields = {"lr": 1e-3, "target_kl": 0.3, "minibatch": 256, "warmup_updates": 1, **options}
    cfg = Ppo.Config.model_validate(fields)
    ppo = Ppo(cfg, policy, ROWS, generator)
    rewards, errors = [], []
    for update in range(30):
        rollout = one_decision(policy, generator, cfg.ratio, seed=update)
        rewards.append(float(rollout.rew.mean()))
        errors.append(ppo.update(rollout).get("ratio_error", 0.0))
    first, last = sum(rewards[:3]) / 3, sum(rewards[-3:]) / 3
    assert max(errors) < 1e-3
    assert last > first + 0.2 * abs(first), rewards


@torch.no_grad()
def block_log_prob(policy, rollout: Rollout, units: Units) -> torch.Tensor:
    data = ActorBatch.of(rollout, rollout.rew[0])
    return unit_log_prob(unit_kernel(policy, data, units), data, units).sum(-1)


def test_unexecuted_actions_take_no_part_in_the_ratio(generator):
    policy = make_policy("flow_noise", 4).float()
    rollout = one_decision(policy, generator, RatioMode.JOINT)
    units = make_units(RatioMode.JOINT, ROWS, torch.arange(4), None)
    before = block_log_prob(policy, rollout, units)
    rollout.num_exec[:, : ROWS // 2] = 1  # their second action was not executed after all
    after = block_log_prob(policy, rollout, units)
    torch.testing.assert_close(before, rollout.log_prob[0].sum(-1), rtol=0, atol=1e-3)
    assert bool((after != before)[: ROWS // 2].all())
    assert torch.equal(after[ROWS // 2 :], before[ROWS // 2 :])


@pytest.mark.parametrize("error", [0.1, float("nan")])
def test_a_policy_whose_score_is_not_its_draw_is_refused(error, generator):
    policy = make_policy("flow_noise", 4).float()
    ppo = Ppo(Ppo.Config(warmup_updates=0), policy, ROWS, generator)
    rollout = one_decision(policy, generator, RatioMode.JOINT)
    rollout.log_prob += error
    with pytest.raises(PluginError, match="not 1"):
        ppo.update(rollout)


def test_it_continues_from_its_state_to_the_bit():
    results = []
    for interrupted in (False, True):
        generator = torch.Generator().manual_seed(0)
        policy = make_policy("flow_noise", 4).float()
        torch.manual_seed(1)
        ppo = Ppo(Ppo.Config(minibatch=128), policy, ROWS, generator)
        for update in range(4):
            ppo.update(one_decision(policy, generator, RatioMode.JOINT, update))
            if interrupted and update == 1:
                state = ppo.state_dict()
                torch.manual_seed(2)
                policy = make_policy("flow_noise", 4).float()
                ppo = Ppo(Ppo.Config(minibatch=128), policy, ROWS, generator)
                ppo.load_state_dict(state)
        results.append(torch.cat([p.flatten() for p in policy.parameters()]))
    assert torch.equal(results[0], results[1])


def test_gradients_that_are_not_finite_are_left_out_and_then_refused(generator):
    policy = make_policy("flow_noise", 4).float()
    ppo = Ppo(Ppo.Config(minibatch=64, warmup_updates=0), policy, ROWS, generator)
    assert isinstance(ppo.advantage_estimator, GaeEstimator)
    critic = ppo.advantage_estimator.critic
    weights = torch.cat([p.detach().flatten().clone() for p in critic.net.parameters()])
    rollout = one_decision(policy, generator, RatioMode.JOINT)
    rollout.obs["pos"][:] = float("nan")
    with pytest.raises(PluginError, match="gradient was not finite"):
        ppo.update(rollout)
    after = torch.cat([p.detach().flatten() for p in critic.net.parameters()])
    assert torch.equal(weights, after)


def test_a_bandit_is_learnt_from_groups_that_share_a_state(generator):
    """Eight arms of one observation are compared with each other; there is no critic."""
    policy = make_policy("flow_noise", 4).float()
    ppo = Ppo(
        Ppo.Config(group_size=8, lr=1e-3, target_kl=0.3, minibatch=256), policy, ROWS, generator
    )
    rewards = []
    for update in range(30):
        rollout = one_decision(policy, generator, RatioMode.JOINT, seed=update, copies=8)
        rewards.append(float(rollout.rew.mean()))
        metrics = ppo.update(rollout)
    assert metrics["nonzero_std_groups"] == 1.0
    first, last = sum(rewards[:3]) / 3, sum(rewards[-3:]) / 3
    assert last > first + 0.2 * abs(first), rewards


def test_a_block_of_dead_groups_teaches_nothing(generator):
    policy = make_policy("flow_noise", 4).float()
    ppo = Ppo(Ppo.Config(group_size=8), policy, ROWS, generator)
    rollout = one_decision(policy, generator, RatioMode.JOINT)
    rollout.rew[:] = 1.0
    before = torch.cat([p.flatten().clone() for p in policy.parameters()])
    metrics = ppo.update(rollout)
    assert metrics["nonzero_std_groups"] == 0.0
    assert torch.equal(before, torch.cat([p.flatten() for p in policy.parameters()]))
    assert ppo.updates == 1


def test_a_lone_decision_teaches_nothing(generator):
    policy = make_policy("flow_noise", 4).float()
    ppo = Ppo(Ppo.Config(warmup_updates=0), policy, ROWS, generator)
    rollout = one_decision(policy, generator, RatioMode.JOINT)
    rollout.valid[:, 1:] = False
    before = torch.cat([p.flatten().clone() for p in policy.parameters()])
    metrics = ppo.update(rollout)
    assert torch.equal(before, torch.cat([p.flatten() for p in policy.parameters()]))
    assert all(value == value for value in metrics.values())
    ppo.update(one_decision(policy, generator, RatioMode.JOINT))
    assert not torch.equal(before, torch.cat([p.flatten() for p in policy.parameters()]))


class Velocities(ChunkNet):
    """A network that says a velocity (H, A) of its own at each step, whatever it is shown."""

    embed_dim = 1

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.vel = nn.Parameter(torch.zeros(steps, 3, 2, dtype=torch.float64))

    def embed(self, features: Tensor) -> Tensor:
        return features[:, :1]

    def forward(self, x: Tensor, t: Tensor, embedding: Tensor) -> Tensor:
        return self.vel[(t * len(self.vel)).round().long()]


@pytest.mark.parametrize("finetune_steps", [0, 2])
@pytest.mark.parametrize("mode", ["single_step", "per_step", "joint"])
def test_each_steps_gradient_is_the_rewards_in_closed_form(mode, finetune_steps, generator):
    """A bandit with a parameter v[k] of its own for each step, whose reward is w·(x[K] − x[0]).

    A step is x ← a·x + c·v + std·z, a = 1 − dt·½σ²/(1−t), c = dt·(1 + ½σ²t/(1−t)), σ² = ¼·(1−t)/t
    with t floored at dt. The reward's gradient in v[k] is w·c[k] times what the steps behind make
    of it: Π a of them or, where one step is random and the others are the ODE's, 1. A mean over
    units holds each of K' trained steps with weight 1/K'; so does one step, if drawn uniformly.
    """
    steps, level = 4, 0.5
    policy = make_policy("flow_sde", steps, prediction_type="vel", finetune_steps=finetune_steps)
    encoder = policy.net.encoder
    net = policy.net = Velocities(steps)
    net.encoder = encoder
    policy.freeze_reference()
    rollout = one_decision(policy, generator, RatioMode(mode), rows=60_000)
    w = torch.tensor([[1.0, -1.0], [-1.0, 1.0], [0.0, 0.0]]).double()  # two actions are executed
    rew = (w * (rollout.x[0, :, -1] - rollout.x[0, :, 0])).sum(dim=(1, 2))
    cfg = ObjectiveConfig(ratio=RatioMode(mode), denoise_discount=1.0)
    objective = Objective(cfg, policy, None, rollout, rew - rew.mean(), generator)
    objective.loss(torch.arange(objective.size)).loss.backward()
    assert net.vel.grad is not None

    t, dt = torch.arange(steps).double() / steps, 1 / steps
    floored = t.clamp(min=dt)
    variance = level**2 * (1 - floored) / floored
    kept = 1 - dt * 0.5 * variance / (1 - t)
    moved = dt * (1 + 0.5 * variance * t / (1 - t))
    behind = torch.tensor(
        [1.0 if mode == "single_step" else kept[k + 1 :].prod() for k in range(steps)]
    )
    trained = torch.arange(steps) >= (steps - finetune_steps if finetune_steps else 0)
    weight = trained / (1 if mode == "joint" else trained.sum())
    found = -(net.vel.grad * w).sum(dim=(1, 2)) / w.square().sum()
    torch.testing.assert_close(found, weight * moved * behind, rtol=0.06, atol=0)
    assert not net.vel.grad[:, 2].any()


def test_going_back_restores_the_actor_and_halves_the_rate_which_comes_back_slowly(generator):
    policy = make_policy("flow_noise", 4).float()
    ppo = Ppo(
        Ppo.Config(lr=1e-4, warmup_updates=0, target_kl=10.0, lr_probe=False),
        policy,
        ROWS,
        generator,
    )
    good = {name: value.clone() for name, value in policy.state_dict().items()}
    state = copy.deepcopy(ppo.actor_state())
    state["actor"]["policy"] = good
    ppo.update(one_decision(policy, generator, RatioMode.JOINT))
    assert ppo.lr == pytest.approx(1.5e-4)
    ppo.rollback(state)
    assert all(torch.equal(value, good[name]) for name, value in policy.state_dict().items())
    ppo.update(one_decision(policy, generator, RatioMode.JOINT))
    assert ppo.lr == pytest.approx(0.75e-4 * 1.05)


@pytest.mark.parametrize("rho", [0.0, 1.0])
def test_of_one_trained_step_noise_conditioned_is_joint_to_the_bit(rho):
    weights, sampler = [], {"name": "flow_noise", "chunk_correlation": rho}
    for mode in (RatioMode.JOINT, RatioMode.NOISE_CONDITIONED):
        generator = torch.Generator().manual_seed(0)
        policy = make_policy("flow_noise", 4, sampler=sampler, finetune_steps=1).float()
        policy.freeze_reference()
        torch.manual_seed(1)
        ppo = Ppo(Ppo.Config(ratio=mode, minibatch=128, warmup_updates=0), policy, ROWS, generator)
        for update in range(2):
            ppo.update(one_decision(policy, generator, mode, update))
        weights.append(torch.cat([p.flatten() for p in policy.parameters()]))
    assert torch.equal(*weights)


@pytest.mark.slow
def test_noise_conditioned_learns_faster_than_per_step_from_equal_samples():
    regret, sampler = {}, {"name": "flow_noise", "chunk_correlation": 1.0}
    for mode in (RatioMode.NOISE_CONDITIONED, RatioMode.PER_STEP):
        generator = torch.Generator().manual_seed(0)
        policy = make_policy("flow_noise", 8, sampler=sampler).float()
        torch.manual_seed(1)
        cfg = Ppo.Config(ratio=mode, lr=1e-3, target_kl=0.3, minibatch=256, warmup_updates=1)
        ppo = Ppo(cfg, policy, ROWS, generator)
        for update in range(12):
            rollout = one_decision(policy, generator, mode, seed=update)
            regret[mode] = -float(rollout.rew.mean())
            ppo.update(rollout)
    assert regret[RatioMode.NOISE_CONDITIONED] < 0.8 * regret[RatioMode.PER_STEP], regret
