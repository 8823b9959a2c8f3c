"""The actor's epochs: options that are off change nothing, averages follow, states come back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from small_blocks import ROWS, acted
from small_policies import make_obs, make_policy
from torch import Tensor

from robo_rl.algo.ppo.actor_update import ActorConfig, PpoActor
from robo_rl.algo.ppo.surrogate_loss import SurrogateLoss
from robo_rl.data.rollout import executed_mask
from robo_rl.data.running_obs_stats import RunningObsStats
from robo_rl.optim.minibatches import Minibatches

ADV = torch.linspace(-1.0, 1.0, ROWS).double()


def actor(shift: float = 0.0, **fields: Any) -> PpoActor:
    cfg = ActorConfig.model_validate({"minibatch": 16, "lr": 1e-3, **fields})
    policy = make_policy("flow_noise", 4)
    with torch.no_grad():
        policy.net.out.bias += shift
    return PpoActor(cfg, policy, torch.Generator().manual_seed(0))


def fit(made: PpoActor, updates: int = 1) -> list[dict[str, float]]:
    return [made.update(acted(made.policy), ADV) for _ in range(updates)]


def weights(policy) -> Tensor:
    return torch.cat([p.detach().flatten() for p in policy.parameters() if p.requires_grad])


def averaged(policy) -> Tensor:
    """All weights, also those that take no gradient."""
    return torch.cat([p.detach().flatten() for p in policy.parameters()])


@pytest.mark.parametrize(
    "fields",
    [
        {"clip_high": 0.2},
        {"log_ratio_max": 50.0},
        {"trust_region": "dual_clip"},
        {"ema_decay": 0.9},
    ],
)
def test_an_option_that_is_off_or_does_not_bind_leaves_every_weight_as_it_is(fields):
    plain, other = (actor(target_kl=1.0, lr_probe=False, **each) for each in ({}, fields))
    losses = [fit(each, 3) for each in (plain, other)]
    assert losses[0] == losses[1]
    assert torch.equal(weights(plain.policy), weights(other.policy))


def test_a_proximal_policy_that_never_moves_is_the_acting_one():
    """In the first update of all, with an average so slow that it stays where it began."""
    plain, other = actor(target_kl=1.0), actor(target_kl=1.0, proximal_ema=0.5)
    assert other.proximal_ema is not None
    other.proximal_ema.update = lambda module: None
    assert fit(plain)[0]["clip_fraction"] == pytest.approx(fit(other)[0]["clip_fraction"])
    torch.testing.assert_close(weights(plain.policy), weights(other.policy), rtol=0, atol=1e-9)


def test_a_proximal_policy_lies_between_the_past_and_the_present():
    made = actor(target_kl=1.0, proximal_ema=0.8)
    before = weights(make_policy("flow_noise", 4))
    metrics = fit(made, 2)
    assert made.proximal_ema is not None
    after, lagging = weights(made.policy), averaged(made.proximal_ema.module)
    behind, ahead = float((lagging - before).norm()), float((after - before).norm())
    assert 0.1 * ahead < behind < 0.95 * ahead
    assert metrics[1]["ratio_error"] < 1e-9  # the first ratio is still to the acting policy


def test_what_is_judged_explores_as_the_policy_does_by_now():
    sampler = {"name": "flow_noise", "std_max": {"start": 0.5, "end": 0.1}}
    policy = make_policy("flow_noise", 4, sampler=sampler)
    cfg = ActorConfig(minibatch=16, ema_decay=0.9)
    made = PpoActor(cfg, policy, torch.Generator().manual_seed(0))
    policy.set_progress(1.0)
    assert made.eval_policy().progress == 1.0
    assert made.eval_policy().sampler is policy.sampler


@pytest.mark.parametrize("rates", [{"lr": 2e-3}, {"lr": 1e-7}, {"lr_min": 1e-2, "lr_max": 1e-3}])
def test_a_rate_beyond_its_bounds_is_refused(rates):
    with pytest.raises(ValidationError, match="expected from lr_min"):
        ActorConfig(**rates)


def test_what_is_judged_is_the_average_where_one_is_kept():
    plain, made = actor(), actor(ema_decay=0.5)
    assert plain.eval_policy() is plain.policy
    fit(made, 2)
    judged = made.eval_policy()
    assert judged is not made.policy
    start, end = weights(make_policy("flow_noise", 4)), weights(made.policy)
    assert 0.0 < float((averaged(judged) - end).norm()) < float((start - end).norm())


@pytest.mark.parametrize(
    "fields",
    [
        {"ema_decay": 0.9, "proximal_ema": 0.9},
        {"regularization": {"forward_kl": 0.3, "bc_reference": 0.1}},
    ],
)
def test_it_continues_from_its_state_to_the_bit(fields):
    whole = actor(**fields)
    fit(whole, 3)
    first = actor(**fields)
    fit(first, 2)
    second = actor(shift=1.0, **fields)  # nothing that it has seen may show, its base neither
    fit(second)
    second.load_state_dict(first.state_dict())
    second.generator.set_state(first.generator.get_state())
    fit(second)
    assert torch.equal(weights(whole.policy), weights(second.policy))
    assert torch.equal(averaged(whole.eval_policy()), averaged(second.eval_policy()))


def test_it_continues_beside_its_base_where_statistics_move():
    """The base is made anew when a state is loaded, and is the one of a run that goes on."""
    fields = {"regularization": {"reverse_kl": 3.0, "bc_reference": 0.1}, "target_kl": 10.0}

    def updates(made: PpoActor, tracker: RunningObsStats, number: int) -> None:
        for _ in range(number):
            fit(made)
            tracker.update({name: 2.0 + 3.0 * o for name, o in make_obs(500, seed=4).items()})

    whole, first, second = (actor(**fields) for _ in range(3))
    trackers = [RunningObsStats(each.policy.normalizer) for each in (whole, first, second)]
    updates(whole, trackers[0], 3)
    updates(first, trackers[1], 2)
    second.load_state_dict(first.state_dict())
    second.generator.set_state(first.generator.get_state())
    trackers[2].load_state_dict(trackers[1].state_dict())
    updates(second, trackers[2], 1)
    assert torch.equal(weights(whole.policy), weights(second.policy))


@torch.no_grad()
def chain_kl(after: Any, before: Any) -> float:
    """KL(before ‖ after) of the decisions that ``before`` acts, summed over a chain's steps."""
    block, total = acted(before), torch.zeros(ROWS, dtype=torch.float64)
    obs = {name: o[0] for name, o in block.obs.items()}
    x, mask = block.x[0], executed_mask(block.num_exec[0], before.horizon)
    for k in range(before.num_steps):
        now, then = (
            p.kernel(p.encode(obs), torch.full((ROWS,), k), x[:, k]) for p in (after, before)
        )
        total += (then.kl(now) * mask).sum(dim=(1, 2))
    return float(total.mean())


