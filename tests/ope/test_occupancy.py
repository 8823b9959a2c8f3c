"""Ratios of two kinds of decisions whose densities are known."""

from __future__ import annotations

import pytest
import torch

from robo_rl.core.errors import DataError
from robo_rl.ope.occupancy import OccupancyRatio, WeightedDecisions

M, N = 4, 1500


def kinds(seed: int = 0) -> tuple[WeightedDecisions, WeightedDecisions]:
    """Of mean 0.5 and of mean −0.5, deviation 1; half of either is left out by each member."""
    generator = torch.Generator().manual_seed(seed)
    found: list[WeightedDecisions] = []
    for mean in (0.5, -0.5):
        inputs = mean + torch.randn(N, 2, generator=generator)
        inputs[:, 1] -= mean  # which tells nothing
        kept = (torch.rand(M, N, generator=generator) < 0.5).float()
        found.append(WeightedDecisions(inputs.expand(M, N, 2), kept, 1.0 - kept))
    return found[0], found[1]


def begun(steps: int, noise: float = 0.1, seed: int = 0) -> OccupancyRatio:
    torch.manual_seed(2)
    cfg = OccupancyRatio.Config(
        hidden=(16,), steps=steps, minibatch=128, lr=3e-3, noise=noise, eval_every=10
    )
    return OccupancyRatio(cfg, *kinds(seed), torch.Generator().manual_seed(3))


def test_odds_are_the_ratio_of_the_densities():
    """Of two normal laws a distance of 1 apart, log-ratio x."""
    learner = begun(300)
    for _ in range(300):
        learner.step()
    learner.finish()
    at = torch.tensor([-1.0, 0.0, 1.0])
    inputs = torch.stack([at, torch.zeros(3)], dim=1)
    found = learner.ratios(inputs.expand(M, 3, 2)).log().mean(dim=0)
    torch.testing.assert_close(found, at, atol=0.6, rtol=0.0)  # six seeds: 0.29 at most


def test_what_does_not_count_is_never_drawn():
    made, logged = kinds()
    strange = made.inputs.clone()
    strange[made.weights == 0.0] = torch.nan
    learner = OccupancyRatio(
        OccupancyRatio.Config(hidden=(4,)),
        made._replace(inputs=strange, unseen=torch.zeros(M, N)),
        logged,
        torch.Generator().manual_seed(0),
    )
    assert all(learner.step()["loss"] < 10.0 for _ in range(20))


def test_a_run_that_is_cut_off_goes_on_to_the_bit():
    whole, first, second = begun(30), begun(30), begun(30)
    for _ in range(30):
        whole.step()
    for _ in range(17):
        first.step()
    second.load_state_dict(first.state_dict())
    second.generator.set_state(first.generator.get_state())
    for _ in range(13):
        second.step()
    for learner in (whole, second):
        learner.finish()
    inputs = kinds()[0].inputs
    assert torch.equal(whole.ratios(inputs), second.ratios(inputs))


def test_what_was_not_learnt_is_not_handed_on():
    with pytest.raises(DataError, match="was not learnt"):
        begun(30).finish()
