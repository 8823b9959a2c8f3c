"""Resumable gradient steps: checkpoints hold the learner, its generator and running means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from robo_rl.core.stateful import Stateful
from robo_rl.train.checkpoint.interrupt import between_updates
from robo_rl.train.checkpoint.metrics_log import MetricsLogger
from robo_rl.train.checkpoint.progress import Progress, running_mean
from robo_rl.train.checkpoint.series import CheckpointSeries

_EVERY, _SHARES = 100, 20


def take_steps(
    folder: Path,
    what: str,
    total: int,
    learner: Stateful,
    generator: torch.Generator,
    step: Callable[[], dict[str, float]],
    *,
    checkpoint_every: int = 1000,
    log_every: int | None = None,
) -> dict[str, float]:
    """Take the remaining steps of ``total`` and return the running means of their metrics.

    Args:
        folder: Folder of the checkpoints and ``metrics.jsonl``.
        what: Label of the progress line.
        total: Number of steps in total.
        learner: Learner that ``step`` trains.
        generator: Source of all random draws of ``step``.
        step: Takes one step and returns its metrics.
        checkpoint_every: Steps between checkpoints.
        log_every: Steps between lines of ``metrics.jsonl``; by default a twentieth of ``total``, at
            most 100.

    Raises:
        Interrupted: A signal arrived; all finished steps are saved.
    """
    series, done, means = CheckpointSeries(folder / "ckpt"), 0, dict[str, float]()
    if (state := series.load_latest()) is not None:
        learner.load_state_dict(state["learner"])
        generator.set_state(state["generator"])
        done, means = state["done"], state["means"]
    log = MetricsLogger(folder / "metrics.jsonl")
    log.truncate_after(done)
    every = log_every or max(1, min(_EVERY, total // _SHARES))

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
