"""Advantages against brute force, with every way in which an episode can end."""

from __future__ import annotations

import pytest
import torch

from robo_rl.algo.advantages.gae import ReturnScale, gae, group_advantages
from robo_rl.core.errors import PluginError

LAM = 0.9


def brute_force(rew, value, next_value, terminated, ended, valid, discount, lam, rho):
    """Σ over the rest of the episode of Π(discount·λ·ρ')·δ, written as a double loop."""
    steps, envs = rew.shape
    adv = torch.zeros_like(rew)
    for env in range(envs):
        for t in range(steps):
            weight = 1.0
            for s in range(t, steps):
                if not valid[s, env]:
                    break
                bootstrap = 0.0 if terminated[s, env] else next_value[s, env]
                delta = rew[s, env] + discount[s, env] * bootstrap - value[s, env]
                adv[t, env] += weight * delta
                if ended[s, env] or s + 1 == steps:
                    break
                weight *= discount[s, env] * lam * rho[s + 1, env]
    return adv


@pytest.mark.parametrize("earlier_policy", [False, True])
def test_gae_equals_brute_force(earlier_policy, generator):
    shape = (13, 40)
    rew, value, next_value = (torch.randn(shape, generator=generator) for _ in range(3))
    terminated, truncated = (torch.rand(shape, generator=generator) < 0.1 for _ in range(2))
    valid = torch.rand(shape, generator=generator) > 0.1
    # chunks of up to four env steps, of which an episode's end cuts some off
    num_exec = torch.randint(1, 5, shape, generator=generator)
    discount = 0.97**num_exec
    log_ratio = torch.randn(shape, generator=generator) if earlier_policy else None
    rho = torch.ones(shape) if log_ratio is None else log_ratio.exp().clamp(max=1.0)
    adv, returns = gae(
        rew,
        value,
        next_value,
        terminated=terminated,
        truncated=truncated,
        valid=valid,
        discount=discount,
        lam=LAM,
        log_ratio=log_ratio,
    )
    want = brute_force(
        rew, value, next_value, terminated, terminated | truncated, valid, discount, LAM, rho
    )
    torch.testing.assert_close(adv, want)
    torch.testing.assert_close(returns, rho * want + value)


@pytest.mark.parametrize(("flag", "want"), [("terminated", 1.0), ("truncated", 1.0 + 0.81 * 5.0)])
def test_termination_does_not_bootstrap_and_truncation_does(flag, want):
    """One decision of two env steps, reward 1, V = 0 before and 5 after, γ = 0.9."""
    flags = {"terminated": torch.tensor([[False]]), "truncated": torch.tensor([[False]])}
    flags[flag] = torch.tensor([[True]])
    adv, _ = gae(
        torch.ones(1, 1),
        torch.zeros(1, 1),
        torch.full((1, 1), 5.0),
        **flags,
        valid=torch.tensor([[True]]),
        discount=torch.tensor([[0.81]]),
        lam=LAM,
    )
    assert float(adv) == pytest.approx(want)


def test_return_scale_is_the_std_of_the_discounted_return(generator):
    rew = torch.randn(50, 8, generator=generator)
    ended = torch.rand(50, 8, generator=generator) < 0.1
    discount = torch.full((50, 8), 0.9)
    scale = ReturnScale(8)
    for block in range(0, 50, 10):
        part = slice(block, block + 10)
        scale.update(rew[part], discount[part], ended[part])
    running, seen = torch.zeros(8), []
    for t in range(50):
        running = running * 0.9 + rew[t]
        seen.append(running)
        running = torch.where(ended[t], 0.0, running)
    assert scale.std == pytest.approx(float(torch.stack(seen).std(correction=0)), rel=1e-5)


def test_new_episodes_begin_with_no_return_and_what_was_seen_stays():
    scale, ones = ReturnScale(2), torch.ones(3, 2)
    scale.update(ones, ones, torch.zeros(3, 2, dtype=torch.bool))
    before = scale.std
    scale.restart_episodes()
    assert scale.std == before != 1.0
    assert scale.running.tolist() == [0.0, 0.0]


def test_return_scale_of_constant_rewards_is_one():
    scale = ReturnScale(2)
    scale.update(torch.zeros(5, 2), torch.ones(5, 2), torch.zeros(5, 2, dtype=torch.bool))
    assert scale.std == 1.0


