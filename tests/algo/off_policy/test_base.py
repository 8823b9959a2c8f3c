"""What SAC and TD3 share: targets, pace, resuming, demonstrations; an optimum that is known."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from small_control import GAIN, NUM_ENVS, Control, control_policy, gain

from robo_rl.algo.off_policy.base import OffPolicy
from robo_rl.algo.off_policy.sac import Sac
from robo_rl.algo.off_policy.td3 import Td3
from robo_rl.data.replay import Transitions
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.pytree import flatten

TINY = {"members": 2, "hidden": [16]}
NARROW = {"name": "gaussian", "std_min": 0.02, "std_max": 0.5}
CASES = [
    (Sac, "gaussian", {"sampler": NARROW}),
    pytest.param(Td3, "gaussian", {}, marks=pytest.mark.slow),
    pytest.param(Sac, "flow", {"finetune_steps": 1}, marks=pytest.mark.slow),
    pytest.param(Td3, "flow", {"finetune_steps": 1}, marks=pytest.mark.slow),
]
IDS = ["sac", "td3", "sac of a flow", "td3 of a flow"]


def learner(algo: Any, policy: DenoisingPolicy, **fields: Any) -> OffPolicy:
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(1)
    given = {"critic": TINY, "minibatch": 16, "warmup_decisions": 0, **fields}
    return algo(algo.Config.model_validate(given), policy, NUM_ENVS, generator)


def transitions() -> Transitions:
    """Two of reward 2 and discount 0.81, of which the second ends its task."""
    obs = {"x": torch.tensor([[[0.5]], [[-0.5]]])}
    return Transitions(
        obs=obs,
        act=torch.zeros(2, 1, 1),
        rew=torch.tensor([2.0, 2.0]),
        discount=torch.tensor([0.81, 0.81]),
        terminated=torch.tensor([False, True]),
        next_obs=obs,
        num_exec=torch.ones(2, dtype=torch.int64),
        demo=torch.zeros(2, dtype=torch.bool),
        human=torch.zeros(2, dtype=torch.bool),
        row=torch.arange(2),
        next_row=torch.arange(2),
    )


def say(algo: OffPolicy, *values: float) -> None:
    """Have the target critics say these values, whatever they see."""
    last: Any = algo.target.module.net.layers[-1]
    last.weight.zero_()
    last.bias.copy_(torch.tensor(values)[:, None, None])


def targets(algo: OffPolicy, batch: Transitions) -> torch.Tensor:
    """What the critics are moved towards."""
    with torch.no_grad():
        return algo.backup.targets(batch, *algo.actor.next_action(batch.next_obs))


@pytest.mark.parametrize(
    ("rule", "first"),
    [
        ({"mode": "min"}, 2.81),  # 2 + 0.81·1
        ({"mode": "mean"}, 3.62),  # 2 + 0.81·2
        ({"mode": "lower_bound", "kappa": 0.5}, 3.215),  # 2 + 0.81·(2 − 0.5·1)
        ({"mode": "subset_min", "subset": 2}, 2.81),
    ],
)
def test_targets_by_hand(rule, first):
    td3 = learner(Td3, control_policy(), target_aggregation=rule)
    say(td3, 1.0, 3.0)
    torch.testing.assert_close(targets(td3, transitions()), torch.tensor([first, 2.0]))


@pytest.mark.parametrize("inside", [True, False])
def test_soft_targets_pay_for_certainty(inside):
    policy = control_policy(sampler={"name": "gaussian", "std_min": 0.05, "std_max": 0.2})
    sac = learner(Sac, policy, temperature=0.5, entropy_in_target=inside)
    say(sac, 1.0, 3.0)
    batch, seed = transitions(), sac.generator.get_state()
    act = policy.sample(batch.next_obs, sac.generator).act[:, 0, 0]
    sac.generator.set_state(seed)
    mean = policy.act(batch.next_obs, torch.Generator())[:, 0, 0]
    # of noise with the middle of the bounds, √(0.05·0.2) = 0.1
    log_prob = -0.5 * ((act - mean) / 0.1) ** 2 - torch.tensor(0.1).log() - 0.9189385
    value = 1.0 - 0.5 * log_prob[0] * inside
    wanted = torch.stack([2.0 + 0.81 * value, torch.tensor(2.0)])
    torch.testing.assert_close(targets(sac, batch), wanted.detach())


def test_steps_keep_pace_with_decisions(monkeypatch: pytest.MonkeyPatch):
    policy, world = control_policy(), Control()
    fields = {"utd_ratio": 0.11, "warmup_decisions": 2 * NUM_ENVS, "critic_warmup_steps": 5}
    td3 = learner(Td3, policy, **fields)
    before, at, update = copy.deepcopy(policy.state_dict()), list[int](), td3.actor.update

    def updated(*given: Any) -> Any:
        at.append(td3.steps)
        return update(*given)

    monkeypatch.setattr(td3.actor, "update", updated)
    steps = [td3.update(world.rollout(policy, 1))["gradient_steps"] for _ in range(4)]
    assert steps == [0.0, 3.0, 7.0, 10.0]  # 0, then 3.52, 7.04, 10.56 in all
    moved = {name for name, x in policy.state_dict().items() if not torch.equal(x, before[name])}
    assert moved
    assert at == [6, 8, 10]
    assert td3.updates == 4


def test_the_critic_may_go_first_and_the_actor_wait():
    policy, world = control_policy(), Control()
    td3 = learner(Td3, policy, utd_ratio=0.25, critic_warmup_steps=9)
    before = [x.clone() for x in policy.parameters()]
    td3.update(world.rollout(policy, 1))
    assert td3.steps == 8
    assert all(torch.equal(x, y) for x, y in zip(policy.parameters(), before, strict=True))


@pytest.mark.parametrize(("algo", "family", "fields"), CASES, ids=IDS)
def test_it_continues_from_its_state_to_the_bit(algo, family, fields):
    results, settings = [], {"utd_ratio": 0.1, "replay": {"n_step": 2}}
    if algo is Sac:
        settings["entropy_in_target"] = False
    for interrupted in (False, True):
        policy, world = control_policy(family, **fields), Control()
        learning = learner(algo, policy, **settings)
        for block in range(4):
            learning.update(world.rollout(policy, 2))
            if interrupted and block == 1:
                state = copy.deepcopy(learning.state_dict())
                drawn = learning.generator.get_state()
                policy = control_policy(family, **fields)
                for weight in policy.net.parameters():
                    torch.nn.init.zeros_(weight)
                learning = learner(algo, policy, **settings)
                learning.load_state_dict(state)
                learning.generator.set_state(drawn)
        results.append([*policy.parameters(), *learning.target.module.parameters()])
        assert (learning.updates, learning.decisions, learning.steps) == (4, 256, 25)
    assert all(torch.equal(x, y) for x, y in zip(*results, strict=True))


@pytest.mark.parametrize(("algo", "family", "fields"), CASES, ids=IDS)
def test_going_back_brings_critics_along_and_halves_the_rate(algo, family, fields):
    policy, world = control_policy(family, **fields), Control()
    learning = learner(algo, policy, utd_ratio=0.1)
    learning.update(world.rollout(policy, 2))
    state, unit = copy.deepcopy(learning.actor_state()), learning.scale.std
    before = restored(learning)
    learning.update(world.rollout(policy, 2))
    assert not torch.equal(restored(learning)[-1], before[-1])
    assert learning.scale.std != unit
    learning.rollback(copy.deepcopy(state))
    assert all(torch.equal(x, y) for x, y in zip(restored(learning), before, strict=True))
    assert learning.scale.std == unit
    assert learning.lr == pytest.approx(0.5 * 3e-4)
    learning.update(world.rollout(policy, 2))  # and goes on
    assert all(x.isfinite().all() for x in policy.parameters())


def restored(learning: OffPolicy) -> list[torch.Tensor]:
    """Copies of the weights of policy, critics and target, and of the critics' optimiser."""
    modules = learning.policy, learning.critic, learning.target.module
    moments, _ = flatten(learning.q_learner.optimizer.states_of(("optim",)))
    held = [*(x for module in modules for x in module.parameters()), *moments.values()]
    return [x.detach().clone() for x in held]


