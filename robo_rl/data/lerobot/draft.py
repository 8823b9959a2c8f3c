"""Drafts a mapping of a LeRobot dataset, with what its description says; the user adds the rest."""

from __future__ import annotations

from pathlib import Path

from robo_rl.core.suggestions import as_array_name
from robo_rl.data.lerobot.info import Feature, Info, read_info

STATE, ACTION, NEXT_SUCCESS, NEXT_REWARD = (
    "observation.state",
    "action",
    "next.success",
    "next.reward",
)
_ROBOT_UNITS = {"so100": ("deg", "gripper"), "so101": ("deg", "gripper")}
"""Start of ``robot_type`` → LeRobot's unit of its joints, and the element in percent."""


def draft_mapping(root: Path) -> str:
    """Return a mapping as YAML; ``???`` marks what the dataset does not say.

    Raises:
        DataError: The folder holds no LeRobot dataset.
    """
    info = read_info(root)
    lines = [
        f"# {info.codebase_version}, {info.total_episodes} episodes, {info.total_frames} rows,"
        f" {info.fps:g} a second, robot_type {info.robot_type or 'not named'}.",
        "# Units of the file: rad, deg, m, cm, mm, 1 (none), percent. Every ??? needs a value.",
        "obs:",
    ]
    for key, feature in info.measurements.items():
        if _is_observed(key) and not feature.is_picture and feature.dtype != "string":
            lines += [f"  {_item(key)}:", *_vector(info, key, feature, indent=4)]
    cameras = {key: each for key, each in info.measurements.items() if each.is_picture}
    lines += ["cameras:"] if cameras else []
    for key, feature in cameras.items():
        height, width = _sides(feature)
        lines.append(f"  {_item(key)}_rgb: {{source: {key}, width: {width}, height: {height}}}")
    action = info.features.get(ACTION)
    lines += ["act:", *_vector(info, ACTION, action, indent=2)] if action else ["act: ???"]
    lines.append("act_reference: ???  # absolute targets, or delta from the last command")
    told = NEXT_SUCCESS if NEXT_SUCCESS in info.features else "???  # true, false, or a column"
    lines.append(f"success: {told}")
    lines += [f"rew: {NEXT_REWARD}"] if NEXT_REWARD in info.features else []
    return "\n".join(lines) + "\n"


def _vector(info: Info, key: str, feature: Feature, indent: int) -> list[str]:
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


def _convention(info: Info) -> tuple[str, str]:
    robot = info.robot_type or ""
    found = (each for start, each in _ROBOT_UNITS.items() if robot.startswith(start))
    return next(found, ("", ""))


def _is_observed(key: str) -> bool:
    return key.startswith("observation.")


def _item(key: str) -> str:
    return as_array_name(key.removeprefix("observation.").removeprefix("images."))


def _sides(feature: Feature) -> tuple[int, int]:
    height, width = feature.shape[:2] if feature.shape[2] in (1, 3) else feature.shape[1:]
    return height, width