@pytest.mark.parametrize("lost", [float("nan"), float("inf")])
def test_a_reward_that_is_no_number_is_refused_with_its_place_and_not_kept(lost, generator):
    scale, plain = ReturnScale(2), ReturnScale(2)
    rew = torch.randn(5, 2, generator=generator)
    discount, never = torch.full((5, 2), 0.9), torch.zeros(5, 2, dtype=torch.bool)
    spoilt = rew.clone()
    spoilt[3, 1] = lost
    for each in (scale, plain):
        each.update(rew, discount, never)
    with pytest.raises(
        PluginError, match=r"env 1, decision 3 .*rewards are not finite.*reward\(\)"
    ):
        scale.update(spoilt, discount, never)
    for each in (scale, plain):
        each.update(rew, discount, never)
    assert scale.std == plain.std != 1.0


def test_a_scale_that_is_lost_already_is_not_one():
    scale = ReturnScale(2)
    scale.load_state_dict(scale.state_dict() | {"count": 10.0, "sq_dev": float("nan")})
    assert scale.std != scale.std


def groups(
    returns: list[list[float]], lengths: list[list[int]] | None = None, **changes: torch.Tensor
):
    """One decision an episode that is worth its return, or a last decision of several."""
    total = torch.tensor(returns, dtype=torch.float64)
    length = torch.ones_like(total, dtype=torch.int64) if lengths is None else torch.tensor(lengths)
    steps, envs = int(length.max()), total.numel()
    last = torch.arange(steps)[:, None] == length.flatten() - 1
    block = {
        "rew": torch.where(last, total.flatten(), 0.0).double(),
        "terminated": last,
        "truncated": torch.zeros(steps, envs, dtype=torch.bool),
        "valid": torch.arange(steps)[:, None] < length.flatten(),
        "discount": torch.ones(steps, envs, dtype=torch.float64),
        **changes,
    }
    return group_advantages(**block, group_size=total.shape[1])


def test_advantages_within_a_group_by_hand():
    """Returns 0, 1, 1, 0: mean ½, std ½; and 3, 5, 5, 7: mean 5, std √2."""
    adv, alive = groups([[0, 1, 1, 0], [3, 5, 5, 7]])
    half, root = 0.5 / (0.5 + 1e-6), 2 / (2**0.5 + 1e-6)
    want = [-half, half, half, -half, -root, 0.0, 0.0, root]
    assert adv[0].tolist() == pytest.approx(want, rel=1e-12)
    assert bool(alive.all())


def test_a_group_whose_episodes_are_worth_the_same_is_dead():
    adv, alive = groups([[1, 1, 1], [0, 0, 3]])
    assert alive[0].tolist() == [False] * 3 + [True] * 3
    assert adv[0, :3].tolist() == [0.0] * 3


def test_all_decisions_of_an_episode_up_to_its_end_share_its_advantage():
    adv, alive = groups([[0, 1]], [[3, 2]])
    one = 0.5 / (0.5 + 1e-6)
    assert adv[:, 0].tolist() == pytest.approx([-one] * 3)
    assert adv[:, 1].tolist() == pytest.approx([one, one, 0.0])
    assert alive.tolist() == [[True, True], [True, True], [True, False]]


def test_returns_of_episodes_are_discounted_by_what_was_executed():
    """1 after two decisions of γ² = 0.81 each, against 0.9 at once: the sooner is worth more."""
    discount = torch.full((3, 2), 0.81, dtype=torch.float64)
    adv, _ = groups([[1.0, 0.9]], [[3, 1]], discount=discount)
    assert float(adv[0, 0]) < 0.0 < float(adv[0, 1])
    same, alive = groups([[1.0, 0.81**2]], [[3, 1]], discount=discount)
    assert not bool(alive.any())
    assert float(same.abs().max()) == 0.0


def test_what_comes_after_an_episodes_end_is_another_episode():
    rew = torch.tensor([[0.0, 1.0], [100.0, 0.0]]).double()
    ended = torch.tensor([[True, True], [True, False]])
    adv, alive = groups([[0, 1]], [[2, 2]], rew=rew, terminated=ended)
    assert alive.tolist() == [[True, True], [False, False]]
    assert float(adv[0, 0]) < 0.0 < float(adv[0, 1])


@pytest.mark.parametrize("lost", ["world", "end"])
def test_an_episode_that_was_lost_is_not_compared(lost):
    """Of 0, 1 and the lost one's 100 the first two are a group of their own."""
    valid, ended = (torch.ones(2, 3, dtype=torch.bool) for _ in range(2))
    ended[0] = False
    (valid if lost == "world" else ended)[1, 2] = False
    adv, alive = groups([[0, 1, 100]], [[2, 2, 2]], valid=valid, terminated=ended)
    one = 0.5 / (0.5 + 1e-6)
    assert adv[0].tolist() == pytest.approx([-one, one, 0.0])
    assert alive[:, 2].tolist() == [False, False]