def test_going_back_to_untrained_critics_repeats_their_warm_up():
    policy, world = control_policy(), Control()
    td3 = learner(Td3, policy, utd_ratio=0.25, critic_warmup_steps=8)
    fresh = copy.deepcopy(td3.actor_state())
    for _ in range(2):
        td3.update(world.rollout(policy, 1))
    td3.rollback(fresh)
    still = []
    for _ in range(2):
        before = [x.clone() for x in policy.parameters()]
        td3.update(world.rollout(policy, 1))
        still.append(all(map(torch.equal, policy.parameters(), before)))
    assert still == [True, False]
    assert td3.steps == 32


@pytest.mark.parametrize("algo", [Sac, Td3])
def test_the_unit_of_rewards_does_not_matter(algo):
    results = []
    for unit in (1.0, 1024.0):  # a power of two, so that nothing is rounded otherwise
        policy, world = control_policy(sampler=NARROW), Control()
        learning = learner(algo, policy, utd_ratio=0.1)
        for _ in range(3):
            block = world.rollout(policy, 2)
            learning.update(replace(block, rew=unit * block.rew))
        results.append(list(policy.parameters()))
    assert all(torch.equal(x, y) for x, y in zip(*results, strict=True))


@pytest.mark.parametrize("share", [0.0, 0.25])
def test_demonstrations_have_their_share(share):
    policy, world = control_policy(), Control()
    td3 = learner(Td3, policy, replay={"demo_fraction": share})
    zeros = torch.zeros(10)
    rows: dict[str, Any] = {
        "obs.x": torch.zeros(10, 1, 1),
        "act": torch.zeros(10, 1, 1),
        "rew": zeros,
        "discount": torch.full((10,), 0.9),
        "terminated": zeros.bool(),
        "num_exec": torch.ones(10, dtype=torch.int64),
        "next": (torch.arange(10) + 1).clamp(max=9),
        "decision": torch.arange(10) < 9,
    }
    assert td3.takes_demonstrations == Td3.learns_from_dataset(td3.cfg) == (share > 0)
    if share:
        td3.add_demonstrations(rows)
    td3.update(world.rollout(policy, 1))
    assert int(td3.replay.sample(16, td3.generator).demo.sum()) == round(16 * share)
    assert td3.replay.num_demos == (9 if share else 0)


