"""Transitions of whole chunks as rows that point at their successors.

A row is an observation, and where ``decision`` is true also the chunk that began there:

    obs.<name>   (N, To, …)  observation, in its own type
    act          (N, H, A)   the chunk, in network units
    rew          (N,)        Σ_j γ^j r_j over the executed steps
    discount     (N,)        γ^num_exec
    terminated   (N,) bool   the task ended within the chunk
    num_exec     (N,) int64  executed env steps
    next         (N,) int64  the row whose observation is the true successor
    decision     (N,) bool
    human        (N,) bool   a human commanded the row in which the chunk began

Each observation is stored once. Several decisions in a row are found by following ``next``.

Shapes: N rows, T decisions, B envs, F ends of episodes, To history, H horizon, E executed actions,
A act_dim.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from robo_rl.core.errors import DataError
from robo_rl.data.dataset import WindowDataset
from robo_rl.data.normalize import Normalizer
from robo_rl.data.rollout import Rollout


class Transitions(NamedTuple):
    """A batch of semi-Markov transitions, B rows.

    Bootstrap with ``rew + discount · (1 − terminated) · V(next_obs)``.

    Args:
        obs: Name → (B, To, …).
        act: (B, H, A), in network units.
        rew: (B,) discounted sum over the chunk, or over n chunks.
        discount: (B,) γ to the number of env steps in between.
        terminated: (B,) bool.
        next_obs: Name → (B, To, …), the true successor's.
        num_exec: (B,) int64, env steps executed of ``act``.
        demo: (B,) bool, from a demonstration.
        human: (B,) bool, logged, and begun while a human commanded.
        row: (B,) int64, index of the row.
        next_row: (B,) int64, index of the true successor.
    """

    obs: dict[str, Tensor]
    act: Tensor
    rew: Tensor
    discount: Tensor
    terminated: Tensor
    next_obs: dict[str, Tensor]
    num_exec: Tensor
    demo: Tensor
    human: Tensor
    row: Tensor
    next_row: Tensor

    def act_with_masked_tail(self, generator: torch.Generator) -> Tensor:
        """Return the chunks (B, H, A) for critics, with unexecuted actions replaced.

        After the end of a logged episode a chunk repeats its last action. That would tell a critic
        that the task is about to succeed, and no policy's chunk looks like it. Unexecuted actions
        have no effect, so they are taken from other rows of the batch: from experience, whose
        chunks are as they were drawn, and from logged chunks that no end cuts off.
        """
        num_exec = torch.where(self.demo, self.num_exec, self.act.shape[1])
        return mask_tail(self.act, num_exec, generator, ~self.demo | whole_chunks(self.num_exec))


def mask_tail(
    act: Tensor, num_exec: Tensor, generator: torch.Generator, donors: Tensor | None = None
) -> Tensor:
    """Replace the actions after the first num_exec (B,) of chunks (B, H, A) by other rows'.

    Args:
        act: (B, H, A).
        num_exec: (B,) int64, actions that stay.
        generator: Draws a row for each row, with replacement.
        donors: (B,) bool, the rows to draw from, at least one; None for ``whole_chunks``.
    """
    open_end = torch.arange(act.shape[1], device=act.device) >= num_exec[:, None]
    if not bool(open_end.any()):
        return act
    odds = (whole_chunks(num_exec) if donors is None else donors).float().to(generator.device)
    rows = torch.multinomial(odds, len(act), replacement=True, generator=generator)
    return torch.where(open_end[..., None], act[rows.to(act.device)], act)


def whole_chunks(num_exec: Tensor) -> Tensor:
    """Return (B,) bool: the rows that execute as many actions num_exec (B,) as any of the batch.

    A chunk that the end of an episode cuts off executes fewer, unless all of the batch are cut off.
    """
    return num_exec == num_exec.max()


def dataset_transitions(
    dataset: WindowDataset, normalizer: Normalizer, *, exec_horizon: int, gamma: float
) -> dict[str, Tensor]:
    """Return demonstrations as rows: a chunk begins at every row of every episode.

    The executed actions (``WindowDataset.executed_windows``) are the row's own and the following
    ones. An episode that did not terminate is truncated, and the successor of its last action was
    not recorded. So its last row is only a successor. Chunks before it end there, with fewer
    executed steps.

    Args:
        dataset: Windows with horizon H.
        normalizer: The policy's normaliser.
        exec_horizon: E.
        gamma: Discount per env step.

    Raises:
        DataError: E is beyond H.
    """
    if not 1 <= exec_horizon <= dataset.horizon:
        expected = f"1 to the horizon, {dataset.horizon}"
        hint = "cut the dataset by a longer horizon, or carry out less of a chunk"
        raise DataError(
            "exec_horizon of transitions", expected=expected, found=exec_horizon, hint=hint
        )
    rows = torch.arange(len(dataset))
    obs, act = dataset.executed_windows(rows)
    rew, ended_well, last, human = dataset.outcomes()
    rows = rows.to(last.device)
    stop = torch.minimum(rows + exec_horizon, last + ended_well[last])
    num_exec = stop - rows
    steps = torch.arange(exec_horizon, device=last.device)
    within = rew[torch.minimum(rows[:, None] + steps, last[:, None])] * gamma**steps
    return {
        **{f"obs.{name}": column for name, column in obs.items()},
        "act": normalizer.act_to_network(obs, act),
        "rew": torch.where(steps < num_exec[:, None], within, 0.0).sum(dim=1),
        "discount": gamma ** num_exec.to(rew.dtype),
        "terminated": stop > last,
        "num_exec": num_exec,
        "next": torch.minimum(stop, last),
        "decision": num_exec > 0,
        "human": human,
    }


class NStepTransition(NamedTuple):
    """Several decisions as one transition, each (B,); ``last`` is the row of the last decision."""

    rew: Tensor
    discount: Tensor
    terminated: Tensor
    last: Tensor


def n_step_transition(columns: Mapping[str, Tensor], rows: Tensor, n_step: int) -> NStepTransition:
    """Combine up to n decisions from rows (B,) on, fewer where the episode or the rows end.

    Σ_i (Π_{j<i} discount_j) rew_i: the n-step return (Sutton & Barto 2018, eq. 7.1) with a
    discount for each decision.
    """
    rew, discount = columns["rew"][rows], columns["discount"][rows]
    terminated, last = columns["terminated"][rows], rows
    for _ in range(n_step - 1):
        following = columns["next"][last]
        on = columns["decision"][following] & ~terminated
        last = torch.where(on, following, last)
        rew = torch.where(on, rew + discount * columns["rew"][last], rew)
        discount = torch.where(on, discount * columns["discount"][last], discount)
        terminated = terminated | on & columns["terminated"][last]
    return NStepTransition(rew, discount, terminated, last)


def return_to_go(columns: Mapping[str, Tensor]) -> Tensor:
    """Return the discounted return (N,) of each row's decisions to the end of its episode.

    Rows are older than their successors. Rewards after a truncation count as zero.
    """
    goes_on = torch.where(columns["decision"] & ~columns["terminated"], columns["discount"], 0.0)
    rew = torch.where(columns["decision"], columns["rew"], 0.0)
    found = rew
    for _ in range(len(rew)):
        before, found = found, rew + goes_on * found[columns["next"]]
        if torch.equal(before, found):
            break
    return found


class RolloutRows(NamedTuple):
    """A rollout as rows, each older than its successor.

    Args:
        rows: The columns; ``next`` counts from the first row of the rollout.
        begins: (B,) the row of each env's first decision, −1 where it is not valid.
        open_end: (B,) the row of each env's last observation, −1 where the episode has ended.
    """

    rows: dict[str, Tensor]
    begins: Tensor
    open_end: Tensor


def rollout_rows(rollout: Rollout) -> RolloutRows:
    """Return the rows of a rollout: valid decisions, and the observations that they led to."""
    goes_on = ~(rollout.terminated | rollout.truncated)[-1]
    following, open_end = _links(len(rollout.valid), rollout.ended, goes_on)
    columns = {
        "act": rollout.x[:, :, -1],
        "rew": rollout.rew,
        "discount": rollout.discount,
        "terminated": rollout.terminated,
        "num_exec": rollout.num_exec,
        "decision": rollout.valid,
        "human": torch.zeros_like(rollout.valid),
    }
    rows = {name: _folded(column, len(following)) for name, column in columns.items()}
    for name, seen in rollout.obs.items():
        behind = [rollout.final_obs[name], rollout.last_obs[name][goes_on]]
        rows[f"obs.{name}"] = torch.cat([seen.flatten(0, 1), *behind])
    return _wanted({**rows, "next": following}, open_end)


def _links(decisions: int, ends: Tensor, goes_on: Tensor) -> tuple[Tensor, Tensor]:
    """Return the successors (N,) of the T·B decisions, ends and open ends; and ``open_end`` (B,).

    Args:
        decisions: T.
        ends: (F, 2) indices (t, b) of the decisions in which an episode ended.
        goes_on: (B,) bool, envs in which the last decision ended no episode.
    """
    num_envs, acted = len(goes_on), decisions * len(goes_on)
    itself = torch.arange(acted + len(ends) + int(goes_on.sum()), device=goes_on.device)
    open_end = torch.full_like(goes_on, -1, dtype=torch.int64)
    open_end[goes_on] = itself[acted + len(ends) :]
    following = (itself[:acted] + num_envs).view(decisions, num_envs)
    following[-1] = open_end
    following[tuple(ends.T)] = itself[acted : acted + len(ends)]
    return torch.cat([following.flatten(), itself[acted:]]), open_end


def _wanted(rows: dict[str, Tensor], open_end: Tensor) -> RolloutRows:
    """Remove rows that are neither decisions nor successors of one."""
    decision, following = rows["decision"], rows["next"]
    kept = decision.clone()
    kept[following[decision]] = True
    number = torch.where(kept, kept.cumsum(0) - 1, -1)
    rows["next"] = torch.where(decision, number[following], number)
    begins = torch.where(decision, number, -1)[: len(open_end)]
    open_end = torch.where(open_end < 0, -1, number[open_end])
    return RolloutRows({name: column[kept] for name, column in rows.items()}, begins, open_end)


def _folded(column: Tensor, rows: int) -> Tensor:
    """Fold (T, B, …) to (N, …), padded with zeros."""
    flat = column.flatten(0, 1)
    return torch.cat([flat, flat.new_zeros(rows - len(flat), *flat.shape[1:])])
