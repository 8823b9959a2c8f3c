"""Which frames of an open-loop sequence are rendered: those that somebody reads.

Shapes: B envs, T control steps, nq positions; images are (B, 3, height, width) uint8. A chunk of
actions runs without a look at the images in between. A policy reads the last frames before its next
decision, and the last frames of an episode that ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from robo_rl.api.env import Step
from robo_rl.env.rendering.camera_set import CameraSet


class _Drawn(NamedTuple):
    """Images of the envs rows (n,), sorted by step; ``starts`` (T + 1) is where each step begins.

    ``rows`` is None for all envs in their order, after the same step.
    """

    rows: Tensor | None
    starts: list[int]
    images: dict[str, Tensor]


def with_frames(
    steps: Sequence[Step],
    qpos: Tensor,
    cameras: CameraSet,
    before: Mapping[str, Tensor],
    frames: int | None,
) -> list[Step]:
    """Return the steps with images in ``next_obs``, which is also ``obs``.

    Args:
        steps: T steps without images; the valid steps of an env are the first ones.
        qpos: (T, B, nq), positions after each step.
        cameras: Renderer of the worlds, with the looks of the episodes of these steps.
        before: Item → (B, …), the images before the first step.
        frames: Number of an env's last valid steps whose images are rendered; None renders all. An
            image that is not rendered repeats the one before it, as that of an invalid step does.
    """
    last = torch.stack([step.valid for step in steps]).sum(dim=0) - 1
    lags = range(len(steps) if frames is None else min(frames, len(steps)))
    wanted = torch.stack([last - lag for lag in lags])
    numbers = torch.arange(len(steps), device=last.device)
    counts: list[list[int]] = (wanted[:, None] == numbers[:, None]).sum(dim=2).tolist()
    drawn = [_draw(cameras, qpos, *each) for each in zip(wanted, counts, strict=True)]
    shown, found = dict(before), list[Step]()
    for number, step in enumerate(steps):
        for each in drawn:
            shown = _updated(shown, each, number)
        obs = {**step.next_obs, **shown}
        found.append(step._replace(obs=obs, next_obs=obs))
    return found


def _draw(cameras: CameraSet, qpos: Tensor, step: Tensor, counts: Sequence[int]) -> _Drawn:
    """Render one frame of every env, after its step (B,); none where it is negative.

    Args:
        cameras: See ``with_frames``.
        qpos: (T, B, nq).
        step: (B,).
        counts: T, number of envs of each step.
    """
    starts = list(accumulate(counts, initial=0))
    if not starts[-1]:
        return _Drawn(None, starts, {})
    if max(counts) == len(step):
        return _Drawn(None, starts, cameras.start(qpos[counts.index(len(step))])())
    rows = step.argsort(stable=True)[len(step) - starts[-1] :]
    return _Drawn(rows, starts, cameras.start(qpos[step[rows], rows], rows)())


def _updated(shown: dict[str, Tensor], drawn: _Drawn, number: int) -> dict[str, Tensor]:
    """Return the images, with those that were drawn of a step."""
    start, stop = drawn.starts[number : number + 2]
    if start == stop:
        return shown
    if drawn.rows is None:
        return drawn.images
    rows = drawn.rows[start:stop]
    return {k: v.index_copy(0, rows, drawn.images[k][start:stop]) for k, v in shown.items()}