@pytest.mark.parametrize(("algo", "family", "fields"), CASES, ids=IDS)
def test_the_optimum_is_found(algo, family, fields):
    policy, world = control_policy(family, **fields), Control()
    learning = learner(
        algo,
        policy,
        lr=1e-3,
        critic_lr=1e-3,
        minibatch=128,
        utd_ratio=0.3,
        target_ema=0.9,
        critic={"members": 2, "hidden": [64, 64]},
    )
    for _ in range(12):
        learning.update(world.rollout(policy, 5))
    assert gain(policy, learning.generator) == pytest.approx(GAIN, abs=0.06)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hl_gauss", "categorical"])
def test_a_histogram_finds_it_too(kind):
    policy, world = control_policy(), Control()
    head = {"kind": kind, "bounds": (-8.0, 0.0), "bins": 51}
    critic = {"members": 2, "hidden": [64, 64], "head": head}
    rates = {"lr": 1e-3, "critic_lr": 1e-3, "minibatch": 128, "utd_ratio": 0.3}
    td3 = learner(Td3, policy, critic=critic, target_ema=0.98, scale_rewards=False, **rates)
    for _ in range(12):
        td3.update(world.rollout(policy, 5))
    assert gain(policy, td3.generator) == pytest.approx(GAIN, abs=0.1)
