"""What was made elsewhere must be of the world that it is taken into."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

from robo_rl.api.env import VecEnv
from robo_rl.core.errors import DataError, Notice
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.train.pipeline.stage import Context
from robo_rl.train.pipeline.world_digest import describe_changes, world_of

_HINT = "it is of another task, robot or env: set those of the experiment to what it was made with"


def world_changes(world: Mapping[str, str], context: Context) -> dict[str, str]:
    """``made_in_another_world`` for a report: in what that one differs from the experiment's.

    What was made there may be taken up all the same, for another robot's gains or a slow line, with
    a warning; what was measured there says nothing of here. Nothing where they do not differ, or
    nobody knows.

    Args:
        world: Parts of that in which it was made, see ``world_digest``.
        context: Of the stage that takes it up.
    """
    found = describe_changes(world, world_of(context.experiment)) if world else ""
    if not found:
        return {}
    warnings.warn(f"what is taken up was made in another world: {found}", Notice, stacklevel=2)
    return {"world_changes": found}


def check_same_specs(where: Path, obs_spec: ObsSpec, act_spec: ActSpec, env: VecEnv) -> None:
    """Observations and actions must be those of the env.

    Args:
        where: What they are of, for the error.
        obs_spec: Its observations; further ones than the env has do no harm.
        act_spec: Its actions.
        env: In which it is to be used.

    Raises:
        DataError: Some are others, or missing.
    """
    ours: dict[str, TensorSpec] = {"act": env.act_spec, **env.obs_spec.items}
    theirs = {name: spec for name, spec in obs_spec.items.items() if name in ours}
    demand_same_arrays(where, ours, {**theirs, "act": act_spec}, "the env has", _HINT)


def demand_same_arrays(
    where: Path,
    ours: Mapping[str, TensorSpec],
    theirs: Mapping[str, TensorSpec],
    what: str,
    hint: str,
) -> None:
    """Two sets of arrays must be the same.

    Args:
        where: What ``theirs`` are of, for the error.
        ours: What is wanted, by name.
        theirs: What is there.
        what: Whose ``ours`` are: 'the env has'.
        hint: What to do.

    Raises:
        DataError: They are not; each that differs is named, with the fields that do.
    """
    apart = [name for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name)]
    if apart:
        pairs = [(name, *_fields_apart(ours.get(name), theirs.get(name))) for name in apart]
        raise DataError(
            f"holds other arrays than {what}: {', '.join(apart)}",
            where=where,
            expected="; ".join(f"{name} {wanted}" for name, wanted, _ in pairs),
            found="; ".join(f"{name} {found}" for name, _, found in pairs),
            hint=hint,
        )


def _fields_apart(ours: TensorSpec | None, theirs: TensorSpec | None) -> tuple[str, str]:
    """Of two that are not the same, the fields in which they differ."""
    sides = [{} if spec is None else spec.model_dump() for spec in (ours, theirs)]
    apart = [name for name in {**sides[0], **sides[1]} if sides[0].get(name) != sides[1].get(name)]
    shown = [
        ", ".join(f"{name} {side[name]}" for name in apart) if side else "is not there"
        for side in sides
    ]
    return shown[0], shown[1]
