"""Gradient steps that survive a kill: a learner, its generator and its running means, kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import torch

from robo_rl.train.checkpoint.interrupt import between_updates
from robo_rl.train.checkpoint.metrics_log import MetricsLogger
from robo_rl.train.checkpoint.progress import Progress, running_mean
from robo_rl.train.checkpoint.series import CheckpointSeries

_EVERY, _SHARES = 100, 20


class Learner(Protocol):
    """What is trained."""

    def state_dict(self) -> dict[str, Any]:
        """For checkpoints."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state_dict``."""
        ...


def take_steps(
    folder: Path,
    what: str,
    total: int,
    learner: Learner,
    generator: torch.Generator,
    step: Callable[[], dict[str, float]],
    *,
    checkpoint_every: int = 1000,
) -> dict[str, float]:
    """Take the steps that are left of ``total``; returns running means of what they gave.

    Args:
        folder: Where checkpoints and ``metrics.jsonl`` lie, its own.
        what: What it is called while it runs.
        total: Steps in all.
        learner: Trained by ``step``.
        generator: All that ``step`` draws from.
        step: One step; returns its figures.
        checkpoint_every: Steps between checkpoints.

    Raises:
        Interrupted: A signal has come; the steps up to there are saved.
    """
    series = CheckpointSeries(folder / "ckpt", device=generator.device.type)
    done, means = 0, dict[str, float]()
    if (state := series.load_latest()) is not None:
        learner.load_state_dict(state["learner"])
        generator.set_state(state["generator"])
        done, means = state["done"], state["means"]
    log = MetricsLogger(folder / "metrics.jsonl")
    log.truncate_after(done)
    every = max(1, min(_EVERY, total // _SHARES))

    def save() -> None:
        kept = {"learner": learner.state_dict(), "generator": generator.get_state()}
        series.save(done, kept | {"done": done, "means": means})

    with Progress(total, what, "steps") as progress, between_updates() as pause:
        while done < total:
            found, done = step(), done + 1
            means = {
                name: running_mean(means.get(name, float("nan")), x) for name, x in found.items()
            }
            if done % every == 0 or done == total:
                log.log({"step": done, **means})
                progress.update(done, **means)
            due = done % checkpoint_every == 0 or done == total
            pause.checkpoint(save, due=due, kept=f"{done:,} steps of '{what}'")
    return means
