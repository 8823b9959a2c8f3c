"""Stage ``success``: trains, calibrates and tests a success classifier on labelled episodes.

The classifier can relabel logs without trusted rewards (stage ``label``). The episodes are split:
networks learn from the first part, temperature and threshold come from the second, and the
report's numbers from the third.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any, ClassVar

import torch
from pydantic import Field

from robo_rl.config.models import ConfigModel
from robo_rl.core.seeding import make_generator, seeded_initialization
from robo_rl.data.normalize import Normalizer
from robo_rl.stats.power import episodes_for_rate
from robo_rl.train.checkpoint.classifiers import save_success
from robo_rl.train.checkpoint.resumable_steps import take_steps
from robo_rl.train.datasets.labelled_episodes import (
    LabelledEpisodes,
    SplitFractions,
    Splits,
    map_episodes,
    split_episodes,
)
from robo_rl.train.evaluation.classifier_metrics import episode_metrics, row_metrics
from robo_rl.train.evaluation.gate import Gate, GateAnswer, episodes_needed_text
from robo_rl.train.pipeline.stage import Context, Report, Stage
from robo_rl.world.calibration import best_threshold, correct_prior, fit_temperature
from robo_rl.world.success import Calibration, SuccessClassifier, sustained_log_odds
from robo_rl.world.success_trainer import SuccessTrainer

_EPS = 1e-12


class TrainSuccessClassifier(Stage):
    """Trains the classifier on the newest dataset with labelled episodes.

    Args:
        cfg: See ``Config``.
    """

    class Config(ConfigModel):
        """Networks, training, split of the episodes, and gate.

        Args:
            model: Inputs and size of the networks.
            training: Length and optimiser.
            split: Fractions of the episodes.
            min_rate: Bound that the lower ends of the 95 % intervals of recall and specificity must
                exceed on the test episodes.
            checkpoint_every: Steps between checkpoints.
        """

        model: SuccessClassifier.Config = SuccessClassifier.Config()
        training: SuccessTrainer.Config = SuccessTrainer.Config()
        split: SplitFractions = SplitFractions()
        min_rate: float = Field(default=0.5, ge=0.0, lt=1.0)
        checkpoint_every: int = Field(default=1000, ge=1)

        without_effect: ClassVar[tuple[str, ...]] = ("checkpoint_every",)

    needs: ClassVar = ("dataset",)
    makes: ClassVar = ("success",)
    reads: ClassVar = ("seed",)

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

    def run(self, context: Context) -> Report:
        """Train, calibrate and test.

        Raises:
            DataError: The episodes are unsuitable; nothing was trained.
            PluginError: Gradients were not finite for too many steps.
        """
        store, asked = context.dataset(), self.cfg.model
        dealt = make_generator("success split", context.seed)
        parts = split_episodes(
            store, self.cfg.split, asked.obs_horizon, asked.consecutive_rows, dealt
        )
        normalizer = Normalizer.fit(parts.train.data)
        with seeded_initialization("success", context.seed):
            model = SuccessClassifier(asked, store.obs_spec, normalizer)
        self._fit(context, model, parts.train)
        model.calibration = calibrate_classifier(model, parts)
        path = save_success(context.directory / "success", model)
        numbers = _numbers(model, parts)
        return Report("success", numbers, {"success": path.name}, gate=self._gate(numbers))

    def _fit(self, context: Context, model: SuccessClassifier, part: LabelledEpisodes) -> None:
        generator = make_generator("success", context.seed)
        seen = model.features(part.data.windows(torch.arange(len(part.data))).obs)
        fit = SuccessTrainer(self.cfg.training, model, seen, part.done, generator)
        folder, every = context.directory, self.cfg.checkpoint_every
        steps = self.cfg.training.steps
        take_steps(folder, "success", steps, fit, generator, fit.step, checkpoint_every=every)

    def _gate(self, numbers: dict[str, Any]) -> Gate:
        sides = {name: numbers[name] for name in ("recall", "specificity")}
        told = [f"{name} is at least {each['low']:.1%}" for name, each in sides.items()]
        of = [str(each["n"]) for each in sides.values()]
        answer, needed = rates_answer(list(sides.values()), self.cfg.min_rate)
        more = (
            f"; {episodes_needed_text(needed, 'test episodes')}" if answer == "cannot tell" else ""
        )
        return Gate(
            name="success told from failure",
            passed=answer == "pass",
            detail=f"{' and '.join(told)} (of {' and '.join(of)} test episodes); "
            f"both must be above {self.cfg.min_rate:.1%}{more}",
            answer=answer,
            episodes_needed=needed,
        )


def rates_answer(sides: Sequence[dict[str, Any]], floor: float) -> tuple[GateAnswer, int | None]:
    """Compare rates with a floor, and compute how many test episodes would decide.

    The gate passes if all lower ends exceed the floor. It fails if an upper end does not.

    Args:
        sides: Rates with value, low, high and their number of episodes n.
        floor: Value to exceed.

    Returns:
        The answer, and the needed episodes of all sides in unchanged proportion. The number is None
        if no number would decide or none is needed.
    """
    if all(each["low"] > floor for each in sides):
        return "pass", None
    if any(each["high"] <= floor for each in sides):
        return "fail", None
    total = sum(each["n"] for each in sides)
    open_ = [each for each in sides if each["low"] <= floor]
    found = [(episodes_for_rate(each["value"], floor), each["n"]) for each in open_]
    wanted = [ceil(n * total / have) for n, have in found if n is not None and have]
    return "cannot tell", max(wanted) if len(wanted) == len(open_) else None


def calibrate_classifier(model: SuccessClassifier, parts: Splits) -> Calibration:
    """Return the prior, and the temperature and threshold of the calibration episodes."""
    part = parts.calibration
    seen = torch.cat([parts.train.done, part.done]).double().mean()
    prior = float(seen.logit())
    balanced = torch.cat(map_episodes(part.data, part.lengths, model.balanced_log_odds))
    temperature = fit_temperature(balanced, part.done, prior)
    log_odds = correct_prior(balanced, temperature, prior).split(part.lengths)
    scores = _scores(log_odds, model.cfg.consecutive_rows)
    threshold = torch.tensor(best_threshold(scores, part.succeeded), dtype=torch.float64)
    return Calibration(
        temperature=temperature, prior=prior, threshold=float(threshold.logit(eps=_EPS))
    )


def _numbers(model: SuccessClassifier, parts: Splits) -> dict[str, Any]:
    part, calibration = parts.test, model.calibration
    log_odds = map_episodes(part.data, part.lengths, model.log_odds)
    told = torch.tensor([model.success_row(each) is not None for each in log_odds])
    dealt = {"learn": parts.train, "calibrate": parts.calibration, "test": part}
    counts = {f"episodes_{name}": len(each.lengths) for name, each in dealt.items()}
    return {
        **episode_metrics(part.succeeded, told),
        **row_metrics(log_odds, part.done.split(part.lengths)),
        "temperature": calibration.temperature,
        "threshold": float(torch.tensor(calibration.threshold).sigmoid()),
        **counts,
        "episodes_unlabelled": parts.unlabelled,
    }


def _scores(log_odds: Sequence[torch.Tensor], hold: int) -> torch.Tensor:
    """Return the probability (E,) below which the threshold counts each episode as a success."""
    best = torch.stack([sustained_log_odds(each, hold).max() for each in log_odds])
    return best.double().sigmoid()
