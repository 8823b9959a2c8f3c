"""Checks that artifacts were made in the experiment's world, and that a policy finds its inputs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

from robo_rl.core.errors import Notice, SpecError
from robo_rl.core.spec import ObsSpec
from robo_rl.train.pipeline.stage import Context
from robo_rl.train.pipeline.world_digest import describe_changes, world_of
from robo_rl.train.pipeline.world_specs import OTHER_WORLD


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
            raise SpecError(problem, where=where, expected=spec, found=found, hint=OTHER_WORLD)
