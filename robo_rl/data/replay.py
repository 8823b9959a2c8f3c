"""Replay buffer of off-policy learning: fixed demonstrations and a ring of online experience.

Shapes: T decisions, B envs or rows of a batch, D rows of demonstrations, n decisions ahead.

Both are in one table whose rows point at their successors (see ``transitions``): first the
demonstrations, then the ring. A row of the ring is older than its successor and is overwritten
first, so its successor exists as long as the row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import CheckpointError, DataError
from robo_rl.data.dataset import INTERVENTION
from robo_rl.data.images.image_table import ImageFileTable
from robo_rl.data.rollout import Rollout
from robo_rl.data.row_table import RowTable
from robo_rl.data.transitions import (
    Transitions,
    dataset_transitions,
    n_step_transition,
    return_to_go,
    rollout_rows,
)

__all__ = ["Replay", "Transitions", "dataset_transitions"]

_OBS = "obs."
_HUMAN = "human"


class Replay:
    """Transitions of whole chunks, sampled uniformly; ``len`` is the number of decisions.

    ``keep_images_in`` moves images from memory and checkpoints to files.

    Args:
        cfg: See ``Config``.
        device: Device of the transitions and batches.
    """

    class Config(ConfigModel):
        """Size and sampling.

        ``capacity`` is in rows: one per decision, one per end of an episode, and one per env. A
        fraction ``demo_fraction`` of a batch are demonstrations, if there are any (RLPD, Ball et
        al. 2023, arXiv 2302.02948, section 4.1). ``n_step`` is the number of decisions before the
        bootstrap. It is smaller where the episode ends or the successor is missing.

        With ``corrections`` that fraction applies to logged decisions that a human commanded. All
        other logged decisions count as the robot's own experience (HIL-SERL, Luo et al. 2024, arXiv
        2410.21845).
        """

        capacity: int = Field(default=200_000, ge=2)
        """Maximum number of rows of experience."""
        demo_fraction: float = Field(default=0.5, ge=0.0, le=1.0)
        """Fraction of demonstrations in a batch."""
        n_step: int = Field(default=1, ge=1)
        """Decisions before the bootstrap."""
        corrections: bool = False
        """Whether ``demo_fraction`` applies only to decisions that a human commanded."""

        @model_validator(mode="after")
        def _corrections_have_a_share(self) -> Self:
            if self.corrections and not self.demo_fraction:
                raise ValueError("corrections: they fill demo_fraction, which is 0")
            return self

    def __init__(self, cfg: Config, device: torch.device | str = "cpu") -> None:
        self.cfg = cfg
        self._table = RowTable(device)
        self._demo_rows = self._used = self._head = 0
        self._open_end = torch.empty(0, dtype=torch.int64)
        self._demos = self._online = torch.empty(0, dtype=torch.int64)
        self._shares = self._demos, self._online

    def __len__(self) -> int:
        return len(self._demos) + len(self._online)

    @property
    def rows(self) -> int:
        """Number of observations held, of decisions and of ends."""
        return self._demo_rows + self._used

    @property
    def decisions(self) -> Tensor:
        """The rows of decisions, demonstrations first."""
        return torch.cat([self._demos, self._online])

    def actions(self) -> Tensor:
        """Return the action chunks (N, H, A) of all decisions, demonstrations first."""
        return self._table.columns["act"][self.decisions]

    @property
    def num_demos(self) -> int:
        """Number of decisions from demonstrations."""
        return len(self._demos)

    def keep_images_in(self, folder: Path, names: Collection[str]) -> None:
        """Keep images in files; call before any row is added.

        Args:
            folder: Folder of the files; nothing else belongs there.
            names: Names of the observations that are images.
        """
        if names:
            images = [_OBS + name for name in names]
            self._table = ImageFileTable(self._table.device, folder, images)

    def add_demonstrations(self, transitions: Mapping[str, Tensor]) -> None:
        """Add permanent rows of ``dataset_transitions``, before any experience.

        Rows without the column ``human`` count as not commanded by a human.

        Raises:
            DataError: There is experience already, or the rows have another layout.
        """
        if self._used:
            raise DataError(
                "demonstrations come before experience",
                found=f"{self._used} rows of experience",
                hint="add them when the buffer is made",
            )
        places = self._demo_rows + torch.arange(len(transitions["next"]))
        rows = {**_told(transitions), "next": transitions["next"] + self._demo_rows}
        self._table.write(places, rows, 2 * (self._demo_rows + len(places)))
        self._demo_rows += len(places)
        self._find_decisions()

    def add(self, rollout: Rollout) -> None:
        """Add a rollout; an env that continues its last rollout is joined to it.

        Raises:
            DataError: The rollout is larger than the buffer, or has another layout.
        """
        rows, begins, open_end = rollout_rows(rollout)
        self._table.check(rows)
        places = self._places(len(rows["next"]), begins.cpu(), self._joined(rows, begins))
        rows["next"], open_end = places[rows["next"].cpu()], open_end.cpu()
        self._table.write(places, rows, self._limit)
        self._open_end = torch.where(open_end < 0, -1, places[open_end])
        self._find_decisions()

    def sample(self, batch: int, generator: torch.Generator) -> Transitions:
        """Return the transitions that begin at ``batch`` rows of ``draw``.

        Raises:
            DataError: The buffer is empty.
        """
        return self.transitions(self.draw(batch, generator))

    def draw(self, batch: int, generator: torch.Generator) -> Tensor:
        """Draw rows with replacement, demonstrations and experience in mixed order.

        Raises:
            DataError: The buffer is empty, or corrections are requested and there are none.
        """
        if not len(self):
            raise DataError("nothing to sample from", hint="add a rollout or demonstrations first")
        self.check_corrections()
        shown, others = self._shares
        share = self.cfg.demo_fraction if len(others) else 1.0
        num_shown = round(batch * share) if len(shown) else 0
        drawn = [
            _draw(shown, num_shown, generator),
            _draw(others, batch - num_shown, generator),
        ]
        order = torch.randperm(batch, generator=generator, device=generator.device)
        return torch.cat(drawn)[order.to(self._table.device)]

    def transitions(self, rows: Tensor) -> Transitions:
        """Return the transitions that begin at rows (B,), over ``n_step`` decisions."""
        table, column = self._table, self._table.columns
        ahead = n_step_transition(column, rows, self.cfg.n_step)
        successor = column["next"][ahead.last]
        both = table.take(torch.cat([rows.to(successor.device), successor]), _OBS)
        return Transitions(
            obs={name: x[: len(rows)] for name, x in both.items()},
            act=column["act"][rows],
            rew=ahead.rew,
            discount=ahead.discount,
            terminated=ahead.terminated,
            next_obs={name: x[len(rows) :] for name, x in both.items()},
            num_exec=column["num_exec"][rows],
            demo=rows < self._demo_rows,
            human=column[_HUMAN][rows],
            row=rows,
            next_row=successor,
        )

    def return_to_go(self) -> Tensor:
        """Return the discounted return (N,) of each row; see ``transitions.return_to_go``."""
        return return_to_go({name: x[: self.rows] for name, x in self._table.columns.items()})

    def state_dict(self) -> dict[str, Any]:
        """Return the experience as views; digests represent demonstrations and files of images."""
        places = {"head": self._head, "open_end": self._open_end}
        return self._identity() | places | self._table.state_from(self._demo_rows, self.rows)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``; the same demonstrations must have been added.

        Raises:
            CheckpointError: Capacity or demonstrations differ, or a file of images is damaged.
        """
        for name, value in self._identity().items():
            if state[name] != value:
                raise CheckpointError(
                    f"the replay buffer was saved with other {name}",
                    expected=value,
                    found=state[name],
                    hint="resume with the same config and dataset, demonstrations added first",
                )
        self._used = len(state["columns"].get("next", ()))
        places = self._demo_rows + torch.arange(self._used)
        if self._used:
            kept = {**state, "columns": _told(state["columns"])}
            self._table.load_state(places, kept, self._limit)
        self._head, self._open_end = state["head"], state["open_end"]
        self._find_decisions()

    def _identity(self) -> dict[str, Any]:
        told = self._demo_rows and bool(self._table.columns[_HUMAN].any())
        # without human commands the digest is that of a store without the column
        digest = self._table.digest(self._demo_rows, without=() if told else (_HUMAN,))
        return {"capacity": self.cfg.capacity, "demonstrations": digest}

    @property
    def _limit(self) -> int:
        return self._demo_rows + self.cfg.capacity

    def _joined(self, rows: Mapping[str, Tensor], begins: Tensor) -> Tensor:
        """Return (B,) bool: envs that begin at the last observation of their last rollout."""
        if len(self._open_end) != len(begins):
            self._open_end = torch.full((len(begins),), -1)
        joined = (self._open_end >= 0) & (begins.cpu() >= 0)
        if not joined.any():
            return joined
        same = torch.ones(int(joined.sum()), dtype=torch.bool)
        for name, stopped in self._table.take(self._open_end[joined], _OBS).items():
            begun = rows[_OBS + name][begins[joined]].to(stopped.device)
            same &= (stopped == begun).flatten(1).all(dim=1).cpu()
        joined[joined.clone()] = same
        return joined

    def _places(self, rows: int, begins: Tensor, joined: Tensor) -> Tensor:
        """Return the indices for a rollout's rows: joined rows at open ends, others in the ring."""
        fresh, capacity = rows - int(joined.sum()), self.cfg.capacity
        needed = fresh + int((self._open_end >= 0).sum())
        if needed > capacity:
            raise DataError(
                "a block of decisions does not fit into the replay buffer",
                where="capacity",
                expected=f"at least {needed} rows, and many times that to learn from the past",
                found=capacity,
            )
        places = torch.full((rows,), -1)
        places[begins[joined]] = self._open_end[joined]
        places[places < 0] = self._demo_rows + (self._head + torch.arange(fresh)) % capacity
        self._head = (self._head + fresh) % capacity
        self._used = min(self._used + fresh, capacity)
        return places

    def _find_decisions(self) -> None:
        if not len(self._table):
            return
        decision = self._table.columns["decision"][: self._demo_rows + self._used]
        rows = decision.nonzero().flatten()
        logged = rows < self._demo_rows
        self._demos, self._online = rows[logged], rows[~logged]
        shown = logged & self._table.columns[_HUMAN][rows] if self.cfg.corrections else logged
        self._shares = rows[shown], rows[~shown]

    def check_corrections(self) -> None:
        """Check that there are corrections, if they are requested.

        Raises:
            DataError: No decision of the demonstrations was commanded by a human.
        """
        if self.cfg.corrections and not len(self._shares[0]):
            raise DataError(
                "no decision of the data was commanded by a human",
                where="replay.corrections",
                expected=f"a dataset whose column '{INTERVENTION}' is true in some rows",
                found=f"{self.num_demos} logged decisions, none of them a human's",
                hint="record runs with human takeovers, or leave corrections out",
            )


def _told(columns: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Add the column ``human``, false, to rows without it."""
    return {_HUMAN: torch.zeros_like(columns["decision"]), **columns}


def _draw(rows: Tensor, number: int, generator: torch.Generator) -> Tensor:
    """Draw ``number`` of the rows (N,), with replacement."""
    pick = torch.randint(max(len(rows), 1), (number,), generator=generator, device=generator.device)
    return rows[pick.to(rows.device)]
