"""A classifier of success: where an episode ends, and that it is the same when it is read back."""

from __future__ import annotations

import pytest
import torch
from small_marked import ACT, OBS

from robo_rl.core.errors import CheckpointError
from robo_rl.data.normalize import Normalizer
from robo_rl.world.success import (
    Calibration,
    SuccessClassifier,
    classifier_from_meta,
    classifier_meta,
    sustained_log_odds,
)


def make_model(**cfg: int) -> SuccessClassifier:
    torch.manual_seed(0)
    asked = SuccessClassifier.Config.model_validate({"hidden": (8,), "members": 3, **cfg})
    model = SuccessClassifier(asked, OBS, Normalizer.identity(OBS, ACT))
    model.calibration = Calibration(temperature=2.0, prior=-1.0, threshold=0.5)
    return model.eval()


def test_what_lasts_is_the_least_of_the_last_rows():
    odds = torch.tensor([1.0, 3.0, 2.0, 5.0, 4.0])
    assert sustained_log_odds(odds, 1).tolist() == odds.tolist()
    assert sustained_log_odds(odds, 3).tolist() == [-torch.inf, -torch.inf, 1.0, 2.0, 2.0]
    assert sustained_log_odds(odds[:2], 3).tolist() == [-torch.inf, 1.0]


def test_an_episode_ends_with_the_first_row_that_completes_a_run_above_the_threshold():
    odds = torch.tensor([1.0, 0.0, 1.0, 1.0, 1.0])
    assert make_model(consecutive_rows=1).success_row(odds) == 0
    assert make_model(consecutive_rows=2).success_row(odds) == 3
    assert make_model(consecutive_rows=4).success_row(odds) is None
    assert make_model(consecutive_rows=1).success_row(torch.full((3,), 0.5)) is None  # not above it


def test_history_is_seen():
    model = make_model(obs_horizon=2)
    now = {"place": torch.zeros(1, 2, 1), "speed": torch.zeros(1, 2, 2)}
    before = {**now, "place": torch.tensor([[[1.0], [0.0]]])}
    assert model.log_odds(now).shape == (1,)
    assert float(model.log_odds(now)) != float(model.log_odds(before))


def test_it_is_the_same_to_the_bit_when_it_is_rebuilt():
    model = make_model(consecutive_rows=2, obs_horizon=2)
    again = classifier_from_meta(classifier_meta(model), model.state_dict())
    obs = {"place": torch.randn(9, 2, 1), "speed": torch.randn(9, 2, 2)}
    assert torch.equal(model.log_odds(obs), again.log_odds(obs))
    assert (again.cfg, again.obs_spec, again.calibration) == (
        model.cfg,
        model.obs_spec,
        model.calibration,
    )


@pytest.mark.parametrize("damage", ["missing", "other", "weights"])
def test_what_is_damaged_is_refused(damage: str):
    model = make_model()
    meta, tensors = classifier_meta(model), dict(model.state_dict())
    if damage == "missing":
        del meta["calibration"]
    elif damage == "other":
        meta["calibration"]["temperature"] = -1.0
    else:
        tensors.popitem()
    with pytest.raises(CheckpointError, match="is no classifier of success"):
        classifier_from_meta(meta, tensors)
