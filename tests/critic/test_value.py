"""The value critic: one number a row, of the normalised observation."""

from __future__ import annotations

import pytest
import torch
from small_policies import ACT, OBS, make_obs

from robo_rl.critic.value import ValueCritic
from robo_rl.data.normalize import Normalizer
from robo_rl.data.statistics import KeyStats, Stats

CFG = ValueCritic.Config(hidden=(32, 32))


def rows(number: int, horizon: int = 1) -> dict[str, torch.Tensor]:
    obs = {name: value.float() for name, value in make_obs(number).items()}
    return {
        name: value.repeat_interleave(horizon, dim=1) + torch.arange(horizon)[None, :, None]
        for name, value in obs.items()
    }


def make(horizon: int = 1, normalizer: Normalizer | None = None) -> ValueCritic:
    torch.manual_seed(0)
    return ValueCritic(CFG, OBS, horizon, normalizer or Normalizer.identity(OBS, ACT))


@pytest.mark.parametrize("horizon", [1, 3])
def test_gives_one_value_a_row_of_the_whole_history(horizon):
    critic, obs = make(horizon), rows(6, horizon)
    value = critic(obs)
    assert value.shape == (6,)
    for name in obs:
        changed = {**obs, name: obs[name].clone()}
        changed[name][4, 0] += 1.0
        moved = (critic(changed) - value).abs()
        assert moved[4] > 1e-4
        assert moved[[0, 1, 2, 3, 5]].max() < 1e-6


def test_sees_what_the_policy_sees_whatever_the_units():
    """Observations in other units under their own normaliser have the same value."""
    plain, critic = rows(6), make()
    scaled = Normalizer.from_stats(_stats(shift=3.0, scale=1000.0), dict.fromkeys(KEYS, "standard"))
    other = make(normalizer=scaled)
    in_mm = {name: 1000.0 * value + 3.0 for name, value in plain.items()}
    torch.testing.assert_close(other(in_mm), critic(plain), rtol=1e-4, atol=1e-4)


def test_learns_a_value():
    critic, obs = make(), rows(64)
    target = obs["pos"][:, 0].sum(-1) + obs["goal"][:, 0, 0] ** 2
    optim = torch.optim.Adam(critic.net.parameters(), lr=3e-3)
    for _ in range(300):
        optim.zero_grad()
        (critic(obs) - target).square().mean().backward()
        optim.step()
    assert (critic(obs) - target).square().mean() < 0.02 * target.var()


KEYS = (*(f"obs.{name}" for name in OBS.items), "act")


def _stats(shift: float, scale: float) -> Stats:
    sizes = {**{f"obs.{name}": spec.shape for name, spec in OBS.items.items()}, "act": ACT.shape}
    keys = {}
    for key, shape in sizes.items():
        mean, one = torch.full(shape, shift), torch.full(shape, scale)
        keys[key] = KeyStats(low=mean - 3 * one, high=mean + 3 * one, mean=mean, std=one)
    return Stats(keys=keys, digest="")