@pytest.mark.parametrize("mode", ["joint", "per_step"])
def test_a_step_that_leads_the_chains_kl_above_twice_its_target_is_taken_back(mode):
    """With one minibatch an epoch and a target that the KL passes twice of by its third step.

    What the KL is after so many steps is taken from updates that nothing stops.
    """
    fields = {"ratio": mode, "minibatch": 10_000, "lr": 3e-5, "kl_trim": 0.0, "lr_probe": False}
    kls = []
    for epochs in (1, 2, 3):
        made = actor(**fields, target_kl=1e3, epochs=epochs)
        assert fit(made)[0]["actor_steps"] == epochs
        kls.append(chain_kl(made.policy, make_policy("flow_noise", 4)))
    limit = 0.5 * (kls[1] + kls[2])
    held = actor(**fields, target_kl=0.5 * limit, epochs=20)
    metrics = fit(held)[0]
    assert metrics["actor_steps"] == 2
    assert metrics["kl"] == pytest.approx(kls[1], rel=1e-6)
    assert chain_kl(held.policy, make_policy("flow_noise", 4)) == pytest.approx(kls[1])
    assert held.lr == pytest.approx(3e-5 * (kls[2] / (0.5 * limit)) ** -0.5)
    # a quarter of the KL, that of one unit of four, would stop later; four times the KL sooner
    assert kls[1] < limit < kls[2] < 4.0 * limit < 16.0 * kls[1]


