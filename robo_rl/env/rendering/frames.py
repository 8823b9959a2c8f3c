"""Which frames of an open-loop sequence are rendered: those that somebody reads.

Shapes: B envs, T control steps, nq positions; images are (B, 3, height, width) uint8. A chunk of
actions runs without a look at the images in between. A policy reads the last frames before its next
decision, and the last frames of an episode that ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from robo_rl.api.env import Step
from robo_rl.env.rendering.camera_set import CameraSet


class _Drawn(NamedTuple):
    """Images of the envs rows (n,), of their steps (n,); how many of each of the T steps."""

    rows: Tensor
    step: Tensor
    images: dict[str, Tensor]
    per_step: list[int]


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
    drawn = [_draw(cameras, qpos, last - lag) for lag in lags]
    shown, found = dict(before), list[Step]()
    for number, step in enumerate(steps):
        for each in drawn:
            shown = _updated(shown, each, number)
        obs = {**step.next_obs, **shown}
        found.append(step._replace(obs=obs, next_obs=obs))
    return found


def _draw(cameras: CameraSet, qpos: Tensor, step: Tensor) -> _Drawn:
    """Render one frame of every env, after its step (B,); none where it is negative."""
    rows = (step >= 0).nonzero().flatten()
    if not len(rows):
        return _Drawn(rows, rows, {}, [0] * len(qpos))
    chosen = step[rows]
    pending = cameras.start(qpos[chosen, rows], None if len(rows) == len(step) else rows)
    count = torch.zeros(len(qpos), dtype=torch.int64, device=step.device)
    count.scatter_add_(0, chosen, torch.ones_like(chosen))
    return _Drawn(rows, chosen, pending(), count.tolist())


def _updated(shown: dict[str, Tensor], drawn: _Drawn, number: int) -> dict[str, Tensor]:
    """Return the images, with those that were drawn of a step."""
    if not drawn.per_step[number]:
        return shown
    if drawn.per_step[number] == len(next(iter(shown.values()))):
        return drawn.images
    here = drawn.step == number
    rows, new = drawn.rows[here], dict[str, Tensor]()
    for item, image in shown.items():
        new[item] = image.index_copy(0, rows, drawn.images[item][here])
    return new
