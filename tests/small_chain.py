"""Logged episodes of a chain of three places, in which the worth of a policy is arithmetic.

A decision whose first action's first element is positive leads one place on, another one nowhere;
at place s it takes ``STEPS[s]`` env steps. Leaving the last place pays 1 in the last of its steps
and ends the task. Episodes begin anywhere and are cut at a limit.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from small_policies import ACT, OBS
from torch import Tensor

from robo_rl.data.replay import Replay
from robo_rl.ope.time_aware import add_time_feature

HORIZON, GAMMA = 3, 0.8
STEPS = (2, 1, 2)


class Chain(NamedTuple):
    """Rows as learners want them, and the last row (N,) of each one's episode."""

    replay: Replay
    last: Tensor


def logged_chain(episodes: int, limit: int, *, knows_time: bool = True, seed: int = 0) -> Chain:
    """Decisions at random; every other episode begins at the first place."""
    generator = torch.Generator().manual_seed(seed)
    rows: list[dict[str, float]] = []
    last: list[int] = []
    for episode in range(episodes):
        place = 0 if episode % 2 == 0 else int(torch.randint(3, (), generator=generator))
        begun = len(rows)
        rows += _episode(place, limit, begun, generator)
        last += [len(rows) - 1] * (len(rows) - begun)
    columns = _columns(rows, generator)
    if knows_time:
        elapsed = torch.tensor([row["elapsed"] for row in rows], dtype=torch.int64)
        columns = add_time_feature(columns, elapsed, limit)
    replay = Replay(Replay.Config(demo_fraction=1.0))
    replay.add_demonstrations(columns)
    return Chain(replay, torch.tensor(last))


def _episode(
    place: int, limit: int, begun: int, generator: torch.Generator
) -> list[dict[str, float]]:
    rows: list[dict[str, float]] = []
    elapsed, over = 0, False
    while elapsed < limit - 1 and not over:
        act = float(2.0 * torch.rand((), generator=generator) - 1.0)
        steps = min(STEPS[place], limit - 1 - elapsed)
        cut = steps < STEPS[place]
        over = place == 2 and act > 0.0 and not cut
        rows.append(
            {
                "place": place,
                "act": act,
                "rew": GAMMA ** (steps - 1) if over else 0.0,
                "steps": steps,
                "elapsed": elapsed,
                "terminated": over,
                "next": begun + len(rows) + (0 if over else 1),
                "decision": True,
            }
        )
        place, elapsed = min(place + (act > 0.0 and not cut), 2), elapsed + steps
    if not over:  # what followed the cut was seen
        ended = {"act": 0.0, "rew": 0.0, "steps": 0, "terminated": False, "decision": False}
        rows.append({"place": place, "elapsed": elapsed, "next": begun + len(rows), **ended})
    return rows


def _columns(rows: list[dict[str, float]], generator: torch.Generator) -> dict[str, Tensor]:
    def column(name: str, kind: torch.dtype) -> Tensor:
        return torch.tensor([row[name] for row in rows]).to(kind)

    number = len(rows)
    pos = torch.zeros(number, 1, *OBS.items["pos"].shape)
    pos[torch.arange(number), 0, column("place", torch.int64)] = 1.0
    act = 2.0 * torch.rand(number, HORIZON, ACT.size, generator=generator) - 1.0
    act[:, 0, 0] = column("act", torch.float32)
    return {
        "obs.pos": pos,
        "obs.goal": torch.zeros(number, 1, *OBS.items["goal"].shape),
        "act": act,
        "rew": column("rew", torch.float32),
        "discount": GAMMA ** column("steps", torch.float32),
        "terminated": column("terminated", torch.bool),
        "num_exec": column("steps", torch.int64),
        "next": column("next", torch.int64),
        "decision": column("decision", torch.bool),
    }