def test_one_row_that_is_far_away_does_not_stop_an_update(monkeypatch: pytest.MonkeyPatch):
    """A unit with the KL of all others together: by the plain mean no step is left."""
    steps, metrics = {}, {}
    for trim in (0.0, 0.03):
        made = actor(minibatch=10_000, lr=1e-5, target_kl=1e-2, kl_trim=trim, lr_probe=False)
        monkeypatch.setattr(made, "_loss", partial(_with_outlier, made._loss))
        metrics[trim] = fit(made)[0]
        steps[trim] = metrics[trim]["actor_steps"]
    assert steps == {0.0: 0.0, 0.03: 4.0}
    assert metrics[0.03]["kl"] < 1e-2 < metrics[0.03]["kl_mean"] < metrics[0.03]["kl_max"]
    assert metrics[0.03]["step_rollbacks"] == 0.0


def _with_outlier(loss: Callable[..., SurrogateLoss], *args: Any) -> SurrogateLoss:
    found = loss(*args)
    kl = found.kl.clone()
    kl[7] += 5.0
    return found._replace(kl=kl)


@pytest.mark.parametrize("lr", [1e-5, 1e-3])
@pytest.mark.parametrize("fields", [{}, {"ratio": "per_step"}, {"ratio": "cfm"}])
def test_the_probe_sets_a_rate_whose_first_step_takes_its_share(lr: float, fields: dict[str, str]):
    """One minibatch an epoch, 4 epochs: the share is half of the target.

    The factor of 5 is for ``cfm``, whose estimates differ between draws of noise and time.
    """
    settings = {**fields, "minibatch": 10_000, "target_kl": 0.02}
    made = actor(**settings, lr=lr, epochs=4)
    objective = made._objective(acted(made.policy), ADV)
    before, state = weights(made.policy), made.state_dict()["optimizer"]
    made._probe(objective, Minibatches(objective.size, 10_000, made.generator))
    assert torch.equal(weights(made.policy), before)
    assert made.optimizer.is_fresh
    assert state["optim"]["state"] == made.state_dict()["optimizer"]["optim"]["state"] == {}
    free = actor(**settings, lr=made.lr, epochs=1, lr_probe=False)
    assert 1 / 5 < fit(free)[0]["kl"] / 0.01 < 5.0


@pytest.mark.parametrize(
    "fields", [{"lr_min": 1e-3, "lr_max": 1e-3}, {"target_kl": 0.0}, {"lr_probe": False}]
)
def test_without_an_adaptive_rate_nothing_is_probed(fields: dict[str, Any]):
    assert not actor(**fields)._probes()


def test_only_the_first_update_probes():
    made = actor()
    assert made._probes()
    fit(made)
    assert not made._probes()
    again = actor(shift=1.0)
    again.load_state_dict(made.state_dict())
    assert not again._probes()


@pytest.mark.parametrize("average", ["ema_decay", "proximal_ema"])
def test_an_average_does_not_count_the_step_that_is_taken_back(average: str):
    fields = {"minibatch": 10_000, "lr": 3e-5, "lr_probe": False, average: 0.9}
    free = actor(epochs=2, target_kl=1e3, **fields)
    fit(free)
    reached = chain_kl(free.policy, make_policy("flow_noise", 4))
    held = actor(epochs=20, target_kl=0.51 * reached, **fields)
    steps = fit(held)[0]["actor_steps"]
    counted = held.state_dict()["average" if average == "ema_decay" else "proximal_ema"]["updates"]
    assert 1 < steps < 20
    assert counted == steps


def test_an_anchor_to_the_base_holds_a_policy_back():
    """The same advantages move it less far, from the base that it began as."""
    moved = []
    for coefficient in (0.0, 30.0):
        made = actor(target_kl=10.0, epochs=10, regularization={"reverse_kl": coefficient})
        start = weights(make_policy("flow_noise", 4))
        fit(made, 3)
        moved.append(float((weights(made.policy) - start).norm()))
    assert moved[1] < 0.8 * moved[0]


def test_two_policies_to_stay_near_are_one_too_many():
    for other in ({"ratio_norm": "guard"}, {"ratio_reduction": "mean"}):
        with pytest.raises(ValidationError, match="proximal_ema"):
            ActorConfig.model_validate({**other, "proximal_ema": 0.9})
