"""Drafts a mapping with what a dataset says of itself; the user adds the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from robo_rl.core.suggestions import as_array_name
from robo_rl.data.columns.feature import Columns, Feature

_ASKED = "???  # true, false, or a column"


class Told(NamedTuple):
    """Columns of a format.

    Args:
        act: The action.
        success: Whether the task is solved.
        rew: Rewards.
    """

    act: str
    success: str
    rew: str


_ROBOT_UNITS = {"so100": ("deg", "gripper"), "so101": ("deg", "gripper")}
"""Start of ``robot_type`` → LeRobot's unit of its joints, and the element in percent."""


def draft_mapping(info: Columns, is_observed: Callable[[str], bool], told: Told) -> str:
    """Return a mapping as YAML; ``???`` marks what the dataset does not say.

    Args:
        info: Columns of the dataset.
        is_observed: Whether a column is part of the observation.
        told: Columns of the action and of outcomes.
    """
    lines = [
        f"# {info.about}.",
        "# Units of the file: rad, deg, m, cm, mm, 1 (none), percent. Every ??? needs a value.",
        "obs:",
    ]
    for key, feature in info.measurements.items():
        if is_observed(key) and not feature.is_picture and feature.dtype != "string":
            lines += [f"  {_item(key)}:", *_vector(info, key, feature, indent=4)]
    cameras = {key: each for key, each in info.measurements.items() if each.is_picture}
    lines += ["cameras:"] if cameras else []
    for key, feature in cameras.items():
        height, width = _sides(feature)
        lines.append(f"  {_item(key)}_rgb: {{source: {key}, width: {width}, height: {height}}}")
    action = info.features.get(told.act)
    lines += ["act:", *_vector(info, told.act, action, indent=2)] if action else ["act: ???"]
    lines.append("act_reference: ???  # absolute targets, or delta from the last command")
    success = told.success if told.success in info.features else _ASKED
    lines.append(f"success: {success}")
    lines += [f"rew: {told.rew}"] if told.rew in info.features else []
    return "\n".join(lines) + "\n"


def _vector(info: Columns, key: str, feature: Feature, indent: int) -> list[str]:
    names, pad = feature.element_names, " " * indent
    lines = [f"{pad}source: {key}"]
    if names:
        lines.append(f"{pad}# elements: {', '.join(names)}")
    unit, percent = _convention(info)
    if unit and names:
        units = ["percent" if name.startswith(percent) else unit for name in names]
        lines.append(f"{pad}units: [{', '.join(units)}]  # LeRobot's convention, to be checked")
        ranges = [
            f"{n}: ['???', '???']" for n, u in zip(names, units, strict=True) if u == "percent"
        ]
        if ranges:
            lines.append(f"{pad}percent_of: {{{', '.join(ranges)}}}  # rad at 0 and at 100 %")
    else:
        lines.append(f"{pad}units: ['???']  # one, or one of each element")
    return lines


def _convention(info: Columns) -> tuple[str, str]:
    robot = info.robot_type or ""
    found = (each for start, each in _ROBOT_UNITS.items() if robot.startswith(start))
    return next(found, ("", ""))


def _item(key: str) -> str:
    for start in ("observation.", "images.", "obs/"):
        key = key.removeprefix(start)
    return as_array_name(key)


def _sides(feature: Feature) -> tuple[int, int]:
    height, width = feature.shape[:2] if feature.shape[2] in (1, 3) else feature.shape[1:]
    return height, width
