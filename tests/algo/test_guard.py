"""The collapse guard hands back the best state after a lasting fall, and not before."""

from __future__ import annotations

import torch

from robo_rl.algo.guard import CollapseGuard

CFG = CollapseGuard.Config(smoothing=1.0, drop=0.2, patience=3)


def state(value: float) -> dict[str, torch.Tensor]:
    return {"weight": torch.tensor(value)}


def test_a_lasting_fall_brings_the_best_state_back():
    guard = CollapseGuard(CFG)
    weight = state(0.0)
    for value, success in enumerate([0.5, 0.9, 0.6, 0.6]):
        weight["weight"].fill_(float(value))
        assert guard.observe(success, weight) is None
    good = guard.observe(0.6, state(9.0))
    assert good is not None
    assert float(good["weight"]) == 1.0
    assert guard.rollbacks == 1


def test_a_short_dip_is_forgiven():
    guard = CollapseGuard(CFG)
    for success in [0.9, 0.6, 0.6, 0.85, 0.6, 0.6, 0.85]:
        assert guard.observe(success, state(success)) is None


def test_it_continues_from_its_state():
    one, two = CollapseGuard(CFG), CollapseGuard(CFG)
    for success in [0.9, 0.5, 0.5]:
        one.observe(success, state(success))
    two.load_state_dict(one.state_dict())
    good = two.observe(0.5, state(0.0))
    assert good is not None
    torch.testing.assert_close(good["weight"], torch.tensor(0.9))
