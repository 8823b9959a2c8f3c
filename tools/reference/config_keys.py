"""The page with every config key: experiments, components, robots, suites, deployments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from pydantic import BaseModel

from robo_rl.api.robot import Robot
from robo_rl.bench.suite.suite import Suite
from robo_rl.config.registry import kinds, load, singular
from robo_rl.data.columns.mapping import Mapping
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl_sim2real.node.settings import DeploySettings
from robo_rl_sim2real.simulated.robot import SimRobot
from robo_rl_sim2real.twin.identification import latency
from tools.reference.markdown import arguments, document, inline, sentence, slug, table
from tools.reference.types import default, field_type, limits, models

ROOTS: dict[str, type[BaseModel]] = {
    "Experiment": Experiment,
    "Suite": Suite,
    "Robot": Robot,
    "Deployment": DeploySettings,
    "Simulated robot": SimRobot.Config,
    "Mapping of columns": Mapping,
    "Latency identification": latency.LatencyFitConfig,
}
"""Title → model that validates a file, or the overrides of a verb."""
_HEADER = ("key", "type", "default", "constraint", "meaning")
_ABOUT = (
    "Every key of a config file, by the model that defines it. A key of a nested model is named"
    " through the key that holds it, such as `stages.online.algo.clip`. A component is a mapping"
    " with its `name` and the keys of its own section; the bare name stands for all its defaults."
    " `robo-rl config NAME --explain` shows every value of an experiment and where it was set."
)


def page() -> str:
    """Return the text of the page."""
    sections = titled()
    links = {model: f"[{title}](#{slug(title)})" for model, title in sections.items()}
    parts = [_section(title, model, links) for model, title in sections.items()]
    return document("Config keys", _ABOUT, *parts)


@cache
def titled() -> dict[type[BaseModel], str]:
    """Return model → title of its section, in the order of the page."""
    found: dict[type[BaseModel], str] = {model: title for title, model in ROOTS.items()}
    named = {model: title for title, model in components()}
    reached = list(dict.fromkeys(each for root in [*found, *named] for each in _reach(root)))
    nested = [model for model in reached if model not in found and model not in named]
    used = Counter(_name(model) for model in nested)
    for model in nested:
        leaf = model.__module__.rpartition(".")[2]
        named[model] = _name(model) if used[_name(model)] == 1 else f"{_name(model)} of {leaf}"
    return found | dict(sorted(named.items(), key=lambda each: each[1].lower()))


def components() -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield (title, ``Config``) of each built-in component that has settings."""
    for kind in kinds():
        for point in sorted(entry_points(group=f"robo_rl.{kind}"), key=lambda each: each.name):
            if point.dist is None or point.dist.name != "robo-rl":
                continue
            config = getattr(load(kind, point.name), "Config", None)
            if isinstance(config, type) and issubclass(config, BaseModel):
                yield f"{singular(kind).capitalize()} {point.name}", config


def description(model: type[BaseModel], key: str) -> str:
    """Return the description of a key: of its field, or in ``Args:`` of its model's docstring.

    Raises:
        ValueError: Neither has a description.
    """
    said = model.model_fields[key].description or arguments(model).get(key, "")
    if not said:
        raise ValueError(f"{model.__module__}.{model.__qualname__}.{key} has no description")
    return inline(said)


def own_keys(model: type[BaseModel]) -> list[str]:
    """Return the keys that a model defines itself, or whose default it changes."""
    return [key for key in model.model_fields if key in model.__annotations__]


def _section(title: str, model: type[BaseModel], links: dict[type[BaseModel], str]) -> str:
    bases = [links[base] for base in model.__mro__[1:] if base in links]
    rest = f"It has the keys of {' and '.join(_outermost(model, links))} too." if bases else ""
    rows = [
        (
            f"`{key}`",
            field_type(model.model_fields[key], links),
            default(model.model_fields[key]),
            limits(model.model_fields[key]),
            description(model, key),
        )
        for key in own_keys(model)
    ]
    nothing = "" if rows or bases else "It has no keys."
    parts = [f"## {title}", sentence(model), table(_HEADER, rows), rest, nothing]
    return "\n\n".join(part for part in parts if part)


def _outermost(model: type[BaseModel], links: dict[type[BaseModel], str]) -> list[str]:
    """Return links of the base models, directly or through models without a section."""
    found = list[str]()
    for base in model.__bases__:
        if base in links:
            found.append(links[base])
        elif isinstance(base, type) and issubclass(base, BaseModel):
            found += _outermost(base, links)
    return found


def _reach(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield the model, all models in its keys, and its base models, recursively."""
    seen: dict[type[BaseModel], None] = {}
    todo: list[type[BaseModel]] = [model]
    while todo:
        each = todo.pop(0)
        if each in seen:
            continue
        seen[each] = None
        todo += _bases(each)
        todo += [inner for key in own_keys(each) for inner in models(_annotation(each, key))]
    yield from seen


def _bases(model: type[BaseModel]) -> Iterable[type[BaseModel]]:
    return [b for b in model.__bases__ if issubclass(b, BaseModel) and own_keys(b)]


def _annotation(model: type[BaseModel], key: str) -> Any:
    return model.model_fields[key].annotation


def _name(model: type[BaseModel]) -> str:
    name = model.__qualname__.removesuffix(".Config")
    return name.removesuffix("Config") or model.__module__.rpartition(".")[2]
