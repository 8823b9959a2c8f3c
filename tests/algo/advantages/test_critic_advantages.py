"""Credit by a critic: what it bootstraps from, against brute force; and blocks that are too small.

Shapes: T decisions, B envs.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError
from small_policies import make_policy
from torch import Tensor, nn

from robo_rl.algo.advantages import critic_advantages as credit_module
from robo_rl.algo.advantages.critic_advantages import (
    AdvantageEstimator,
    Advantages,
    GaeEstimator,
    GroupRelativeEstimator,
    pad_empty_rank,
)
from robo_rl.algo.advantages.factory import AdvantageConfig, make_advantage_estimator
from robo_rl.algo.advantages.monte_carlo import MonteCarloEstimator
from robo_rl.core.errors import PluginError
from robo_rl.data.rollout import Rollout, RolloutBuilder
from robo_rl.optim.minibatches import PADDING_SHARD

T, B, LAM = 6, 4, 0.9
TERMINATED, TRUNCATED, LOST = (2, 0), (3, 1), (2, 2)  # env 3 goes on throughout
DISCOUNT = 0.97 ** (torch.arange(T * B).view(T, B) % 4 + 1)
REW = torch.randn(T, B, generator=torch.Generator().manual_seed(1))
SEEN, AFTER = torch.randn(2, T, B, generator=torch.Generator().manual_seed(2))
"""The number in what was acted on, and in the true successor where an episode ended."""
LAST = torch.tensor([5.0, -7.0, 3.0, 11.0])
"""The number in what each env stands at behind the block."""


@pytest.mark.parametrize("made", [GroupRelativeEstimator(2), MonteCarloEstimator()])
def test_rewards_that_are_not_finite_are_refused_by_whoever_credits(made):
    rew, no = torch.zeros(3, 4), torch.zeros(3, 4, dtype=torch.bool)
    rew[1, 2] = torch.nan
    empty = torch.zeros(0)
    rollout = Rollout(
        obs={}, x=empty, log_prob=empty, k_star=None, rew=rew, terminated=no, truncated=no,
        valid=~no, discount=torch.ones(3, 4), num_exec=torch.ones(3, 4), last_obs={},
        ended=empty, final_obs={},
    )  # fmt: skip
    with pytest.raises(PluginError, match="env 2, decision 1"):
        made.compute_advantages(rollout)


def test_two_ways_to_credit_at_once_are_refused():
    with pytest.raises(ValidationError, match="episodes are compared instead"):
        AdvantageConfig(advantage="monte_carlo", group_size=4)


class Reader(nn.Module):
    """A critic that says the first number that it is shown."""

    names = ("pos",)

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Parameter(torch.ones(()))

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        return self.one * obs["pos"][:, -1, 0]


def creditor(**fields: object) -> AdvantageEstimator:
    cfg = AdvantageConfig.model_validate({"gae_lambda": LAM, "minibatch": 8, **fields})
    return make_advantage_estimator(cfg, make_policy("gaussian", 1).float(), B, torch.Generator())


def weights(made: AdvantageEstimator) -> Tensor:
    critic = made.state_dict().get("critic", {})
    return torch.cat([torch.zeros(0), *(x.detach().float().flatten() for x in critic.values())])


def block() -> Rollout:
    """A termination, a truncation amid the block, a lost world, an env that goes on behind it.

    A lost decision earns nothing, lasts no step, is cut, and is followed by what it began at. What
    an env is shown next after an end is the start of another episode, not the true successor.
    """
    builder = RolloutBuilder()
    for t in range(T):
        flag = {name: torch.zeros(B, dtype=torch.bool) for name in ("terminated", "truncated")}
        valid = torch.ones(B, dtype=torch.bool)
        for name, (at, env) in (
            ("terminated", TERMINATED),
            ("truncated", TRUNCATED),
            ("truncated", LOST),
        ):
            flag[name][env] = at == t
        valid[LOST[1]] = t != LOST[0]
        nothing = {"x": torch.zeros(B, 2, 3, 2), "log_prob": torch.zeros(B, 1)}
        earned = {"rew": REW[t] * valid, "discount": torch.where(valid, DISCOUNT[t], 1.0)}
        columns = {**flag, **nothing, **earned, "valid": valid, "num_exec": valid.long()}
        builder.add(shown(SEEN[t]), shown(torch.where(valid, AFTER[t], SEEN[t])), columns)
    return builder.finish(shown(LAST))


def shown(number: Tensor) -> dict[str, Tensor]:
    """Observations (B, 1, 3) and (B, 1, 2) that hold a number (B,)."""
    return {"pos": number[:, None, None].expand(-1, 1, 3), "goal": torch.zeros(len(number), 1, 2)}


def after(t: int, env: int) -> float:
    """What the true successor is worth."""
    if (t, env) == TERMINATED:
        return 0.0
    if (t, env) == TRUNCATED:
        return float(AFTER[t, env])
    return float(SEEN[t + 1, env] if t + 1 < T else LAST[env])


def brute_force(unit: float, lam: float = LAM) -> dict[tuple[int, int], float]:
    """(t, env) → Σ Π(discount·λ)·δ, until the episode ends, its world is lost, or the block ends.

    Args:
        unit: What rewards are divided by.
        lam: λ.
    """
    found = {(t, env): 0.0 for t in range(T) for env in range(B) if (t, env) != LOST}
    for begun, env in found:
        weight, total = 1.0, 0.0
        for t in range(begun, T):
            if (t, env) == LOST:
                break
            discount = float(DISCOUNT[t, env])
            delta = float(REW[t, env]) / unit + discount * after(t, env) - float(SEEN[t, env])
            total += weight * delta
            weight *= discount * lam
            if (t, env) in (TERMINATED, TRUNCATED):
                break
        found[begun, env] = total
    return found


def test_a_critics_advantages_are_brute_forces_at_every_kind_of_end():
    made, rollout = creditor(), block()
    assert isinstance(made, GaeEstimator)
    made.critic = Reader()  # pyright: ignore[reportAttributeAccessIssue]
    credit = made.compute_advantages(rollout)
    want = torch.tensor(list(brute_force(credit.metrics["return_scale"]).values()))
    assert len(want) == T * B - 1
    torch.testing.assert_close(credit.adv, (want - want.mean()) / want.std())


@pytest.mark.parametrize(("critic_lambda", "lam"), [(None, LAM), (0.0, 0.0), (1.0, 1.0)])
def test_the_critic_is_fitted_to_returns_of_its_own_lambda(critic_lambda, lam, monkeypatch):
    made, rollout, fitted = creditor(critic_lambda=critic_lambda), block(), list[Tensor]()
    made.critic = Reader()  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setattr(made, "_fit", lambda _, returns: fitted.append(returns) or {})
    credit = made.compute_advantages(rollout)
    unit = credit.metrics["return_scale"]
    adv = torch.tensor(list(brute_force(unit).values()))
    torch.testing.assert_close(credit.adv, (adv - adv.mean()) / adv.std())
    want = {at: adv + float(SEEN[at]) for at, adv in brute_force(unit, lam).items()}
    found = {at: fitted[0][at] for at in want}
    torch.testing.assert_close(torch.stack(list(found.values())), torch.tensor([*want.values()]))


@pytest.mark.parametrize("kind", ["gae", "monte_carlo"])
@pytest.mark.parametrize("rows", [0, 1])
def test_a_block_of_fewer_than_two_decisions_teaches_nothing(kind, rows):
    made, rollout = creditor(advantage=kind), block()
    valid = (torch.arange(T * B) < rows).view(T, B)
    before = weights(made)
    credit = made.compute_advantages(replace(rollout, valid=valid))
    assert credit.adv.shape == (0,)
    assert not bool(credit.rollout.valid.any())
    assert torch.equal(weights(made), before)
    assert all(value == value for value in credit.metrics.values())


@pytest.mark.parametrize("kind", ["gae", "monte_carlo"])
def test_two_decisions_are_compared(kind):
    """Of mean 0 and std 1, which of two numbers are ±√½."""
    made, rollout = creditor(advantage=kind), block()
    credit = made.compute_advantages(replace(rollout, valid=(torch.arange(T * B) < 2).view(T, B)))
    assert credit.adv.abs().tolist() == pytest.approx([0.5**0.5] * 2)
    assert float(credit.adv.sum()) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    ("fields", "kind", "warmup"),
    [
        ({"warmup_updates": 3}, GaeEstimator, 3),
        ({"warmup_updates": 3, "advantage": "monte_carlo"}, MonteCarloEstimator, 0),
        ({"warmup_updates": 3, "group_size": 2}, GroupRelativeEstimator, 0),
    ],
)
def test_only_what_has_a_critic_is_warmed_up(fields, kind, warmup):
    made = creditor(**fields)
    assert type(made) is kind
    assert made.warmup_updates == warmup


def test_a_decision_that_counts_for_nothing_stands_where_only_others_have_any(monkeypatch):
    """Its advantage is 0 and it is nobody's; what has rows, or is alone, stays as it is."""
    lost = replace(block(), valid=torch.zeros_like(block().valid))
    nothing = Advantages(lost, torch.zeros(0), {"a": 1.0})
    assert pad_empty_rank(nothing) is nothing
    monkeypatch.setattr(credit_module, "global_count", lambda count: count + 5)
    found = pad_empty_rank(nothing)
    assert found.adv.tolist() == [0.0]
    assert found.rollout.shards is not None
    assert found.rollout.shards.tolist() == [PADDING_SHARD]
    assert not lost.valid.any()
    some = Advantages(block(), torch.ones(3), {})
    assert pad_empty_rank(some) is some


@pytest.mark.parametrize("without", [{"group_size": 8}, {"advantage": "monte_carlo"}])
@pytest.mark.parametrize("setting", [{"critic_lambda": 0.9}, {"critic_reads": "embedding"}])
def test_a_setting_of_a_critic_that_is_not_there_is_refused(without, setting):
    assert AdvantageConfig().has_critic
    assert not AdvantageConfig.model_validate(without).has_critic
    with pytest.raises(ValidationError, match="has no critic; leave it out"):
        AdvantageConfig.model_validate({**without, **setting})
