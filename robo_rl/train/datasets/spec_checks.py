"""What was made elsewhere must be of the world that it is taken into."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

from robo_rl.api.env import VecEnv
from robo_rl.core.errors import DataError, Notice
from robo_rl.core.spec import ActSpec, ObsSpec
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
        DataError: One is another, or missing.
    """
    pairs = {
        f"obs '{name}'": (spec, obs_spec.items.get(name))
        for name, spec in env.obs_spec.items.items()
    }
    for what, (wanted, found) in {**pairs, "act": (env.act_spec, act_spec)}.items():
        if found != wanted:
            problem = f"{what} is another" if found is not None else f"{what} is missing"
            there = found if found is not None else f"only {', '.join(obs_spec.items)}"
            raise DataError(problem, where=where, expected=wanted, found=there, hint=_HINT)
