"""Checks that loaded datasets and policies match the experiment's world and specs."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from pathlib import Path

from robo_rl.api.env import VecEnv
from robo_rl.core.errors import DataError, Notice, SpecError
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.train.pipeline.stage import Context
from robo_rl.train.pipeline.world_digest import describe_changes, world_of

_HINT = "it is of another task, robot or env: set those of the experiment to what it was made with"

SHOWN = 2
"""Arrays whose differing fields an error shows; it names all."""


def world_changes(world: Mapping[str, str], context: Context) -> dict[str, str]:
    """Return ``world_changes`` for a report: differences between a world and the experiment's.

    Artifacts of another world may be loaded, for example for other gains of a robot; a warning says
    so. Measurements of another world do not hold here. The result is empty without differences, or
    if the world was not recorded.

    Args:
        world: Parts of the world in which the artifact was made, see ``world_digest``.
        context: Context of the stage that loads it.
    """
    found = describe_changes(world, world_of(context.experiment)) if world else ""
    if not found:
        return {}
    warnings.warn(f"what is taken up was made in another world: {found}", Notice, stacklevel=2)
    return {"world_changes": found}


def check_same_specs(
    where: Path,
    obs_spec: ObsSpec,
    act_spec: ActSpec,
    env: VecEnv,
    needed: Collection[str] | None = None,
    hint: str = "",
) -> None:
    """Check that observations and actions match those of the env.

    Args:
        where: Path of the artifact, for the error.
        obs_spec: Its observations; observations that the env lacks are allowed.
        act_spec: Its actions.
        env: Env in which it is to be used.
        needed: Observations of the env that may not be missing; None for all.
        hint: More of the error's hint.

    Raises:
        DataError: Some differ or are missing.
    """
    items = env.obs_spec.items
    wanted = [name for name in items if needed is None or name in needed or name in obs_spec.items]
    ours: dict[str, TensorSpec] = {"act": env.act_spec, **{name: items[name] for name in wanted}}
    theirs = {name: spec for name, spec in obs_spec.items.items() if name in ours}
    hint = f"{_HINT}; {hint}" if hint else _HINT
    demand_same_arrays(where, ours, {**theirs, "act": act_spec}, "the env has", hint)


def demand_items_read(where: Path, reader: str, read: ObsSpec, ours: ObsSpec) -> None:
    """Check that an env has the observations that a policy reads.

    Args:
        where: Path of the policy, for the error.
        reader: What it is, for the error: 'teacher'.
        read: Observations that it reads.
        ours: Observations of the env.

    Raises:
        SpecError: One is missing or differs.
    """
    for name, spec in read.items.items():
        if ours.items.get(name) != spec:
            problem = f"the {reader} reads an item '{name}' that the env does not have so"
            found = ours.items.get(name, "none")
            raise SpecError(problem, where=where, expected=spec, found=found, hint=_HINT)


def demand_same_arrays(
    where: Path,
    ours: Mapping[str, TensorSpec],
    theirs: Mapping[str, TensorSpec],
    what: str,
    hint: str,
) -> None:
    """Check that two sets of array specs are equal.

    Args:
        where: Path of ``theirs``, for the error.
        ours: Expected specs by name.
        theirs: Found specs by name.
        what: Subject and verb of ``ours`` in the message: 'the env has'.
        hint: Hint of the error.

    Raises:
        DataError: They differ; the message names each array and its differing fields.
    """
    apart = [name for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name)]
    if apart:
        some = apart[:SHOWN]
        pairs = [(name, *_fields_apart(ours.get(name), theirs.get(name))) for name in some]
        raise DataError(
            f"holds other arrays than {what}: {', '.join(apart)}",
            where=where,
            expected="; ".join(f"{name} {wanted}" for name, wanted, _ in pairs),
            found="; ".join(f"{name} {found}" for name, _, found in pairs),
            hint=hint,
        )


def _fields_apart(ours: TensorSpec | None, theirs: TensorSpec | None) -> tuple[str, str]:
    """Return the differing fields of two unequal specs as text."""
    sides = [{} if spec is None else spec.model_dump() for spec in (ours, theirs)]
    apart = [name for name in {**sides[0], **sides[1]} if sides[0].get(name) != sides[1].get(name)]
    shown = [
        ", ".join(f"{name} {side[name]}" for name in apart) if side else "is not there"
        for side in sides
    ]
    return shown[0], shown[1]
