"""Checks that observations and actions mean the same in another world.

Actions of another reference or other limits run without an error and fail at the task.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from robo_rl.api.env import VecEnv
from robo_rl.core.errors import DataError
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.train.pipeline.experiment import Experiment

OTHER_WORLD = (
    "it is of another task, robot or env: set those of the experiment to what it was made with"
)

SHOWN = 2
"""Arrays whose differing fields an error shows; it names all."""
_LONGEST = 100
"""Characters of a value that an error shows."""


def check_policy_in_world(
    where: Path,
    obs_spec: ObsSpec,
    act_spec: ActSpec,
    experiment: Experiment,
    hint: str = "leave out the settings that change its actions or observations",
) -> None:
    """Check that a policy's inputs and actions mean the same in an experiment's world.

    Args:
        where: Path of the policy, for the error.
        obs_spec: What the policy reads.
        act_spec: Its actions.
        experiment: Experiment of the world.
        hint: Hint of the error.

    Raises:
        DataError: The world has other actions, or lacks an observation or has it otherwise.
    """
    with closing(experiment.make_env(1)) as env:
        read = {name: spec for name, spec in env.obs_spec.items.items() if name in obs_spec.items}
        ours: dict[str, TensorSpec] = {"act": env.act_spec, **read}
    theirs = {"act": act_spec, **obs_spec.items}
    demand_same_arrays(where, ours, theirs, "the changed world has", hint)


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
    hint = f"{OTHER_WORLD}; {hint}" if hint else OTHER_WORLD
    demand_same_arrays(where, ours, {**theirs, "act": act_spec}, "the env has", hint)


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
        ", ".join(f"{name} {_short(side[name])}" for name in apart) if side else "is not there"
        for side in sides
    ]
    return shown[0], shown[1]


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
