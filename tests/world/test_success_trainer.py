"""Training of a classifier of success, on rows whose chance of being a success is known."""

from __future__ import annotations

import torch
from small_marked import ACT, OBS
from torch import Tensor

from robo_rl.data.normalize import Normalizer
from robo_rl.world.calibration import (
    calibration_error,
    correct_prior,
    ensemble_log_odds,
    fit_temperature,
)
from robo_rl.world.success import SuccessClassifier
from robo_rl.world.success_trainer import SuccessTrainer

PRIOR = -3.0


def rows(number: int, seed: int) -> tuple[Tensor, Tensor]:
    """Features (N, 3), and labels whose log-odds are 2 x − 3: seldom, and never sure."""
    generator = torch.Generator().manual_seed(seed)
    seen = torch.randn(number, 3, generator=generator)
    chance = (2.0 * seen[:, 0] + PRIOR).sigmoid()
    return seen, torch.rand(number, generator=generator) < chance


def make_fit(seen: Tensor, done: Tensor, steps: int) -> SuccessTrainer:
    torch.manual_seed(0)
    cfg = SuccessClassifier.Config(members=3, hidden=(32,))
    model = SuccessClassifier(cfg, OBS, Normalizer.identity(OBS, ACT))
    asked = SuccessTrainer.Config(steps=steps, lr=3e-3)
    return SuccessTrainer(asked, model, seen, done, torch.Generator().manual_seed(0))


def test_batches_are_balanced_and_probabilities_are_right_all_the_same():
    fit = make_fit(*rows(8000, 0), steps=300)
    for _ in range(300):
        fit.step()
    (seen, done), (held, truth) = rows(8000, 1), rows(8000, 2)
    prior = float(done.double().mean().logit())
    with torch.no_grad():
        temperature = fit_temperature(ensemble_log_odds(fit.model(seen)), done, prior)
        balanced = ensemble_log_odds(fit.model(held))
    assert 0.6 < temperature < 1.6
    said = correct_prior(balanced, temperature, prior).sigmoid()
    assert calibration_error(said, truth) < 0.03
    assert calibration_error(balanced.sigmoid(), truth) > 0.1
    assert abs(float(said.mean()) - float(truth.float().mean())) < 0.02


def test_members_draw_batches_of_their_own_half_of_them_of_either_kind():
    seen, done = rows(500, 0)
    fit = make_fit(seen, done, steps=1)
    first, second = fit._draw(fit.kinds[0]), fit._draw(fit.kinds[1])
    assert first.shape == second.shape == (3, fit.cfg.minibatch // 2)
    assert bool(done[first].all())
    assert not bool(done[second].any())
    assert not torch.equal(first[0], first[1])


def test_it_goes_on_to_the_bit_from_what_was_kept():
    data = rows(500, 0)
    whole, half = make_fit(*data, steps=10), make_fit(*data, steps=10)
    for _ in range(10):
        whole.step()
    for _ in range(4):
        half.step()
    rest = make_fit(*data, steps=10)
    rest.load_state_dict(half.state_dict())
    rest.generator.set_state(half.generator.get_state())
    for _ in range(6):
        rest.step()
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, rest.model.state_dict()[name]), name
