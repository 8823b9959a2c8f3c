"""Drafts a mapping with what a dataset says of itself; the user adds the rest."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from robo_rl.core.suggestions import as_array_name
from robo_rl.data.columns.feature import Columns, Feature
from robo_rl.data.columns.units import RANGES, UNITS

_ASKED = "???  # true, false, or a column"


class Told(NamedTuple):
    """Columns of a format.

    Args:
        act: The action.
        success: Whether the task is solved.
        rew: Rewards.
        terminated: Flags of episodes that end by themselves.
    """

    act: str
    success: str
    rew: str
    terminated: str = ""


_SO_ARMS = ("so100", "so101")
"""Starts of ``robot_type`` of arms whose joints are in degrees or in shares of their range."""


def draft_mapping(info: Columns, is_observed: Callable[[str], bool], told: Told) -> str:
    """Return a mapping as YAML; ``???`` marks what the dataset does not say.

    Args:
        info: Columns of the dataset.
        is_observed: Whether a column is part of the observation.
        told: Columns of the action and of outcomes.
    """
    lines = [
        f"# {' '.join(info.about.split())}.",
        f"# Units of the file: {', '.join((*UNITS, *RANGES))}. Every ??? needs a value.",
        "obs:",
    ]
    for key, feature in info.measurements.items():
        if is_observed(key) and not feature.is_picture and feature.dtype != "string":
            lines += [f"  {_item(key)}:", *_vector(info, key, feature, indent=4)]
    cameras = {key: each for key, each in info.measurements.items() if each.is_picture}
    lines += ["cameras:"] if cameras else []
    for key, feature in cameras.items():
        height, width = feature.sides
        sides = f"width: {width}, height: {height}"
        lines.append(f"  {_item(key).removesuffix('_rgb')}_rgb: {{source: {_text(key)}, {sides}}}")
    action = info.features.get(told.act)
    lines += ["act:", *_vector(info, told.act, action, indent=2)] if action else ["act: ???"]
    lines.append("act_reference: ???  # absolute targets, or delta from the last command")
    success = told.success if told.success in info.features else _ASKED
    lines.append(f"success: {success}")
    lines += [f"rew: {told.rew}"] if told.rew in info.features else []
    if told.terminated in info.features:
        lines.append(f"terminated: {told.terminated}  # the first flag ends an episode; or false")
    return "\n".join(lines) + "\n"


def _vector(info: Columns, key: str, feature: Feature, indent: int) -> list[str]:
    names, pad = [_text(name) for name in feature.element_names], " " * indent
    lines = [f"{pad}source: {_text(key)}"]
    if names:
        lines.append(f"{pad}# elements: {', '.join(names)}")
    if names and (info.robot_type or "").startswith(_SO_ARMS):
        lines.append(f"{pad}# LeRobot records deg with use_degrees, else range_m100_100; grippers")
        lines.append(f"{pad}# are in percent. Elements in shares of a range need range_of.")
        grip = [name.startswith('"gripper') for name in names]
        units = ", ".join("percent" if each else "'???'" for each in grip)
        ranges = ", ".join(f"{n}: ['???', '???']" for n, g in zip(names, grip, strict=True) if g)
        lines.append(f"{pad}units: [{units}]")
        lines += [f"{pad}range_of: {{{ranges}}}  # rad at either end"] if ranges else []
    else:
        lines.append(f"{pad}units: ['???']  # one, or one of each element")
    return lines


def _text(text: str) -> str:
    """Return text as YAML, whatever is in it."""
    return json.dumps(text)


def _item(key: str) -> str:
    for start in ("observation.", "images.", "obs/"):
        key = key.removeprefix(start)
    return as_array_name(key)
