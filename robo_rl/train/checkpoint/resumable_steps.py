"""Resumable gradient steps: checkpoints hold the learner, its generator and running means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from robo_rl.core.stateful import Stateful
from robo_rl.train.checkpoint.interrupt import between_updates
from robo_rl.train.checkpoint.metrics_log import MetricsLogger
from robo_rl.train.checkpoint.progress import Progress
from robo_rl.train.checkpoint.running_means import RunningMeans
from robo_rl.train.checkpoint.series import CheckpointSeries

_EVERY, _SHARES = 100, 20


def take_steps(
    folder: Path,
    what: str,
    total: int,
    learner: Stateful,
    generator: torch.Generator,
    step: Callable[[], Mapping[str, float | Tensor]],
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
        step: Takes one step and returns its metrics; tensors are scalars on any device.
        checkpoint_every: Steps between checkpoints.
        log_every: Steps between lines of ``metrics.jsonl``; by default a twentieth of ``total``, at
            most 100.

    Raises:
        Interrupted: A signal arrived; all finished steps are saved.
        CheckpointError: Other code made the checkpoint, or it is damaged.
    """
    series = CheckpointSeries(folder / "ckpt", device=generator.device.type)
    done, means = 0, RunningMeans()
    if (state := series.load_latest()) is not None:
        with series.loading():
            learner.load_state_dict(state["learner"])
            generator.set_state(state["generator"])
            done, means = state["done"], RunningMeans(state["means"])
    log = MetricsLogger(folder / "metrics.jsonl")
    log.truncate_after(done)
    every = log_every or max(1, min(_EVERY, total // _SHARES))

    def save() -> None:
        kept = {"learner": learner.state_dict(), "generator": generator.get_state()}
        series.save(done, kept | {"done": done, "means": means.read()})

    with Progress(total, what, "steps") as progress, between_updates() as pause:
        if done == total:
            progress.update(done)
        while done < total:
            means.add(step())
            done += 1
            progress.update(done)
            if done % every == 0 or done == total:
                log.log({"step": done, **means.read()})
                progress.update(done, **means.read())
            due = done % checkpoint_every == 0 or done == total
            pause.checkpoint(save, due=due, kept=f"{done:,} steps of '{what}'")
    return means.read()
