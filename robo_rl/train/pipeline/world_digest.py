"""Digests of the world of an evaluation, part by part, so that worlds can be compared.

Parts are ``robot``, ``scene`` (including its robot), ``physics``, ``task settings``, ``env
settings``, ``task source: PACKAGE``, ``env source: PACKAGE``, ``plugin version: DISTRIBUTION`` and
``simulator version: DISTRIBUTION``. Versions are stored as text, all other parts as digests. A
file that the settings of an env name is such a version, ``kwargs.NAME``, and a digest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel

from robo_rl.api.robot import Robot
from robo_rl.config.component import Component
from robo_rl.config.differences import effective_settings
from robo_rl.config.fingerprint import (
    WORLDS,
    Fingerprint,
    Fingerprinted,
    is_plugin,
    is_world,
    source_digest,
    world_source_digest,
    worlds_read_by,
)
from robo_rl.config.models import digest
from robo_rl.config.registry import entry_point
from robo_rl.core.errors import DataError, PluginError
from robo_rl.train.pipeline.experiment import Experiment

World = dict[str, str]
"""Part → digest or version; empty if not recorded."""

WORLD = "world.json"
_OURS = "robo-rl"
OTHER = "other "
"""Beginning of the parts of other worlds in which a stage works."""
_KNOWN: dict[str, World] = {}
_IMPLIED = {"scene": "robot"}
"""Part → the part that always changes with it."""


def world_of(experiment: Experiment) -> World:
    """Return the world of an experiment, computed once per process.

    Raises:
        ConfigError: Its scene does not compile.
        DeviceError: An interpreter that its env needs is missing.
        PluginError: A plugin's ``fingerprint`` does not return a ``Fingerprint``.
    """
    settings = experiment.model_dump_json(include={"task", "env"})
    if settings not in _KNOWN:
        _KNOWN[settings] = _measured(experiment)
    return dict(_KNOWN[settings])


def nest_worlds(world: World, others: Mapping[str, World]) -> World:
    """Return a world with the parts of others by their names, as ``other NAME: PART``."""
    parts = {f"{OTHER}{n}: {part}": v for n, each in others.items() for part, v in each.items()}
    return {**world, **parts}


def changed_parts(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the parts in which two worlds differ; empty if one was not recorded.

    Other worlds are compared only if both have some, since older records have none.
    """
    if not (then and now):
        return []
    if not all(any(part.startswith(OTHER) for part in each) for each in (then, now)):
        then, now = _without_others(then), _without_others(now)
    parts = [part for part in sorted({**then, **now}) if then.get(part) != now.get(part)]
    return [part for part in parts if _IMPLIED.get(part) not in parts]


def _without_others(world: Mapping[str, str]) -> World:
    return {part: value for part, value in world.items() if not part.startswith(OTHER)}


def describe_changes(then: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return the differences as text: 'part: then → now; …'; empty without differences."""
    parts = changed_parts(then, now)
    return "; ".join(f"{p}: {then.get(p, 'none')} → {now.get(p, 'none')}" for p in parts)


def read_world(place: Path) -> World:
    """Return the world in which a folder's stage began; empty if not recorded.

    Raises:
        DataError: The record is damaged.
    """
    path = place / WORLD
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text())
        return {str(part): str(value) for part, value in found.items()}
    except (ValueError, AttributeError) as error:
        hint = "remove the stage's folder to run it again"
        raise DataError("cannot be read", where=path, found=str(error), hint=hint) from error


def _measured(experiment: Experiment) -> World:
    parts = dict(_of_component("env", experiment.env))
    if experiment.task is not None:
        parts |= dict(_of_component("task", experiment.task))
        parts |= _of_task(experiment.task.build())
    return dict(sorted(parts.items()))


def _of_task(task: Any) -> World:
    """Return digests of robot, scene and physics, as far as the task has them."""
    from robo_rl.env.mujoco.model_digest import model_digest

    parts: World = {}
    if isinstance(robot := getattr(task, "robot", None), Robot):
        described = robot.model_dump(mode="json", exclude={"source"})
        parts["robot"] = digest({"described": described, "model": model_digest(robot.spec())})
    scene = task.scene() if hasattr(task, "scene") else None
    if hasattr(scene, "compile"):
        parts["scene"], options = model_digest(scene)
        # The env reports a task without them, with all else that the task lacks.
        rates = {name: getattr(task, name, None) for name in ("dt_s", "episode_s")}
        parts["physics"] = digest({"options": options, **rates})
    return parts


def _of_component(role: str, component: Component[Any]) -> Iterator[tuple[str, str]]:
    """Yield settings, source and versions of a component and of its nested components."""
    yield f"{role} settings", digest(_settings(component))
    ours = set[str]()
    for each in _within(component):
        point, further = entry_point(each.kind, each.name), _fingerprint(each)
        if point is not None and point.dist is not None and point.dist.name != _OURS:
            yield f"plugin version: {point.dist.name}", point.dist.version
        for name, version in further.versions.items():
            yield f"simulator version: {name}", version
        if each.kind != "robots":  # their descriptions are digested in full
            modules = [base.__module__ for base in getattr(each.cls, "__mro__", ())]
            modules += [] if point is None else [point.module]
            plugins = set(filter(is_plugin, modules))
            counted = {*plugins, *further.sources}
            ours |= set(filter(is_world, counted))
            for module in {*plugins, *filter(is_plugin, further.sources)} - ours:
                ours |= worlds_read_by(module)
            for name, source in map(source_digest, counted - ours):
                yield f"{role} source: {name}", source
    if ours:
        yield f"{role} source: {WORLDS}", world_source_digest(frozenset(ours))


def _fingerprint(component: Component[Any]) -> Fingerprint:
    """Return the fingerprint of a component's class, empty without one.

    Raises:
        PluginError: ``fingerprint`` returns another type.
    """
    cls = component.cls
    found: Any = cls.fingerprint(component.cfg) if isinstance(cls, Fingerprinted) else Fingerprint()
    if not isinstance(found, Fingerprint):
        where = f"{component.name}: fingerprint"
        raise PluginError(
            "does not say what it depends on", where=where, expected="a Fingerprint", found=found
        )
    return found


def _settings(component: Component[Any]) -> dict[str, Any]:
    cfg = effective_settings(component.cfg)
    return {"name": component.name, **({} if cfg is None else cfg.model_dump(mode="json"))}


def _within(value: Any) -> Iterator[Component[Any]]:
    """Yield all components in a value: itself, and those in its settings."""
    if isinstance(value, Component):
        yield value
        yield from _within(value.cfg)
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _within(getattr(value, name))
    elif isinstance(value, list | tuple | dict):
        several = value.values() if isinstance(value, dict) else value
        for each in cast("Any", several):
            yield from _within(each)
