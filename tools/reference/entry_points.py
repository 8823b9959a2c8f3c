"""The page with every entry point of robo-rl by group, and the interface of each group."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

from robo_rl.api.robot import Robot
from robo_rl.config.registry import kinds, load
from tools.reference.config_keys import titled
from tools.reference.markdown import document, sentence, slug, table

_OURS = "robo-rl"
_ABOUT = (
    "A plugin registers an object in a group of entry points, and the object is imported when a"
    " config or a command names it. What robo-rl brings goes the same way. `robo-rl list` shows the"
    " names of all installed distributions, `robo-rl doctor plugins` loads all of them. The values"
    " of the group `robo_rl.configs` are packages with YAML files (see the tutorial on tasks)."
)


class Group(NamedTuple):
    """Description of a group.

    Args:
        about: The kind of object that is registered.
        base: Public name of its base class or protocol; empty where there is none.
    """

    about: str
    base: str = ""


GROUPS = {
    "algos": Group("An algorithm, built as `Algo(cfg, policy, num_envs, generator)`.", "Algorithm"),
    "backends": Group("A physics backend, built as `Backend(cfg)`.", "Backend"),
    "converters": Group("A converter of recordings to datasets, built as `C(cfg)`.", "Converter"),
    "critics": Group(
        "Critics of logged data, built as `Critics(cfg, policy, replay, generator)`.",
        "OfflineCritics",
    ),
    "encoders": Group(
        "An encoder of observations, built as `Encoder(cfg, obs_spec, obs_horizon)`.", "ObsEncoder"
    ),
    "exporters": Group("A writer of another format, built as `E(cfg)`.", "Exporter"),
    "envs": Group("An env, built as `Env(cfg, num_envs)` or `Env(cfg, task, num_envs)`.", "VecEnv"),
    "estimators": Group("An off-policy estimator, built as `Estimator(cfg)`.", "Estimator"),
    "offline_algos": Group(
        "An offline algorithm, built as `Algo(cfg, inputs)` with `OfflineInputs`.",
        "OfflineAlgorithm",
    ),
    "nets": Group("A network, built as `Net(cfg, horizon, act_dim, features)`.", "ChunkNet"),
    "policies": Group(
        "A policy family, built as `Policy(cfg, obs_spec, act_spec, normalizer)`.",
        "DenoisingPolicy",
    ),
    "robots": Group("A robot: an object, not a class.", "Robot"),
    "samplers": Group("A sampler, built as `Sampler(cfg, num_steps)`.", "Sampler"),
    "stages": Group("A stage of an experiment, built as `Stage(cfg)`.", "Stage"),
    "tasks": Group("A task, built as `Task(cfg)`, or as `Task()` without a `Config`.", "Task"),
    "text_encoders": Group("An encoder of instructions, built as `E(cfg)`.", "TextEncoder"),
    "transports": Group("A transport of a node, built as `T(cfg, node)`.", "Transport"),
    "verbs": Group("A verb of the command line: a function, or a `typer.Typer`."),
}
"""Group after ``robo_rl.`` → its description."""


def page() -> str:
    """Return the text of the page."""
    return document("Entry points", _ABOUT, *map(_group, kinds()))


def _group(kind: str) -> str:
    group = GROUPS[kind]
    base = f" Base: [{group.base}](api.md#{slug(group.base)})." if group.base else ""
    points = [each for each in entry_points(group=f"robo_rl.{kind}") if _is_ours(each)]
    rows = [_row(kind, each) for each in sorted(points, key=lambda each: each.name)]
    listed = table(("name", "object", "what it is", "keys"), rows)
    return f"## {kind}\n\nGroup `robo_rl.{kind}`. {group.about}{base}\n\n{listed}"


def _is_ours(point: EntryPoint) -> bool:
    return point.dist is not None and point.dist.name == _OURS


def _row(kind: str, point: EntryPoint) -> tuple[str, str, str, str]:
    found: Any = load(kind, point.name)
    about = found.source if isinstance(found, Robot) else sentence(found)
    title = titled().get(getattr(found, "Config", None))  # type: ignore[arg-type]
    keys = f"[keys](config-keys.md#{slug(title)})" if title else ""
    return f"`{point.name}`", f"`{point.value}`", about, keys
