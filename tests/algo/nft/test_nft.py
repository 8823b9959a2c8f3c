"""DiffusionNFT: at r = 1 it is cloning, at r = 0 it pushes away, and a bandit is learnt."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from small_policies import make_obs, make_policy

from robo_rl.algo.nft.acting_policy_ema import ActingPolicyEma
from robo_rl.algo.nft.forward_process import NftBatch, nft_loss, optimality
from robo_rl.algo.nft.nft import Nft
from robo_rl.algo.nft.objective import NftObjective, NftObjectiveConfig
from robo_rl.core.errors import ConfigError
from robo_rl.data.rollout import Rollout, RolloutBuilder, executed_mask
from robo_rl.data.running_obs_stats import RunningObsStats

ROWS = 256
TARGET = 0.5
ODE = {"sampler": {"name": "flow_ode"}}
VEL = {"prediction_type": "vel", **ODE}
FAMILIES = [("flow_noise", ODE), ("flow_noise", VEL), ("flow_sde", {}), ("ddim", {})]
PLAIN = {"self_normalized": False, "adv_clip": 1.0, "time_sampling": "bc", "reference_coef": 0.0}


def decisions(rows: int = 32, r: float = 1.0, num_exec: int = 3) -> NftBatch:
    obs = make_obs(rows, seed=1)
    act = torch.linspace(-1, 1, rows * 6).double().view(rows, 3, 2)
    mask = executed_mask(torch.full((rows,), num_exec), 3)
    return NftBatch(obs, act, torch.full((rows,), r).double(), mask)


def matching(sampler: str, fields: dict[str, Any], **more: Any) -> Any:
    return make_policy(sampler, 4, loss_weight="prediction", **fields, **more)


def objective(policy, learner=None, **fields) -> NftObjective:
    generator = torch.Generator().manual_seed(3)
    cfg = NftObjectiveConfig(**fields)
    trained = policy if learner is None else learner
    return NftObjective(cfg, policy, trained, policy, generator)


def gradient(loss: torch.Tensor, policy) -> torch.Tensor:
    grads = torch.autograd.grad(loss, list(policy.net.parameters()))
    return torch.cat([grad.flatten() for grad in grads])


@pytest.mark.parametrize(("sampler", "fields"), FAMILIES)
def test_where_all_is_good_it_is_cloning(sampler, fields):
    """At r = 1 and β = 1, whatever the acting policy says: loss and gradient, to rounding."""
    learner, acting = matching(sampler, fields), matching(sampler, fields)
    with torch.no_grad():
        acting.net.out.bias += 1.0
    data = decisions()
    nft = objective(acting, learner, **PLAIN).loss(data, None).total
    cloning = learner.loss(data.obs, data.act, torch.Generator().manual_seed(3)).mean()
    torch.testing.assert_close(nft, cloning, rtol=1e-12, atol=0)
    torch.testing.assert_close(gradient(nft, learner), gradient(cloning, learner))


@pytest.mark.parametrize(("sampler", "fields"), FAMILIES)
def test_self_normalised_it_is_cloning_with_a_weight_a_row(sampler, fields):
    """The weight is c·level² over the mean absolute error of the action, level·|error|."""
    policy, data = matching(sampler, fields), decisions()
    cfg = {**PLAIN, "self_normalized": True, "adv_clip": 5.0}
    nft = objective(policy, **cfg).loss(data, None).total
    noise, t = policy.draw_noise(data.act, torch.Generator().manual_seed(3))
    error = policy.residual_at(policy.encode(data.obs), data.act, noise, t)
    level = policy.noise_fraction(t)
    weight = 5.0 * level / error.detach().abs().mean(dim=(1, 2))
    cloning = (weight * error.square().mean(dim=(1, 2))).mean()
    torch.testing.assert_close(nft, cloning)
    torch.testing.assert_close(gradient(nft, policy), gradient(cloning, policy))


@pytest.mark.parametrize(("sampler", "fields"), FAMILIES)
def test_bad_actions_push_away_as_good_ones_draw_and_average_ones_do_nothing(sampler, fields):
    policy = matching(sampler, fields)
    good, average, bad = (
        gradient(
            objective(policy, beta=0.5, reference_coef=0.0).loss(decisions(r=r), None).total, policy
        )
        for r in (1.0, 0.5, 0.0)
    )
    torch.testing.assert_close(good, -bad)
    assert float(average.abs().max()) < 1e-9 < float(good.abs().max())


def test_the_loss_by_hand():
    """β = ½, errors 0.2 and 0.4: e⁺ = 0.3, e⁻ = 0.5.

    (¾·0.09 + ¼·0.25)/½ = 0.26, over their own mean errors (¾·0.3 + ¼·0.5)/½ = 0.7.
    """
    new, old, mask = torch.tensor([[[0.2]]]), torch.tensor([[[0.4]]]), torch.ones(1, 1, 1).bool()
    for self_normalized, value in ((False, 0.26), (True, 0.7)):
        found = nft_loss(
            new, old, torch.tensor([0.75]), mask, beta=0.5, self_normalized=self_normalized
        )
        assert float(found) == pytest.approx(value)


def test_the_minimiser_is_the_papers(generator):
    """It is v_old + (2/β)·Cov(r, v), where v_old is the mean of v."""
    beta, n = 0.5, 4000
    v = torch.randn(n, 1, 1, generator=generator).double()
    r = torch.sigmoid(2.0 * v[:, 0, 0])
    v_old = v.mean()
    best = v_old + 2.0 / beta * ((r - r.mean()) * (v[:, 0, 0] - v_old)).mean()
    v_new = best.clone().requires_grad_()
    mask = torch.ones(n, 1, 1).bool()
    nft_loss(v_new - v, v_old - v, r, mask, beta=beta, self_normalized=False).mean().backward()
    assert v_new.grad is not None
    assert float(v_new.grad.abs()) < 1e-9
    assert float(best) > float(v_old) + 0.5


def test_optimality_is_bounded_and_centred():
    found = optimality(torch.tensor([-9.0, -2.5, 0.0, 2.5, 9.0]), 5.0)
    torch.testing.assert_close(found, torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0]))


@pytest.mark.parametrize("self_normalized", [False, True])
def test_actions_that_were_not_executed_do_not_enter(self_normalized, generator):
    new, old = torch.randn(2, 8, 3, 2, generator=generator).unbind(0)
    new.requires_grad_()
    mask = executed_mask(torch.arange(8) % 3 + 1, 3)
    settings = {"beta": 0.7, "self_normalized": self_normalized}
    loss = nft_loss(new, old, torch.full((8,), 0.3), mask, **settings)
    loss.sum().backward()
    assert new.grad is not None
    assert not new.grad[~mask.expand_as(new)].any()
    assert new.grad[mask.expand_as(new)].all()
    other = torch.where(mask, new, 99.0), torch.where(mask, old, -99.0)
    torch.testing.assert_close(nft_loss(*other, torch.full((8,), 0.3), mask, **settings), loss)


def one_decision(policy, generator, seed: int = 0) -> Rollout:
    """A bandit: every decision ends its episode; reward is −‖act − target‖² of what is executed."""
    obs = {name: o.float() for name, o in make_obs(ROWS, seed).items()}
    with torch.no_grad():
        chain = policy.sample(obs, generator)
    num_exec = torch.full((ROWS,), policy.exec_horizon)
    mask = executed_mask(num_exec, policy.horizon)
    columns = {
        "x": chain.x,
        "log_prob": (chain.log_prob * mask[:, None]).sum(dim=(2, 3)),
        "rew": -((chain.act - TARGET).square() * mask).sum(dim=(1, 2)),
        "terminated": torch.ones(ROWS, dtype=torch.bool),
        "truncated": torch.zeros(ROWS, dtype=torch.bool),
        "valid": torch.ones(ROWS, dtype=torch.bool),
        "discount": torch.full((ROWS,), 0.99),
        "num_exec": num_exec,
    }
    builder = RolloutBuilder()
    builder.add(obs, obs, columns)
    return builder.finish(obs)


LEARNING = {"lr": 1e-3, "minibatch": 64, "warmup_updates": 1, "target_shift": 0.05}


def clone(policy, steps: int = 150) -> None:
    """Teach it actions of mean 0 and std 0.3, whatever the observation."""
    draws = torch.Generator().manual_seed(9)
    optim = torch.optim.Adam(policy.net.parameters(), 3e-3)
    for step in range(steps):
        obs = {name: o.float() for name, o in make_obs(128, step).items()}
        act = 0.3 * torch.randn(128, 3, 2, generator=draws)
        optim.zero_grad()
        policy.loss(obs, act, draws).mean().backward()
        optim.step()


@pytest.mark.parametrize(
    ("sampler", "fields", "credit"),
    [
        ("flow_noise", ODE, "gae"),
        pytest.param("flow_noise", VEL, "monte_carlo", marks=pytest.mark.slow),
        pytest.param("ddim", {}, "monte_carlo", marks=pytest.mark.slow),
    ],
)
def test_a_bandit_is_learnt_without_any_likelihood(sampler, fields, credit, generator):
    policy = matching(sampler, fields).float()
    clone(policy)
    torch.manual_seed(1)
    nft = Nft(Nft.Config(advantage=credit, **LEARNING), policy, ROWS, generator)
    rewards = []
    for update in range(16):
        rollout = one_decision(policy, generator, update)
        rewards.append(float(rollout.rew.mean()))
        nft.update(rollout)
    first, last = sum(rewards[:2]) / 2, sum(rewards[-2:]) / 2
    assert last > 0.8 * first, rewards


def test_rows_without_a_transition_do_not_enter(generator):
    policy = make_policy("flow_noise", 4, **ODE).float()
    rollout = one_decision(policy, generator)
    rollout.valid[:, ::2] = False
    rollout.x[:, ::2] = float("nan")
    rollout.rew[:, ::2] = 0.0
    nft = Nft(Nft.Config(advantage="monte_carlo", **LEARNING), policy, ROWS, generator)
    nft.update(rollout)
    assert all(bool(p.isfinite().all()) for p in policy.parameters())
    assert nft.actor.optimizer.skipped == 0
    assert len(NftBatch.of(rollout, torch.zeros(ROWS // 2)).act) == ROWS // 2


@pytest.mark.parametrize("credit", ["gae", "monte_carlo"])
def test_a_lone_decision_teaches_nothing(credit, generator):
    policy = make_policy("flow_noise", 4, **ODE).float()
    nft = Nft(Nft.Config(advantage=credit, warmup_updates=0), policy, ROWS, generator)
    rollout = one_decision(policy, generator)
    rollout.valid[:, 1:] = False
    before = torch.cat([p.flatten().clone() for p in policy.parameters()])
    metrics = nft.update(rollout)
    assert torch.equal(before, torch.cat([p.flatten() for p in policy.parameters()]))
    assert all(value == value for value in metrics.values())


def test_the_acting_policy_lags_behind_the_learner(generator):
    policy = make_policy("flow_noise", 4, **ODE).float()
    before = policy.net.out.bias.detach().clone()
    cfg = Nft.Config(advantage="monte_carlo", acting_ema=ActingPolicyEma(slope=0.25), **LEARNING)
    nft = Nft(cfg, policy, ROWS, generator)
    shares = []
    for update in range(4):
        nft.update(one_decision(policy, generator, update))
        learner: Any = nft.actor.learner
        after, learnt = policy.net.out.bias.detach(), learner.net.out.bias.detach()
        shares.append(float((after - before).norm() / (learnt - before).norm()))
        before = after.clone()
    assert shares == pytest.approx([1.0, 0.75, 0.5, 0.5], abs=1e-4)


def test_learner_actor_and_base_see_the_same_where_statistics_move(generator):
    """Equal weights predict the same, also after the normaliser was renewed."""
    policy = make_policy("flow_noise", 4, **ODE).float()
    nft = Nft(Nft.Config(advantage="monte_carlo", **LEARNING), policy, ROWS, generator)
    tracker = RunningObsStats(policy.normalizer, weight=10.0)
    tracker.update({name: 3.0 * o.float() + 5.0 for name, o in make_obs(500, seed=7).items()})
    data = NftBatch.of(one_decision(policy, generator), torch.zeros(ROWS))
    losses = nft.actor.objective.loss(data, nft.actor.reference)
    assert float(losses.action_shift_sq) == float(losses.reference_mse) == 0.0


def test_a_small_target_keeps_an_update_small(generator):
    policy = make_policy("flow_noise", 4, **ODE).float()
    cfg = Nft.Config(advantage="monte_carlo", **{**LEARNING, "target_shift": 0.005})
    nft = Nft(cfg, policy, ROWS, generator)
    shifts = [nft.update(one_decision(policy, generator, u))["action_shift"] for u in range(12)]
    assert sum(shifts[-4:]) / 4 < 0.015
    assert nft.actor.optimizer.lr < cfg.lr


def test_the_target_is_of_one_update_also_where_the_acting_policy_follows_slowly(generator):
    """Measured from the acting policy, a learner that leads by the target would stand still."""
    policy = make_policy("flow_noise", 4, **ODE).float()
    slow = ActingPolicyEma(slope=1.0, max_decay=0.999)
    fields = {**LEARNING, "target_shift": 0.02}
    nft = Nft(
        Nft.Config(advantage="monte_carlo", acting_ema=slow, **fields), policy, ROWS, generator
    )
    learner, lead = nft.actor.learner, list[float]()
    for update in range(12):
        shift = nft.update(one_decision(policy, generator, update))["action_shift"]
        assert shift <= 2.0 * 0.02
        pairs = zip(learner.net.parameters(), policy.net.parameters(), strict=True)
        lead.append(math.sqrt(sum(float((a - b).detach().square().sum()) for a, b in pairs)))
    assert lead[-1] > 3.0 * lead[2] > 0.0


def test_noise_levels_are_those_of_the_steps_that_are_trained(generator):
    policy = make_policy("flow_noise", 4, finetune_steps=2, **ODE)
    policy.freeze_reference()
    nft = objective(policy)
    _, t = nft._draw(torch.zeros(200, 3, 2).double())
    assert set(t.tolist()) == {0.5, 0.75}


def test_a_base_holds_the_policy(generator):
    gaps = []
    for base in (1e-4, 10.0):
        policy = make_policy("flow_noise", 4, **ODE).float()
        draws = torch.Generator().manual_seed(5)
        nft = Nft(
            Nft.Config(advantage="monte_carlo", reference_coef=base, **LEARNING),
            policy,
            ROWS,
            draws,
        )
        for update in range(6):
            metrics = nft.update(one_decision(policy, draws, update))
        gaps.append(metrics["reference_mse"])
    assert gaps[1] < 0.3 * gaps[0]


def test_going_back_restores_the_actor_and_halves_the_rate_which_comes_back_slowly(generator):
    policy = make_policy("flow_noise", 4, **ODE).float()
    nft = Nft(Nft.Config(advantage="monte_carlo", **LEARNING), policy, ROWS, generator)
    good = {name: value.clone() for name, value in policy.state_dict().items()}
    state = copy.deepcopy(nft.actor_state())
    state["actor"]["policy"] = good
    nft.update(one_decision(policy, generator))
    lr = nft.actor.optimizer.lr
    nft.rollback(state)
    assert all(torch.equal(value, good[name]) for name, value in policy.state_dict().items())
    assert nft.actor.optimizer.lr == pytest.approx(0.5 * lr)
    for update in range(3):
        nft.update(one_decision(policy, generator, update))
    assert nft.actor.optimizer.lr <= 0.5 * lr * 1.05**3 * (1 + 1e-9)


def test_a_policy_with_an_exact_likelihood_is_refused(generator):
    with pytest.raises(ConfigError, match="gaussian"):
        Nft(Nft.Config(), make_policy("gaussian", 1), ROWS, generator)


def test_it_continues_from_its_state_to_the_bit():
    results = []
    for interrupted in (False, True):
        generator = torch.Generator().manual_seed(0)
        policy = make_policy("flow_noise", 4).float()
        torch.manual_seed(1)
        nft = Nft(Nft.Config(**LEARNING, reference_coef=1.0), policy, ROWS, generator)
        tracker = RunningObsStats(policy.normalizer)
        for update in range(4):
            rollout = one_decision(policy, generator, update)
            nft.update(rollout)
            tracker.update({name: 2.0 + rollout.rows(o) for name, o in rollout.obs.items()})
            if interrupted and update == 1:
                state = nft.state_dict(), tracker.state_dict()
                torch.manual_seed(2)
                policy = make_policy("flow_noise", 4).float()
                nft = Nft(Nft.Config(**LEARNING, reference_coef=1.0), policy, ROWS, generator)
                tracker = RunningObsStats(policy.normalizer)
                nft.load_state_dict(state[0])
                tracker.load_state_dict(state[1])
        results.append(torch.cat([p.flatten() for p in policy.parameters()]))
    assert torch.equal(results[0], results[1])
