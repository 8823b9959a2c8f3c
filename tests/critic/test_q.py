"""The action-value critic: what it reads, and the fixed point of its temporal differences."""

from __future__ import annotations

import pytest
import torch
from small_policies import ACT, OBS, make_obs

from robo_rl.algo.offline_critics.base import OfflineCriticsConfig
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.critic.heads import HeadConfig
from robo_rl.critic.q import QCritic, td_target
from robo_rl.data.normalize import Normalizer
from robo_rl.data.statistics import KeyStats, Stats
from robo_rl.ope.fqe import Fqe
from robo_rl.optim.ema import Ema

H, E = 3, 2


def make(cfg: QCritic.Config | None = None, normalizer: Normalizer | None = None) -> QCritic:
    torch.manual_seed(0)
    return QCritic(
        cfg or QCritic.Config(hidden=(32, 32)),
        OBS,
        ACT,
        obs_horizon=1,
        exec_horizon=E,
        normalizer=normalizer or Normalizer.identity(OBS, ACT),
    )


def rows(number: int) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    obs = {name: value.float() for name, value in make_obs(number).items()}
    return obs, 1.6 * torch.rand(number, H, ACT.size, generator=generator) - 0.8


@pytest.mark.parametrize("config", [OfflineCriticsConfig, Fqe.Config])
def test_critics_that_learn_values_refuse_to_learn_distributions(config):
    head = {"kind": "categorical", "bounds": (0.0, 1.0)}
    with pytest.raises(ValueError, match="take two_hot or hl_gauss"):
        config.model_validate({"critic": {"members": 8, "head": head}})


@pytest.mark.parametrize("kind", ["mse", "hl_gauss"])
def test_one_value_a_member_and_row_of_observation_and_chunk(kind):
    head = HeadConfig(kind=kind, bounds=(0.0, 1.0))
    critic = make(QCritic.Config(members=3, hidden=(32, 32), head=head))
    obs, act = rows(6)
    value = critic(obs, act)
    assert value.shape == (3, 6)
    assert torch.equal(value, critic.values_from_features(critic.encode(obs), act))
    for name in obs:
        changed = {**obs, name: obs[name].clone()}
        changed[name][4] += 1.0
        moved = (critic(changed, act) - value).abs()
        assert moved[:, 4].min() > 1e-6
        assert moved[:, [0, 1, 2, 3, 5]].max() < 1e-6


def test_only_what_is_executed_counts():
    critic, (obs, act) = make(), rows(6)
    value = critic(obs, act)
    behind, within = act.clone(), act.clone()
    behind[:, E:] += 0.5
    within[:, E - 1] += 0.1
    assert torch.equal(critic(obs, behind), value)
    assert not torch.isclose(critic(obs, within), value).any()


def test_beyond_the_limits_is_as_at_the_limits_in_the_units_of_the_env():
    """ACT is clipped at ±1; in the normaliser's units, 0.5 and scale 0.25, that is at −6 and 2."""
    critic = make(normalizer=_normalizer(shift=0.5, scale=0.25))
    obs, act = rows(6)
    upper, lower = torch.full_like(act, 2.0), torch.full_like(act, -6.0)
    assert torch.equal(critic(obs, upper), critic(obs, upper + 3.0))
    assert torch.equal(critic(obs, lower), critic(obs, lower - 3.0))
    assert not torch.isclose(critic(obs, upper), critic(obs, upper - 0.5)).any()
    far = (upper + 3.0).requires_grad_()
    critic(obs, far).sum().backward()
    assert far.grad is not None
    assert far.grad.abs().max() == 0.0


def test_its_loss_trains_every_member_as_if_it_were_alone():
    critic, (obs, act) = make(), rows(6)
    target = torch.linspace(0.0, 1.0, 6)
    loss = critic.loss(obs, act, target)
    assert loss.shape == (4, 6)
    torch.testing.assert_close(loss, 0.5 * (critic(obs, act) - target).square())
    weights = next(critic.net.parameters())
    (alone,) = torch.autograd.grad(loss[1].mean(), weights, retain_graph=True)
    (together,) = torch.autograd.grad(loss.mean(dim=1).sum(), weights)
    torch.testing.assert_close(together[1], alone[1])


@pytest.mark.parametrize(
    "kind",
    ["mse", "hl_gauss", *(pytest.param(n, marks=pytest.mark.slow) for n in ("huber", "two_hot"))],
)
def test_temporal_differences_find_the_values_of_a_chain(kind, generator):
    """Three states in a row; right moves on, and from the last one ends with reward 1; left stays.

    With γ = 0.9 the best values are V = (0.81, 0.9, 1): Q(s, right) = V(s), Q(s, left) = 0.9 V(s).
    """
    obs_spec = ObsSpec(items={"state": TensorSpec(shape=(3,))})
    act_spec = ActSpec(shape=(1,), rate_hz=1.0, low=(-1.0,), high=(1.0,))
    state, right = torch.eye(3).repeat_interleave(2, dim=0), torch.tensor([0.0, 1.0] * 3)
    to = torch.tensor([0, 1, 1, 2, 2, 2])
    ends = torch.tensor([False] * 5 + [True])
    torch.manual_seed(0)
    critic = QCritic(
        QCritic.Config(
            members=2, hidden=(64,), head=HeadConfig(kind=kind, bounds=(0.0, 1.0), bins=51)
        ),
        obs_spec,
        act_spec,
        obs_horizon=1,
        exec_horizon=1,
        normalizer=Normalizer.identity(obs_spec, act_spec),
    )
    obs, act = {"state": state[:, None]}, (2.0 * right - 1.0)[:, None, None]
    target = Ema(critic, decay=0.9)
    optim = torch.optim.Adam(critic.net.parameters(), lr=3e-3)
    both = torch.tensor([-1.0, 1.0]).repeat(6)[:, None, None]
    for _ in range(600):
        with torch.no_grad():
            features = target.module.encode({"state": torch.eye(3)[to][:, None]})
            following = target.module.values_from_features(
                features.repeat_interleave(2, dim=0), both
            )
            best = following.amin(dim=0).view(6, 2).amax(dim=1)
            y = td_target(ends.float(), torch.full((6,), 0.9), ends, best)
        optim.zero_grad()
        critic.loss(obs, act, y).mean(dim=1).sum().backward()
        optim.step()
        target.update(critic)
    expected = torch.tensor([0.729, 0.81, 0.81, 0.9, 0.9, 1.0]).expand(2, 6)
    torch.testing.assert_close(critic(obs, act).detach(), expected, rtol=0.0, atol=0.01)


def test_a_target_goes_on_after_truncation_and_not_after_termination():
    found = td_target(
        torch.tensor([1.0, 1.0]),
        torch.tensor([0.5, 0.5]),
        torch.tensor([True, False]),
        torch.tensor([10.0, 10.0]),
    )
    assert found.tolist() == [1.0, 6.0]


def _normalizer(shift: float, scale: float) -> Normalizer:
    sizes = {**{f"obs.{name}": spec.shape for name, spec in OBS.items.items()}, "act": ACT.shape}
    keys = {}
    for key, shape in sizes.items():
        mean, one = torch.full(shape, shift), torch.full(shape, scale)
        keys[key] = KeyStats(low=mean - one, high=mean + one, mean=mean, std=one)
    return Normalizer.from_stats(Stats(keys=keys, digest=""))
