"""The page with every public name, its signature and its docstring."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from typing_extensions import is_protocol

import robo_rl
import robo_rl.testing
from tools.reference.markdown import docstring, document, prose, sentence

_ABOUT = """\
Public are, and stay as they are within a major version:

- the names on this page, imported from `robo_rl` and from `robo_rl.testing`;
- [config keys](config-keys.md), [verbs and options](cli.md), groups and names of
  [entry points](entry-points.md);
- the [bundle format](bundle-format.md): a newer robo-rl reads bundles of an older one.

Everything else may change without notice: modules and the names in them, attributes that begin with
`_`, file layouts of runs, and [metrics](metrics.md). A public name that goes is announced in the
release before: it still works there, with a `DeprecationWarning` that names what takes its place,
and the release notes list it. Before version 1.0 the minor version counts as the major one."""
_TOPICS = {
    "Settings and plugins": ("robo_rl.config.",),
    "Errors": ("robo_rl.core.errors",),
    "Specs": ("robo_rl.core.spec",),
    "Random streams, rotations, state": ("robo_rl.core.",),
    "Tasks and robots": (
        "robo_rl.api.task",
        "robo_rl.api.robot",
        "robo_rl.api.control_axes",
        "robo_rl.language.",
    ),
    "Envs, backends and cameras": ("robo_rl.api.",),
    "Networks": ("robo_rl.nets.",),
    "Data": ("robo_rl.data.",),
    "Policies and samplers": ("robo_rl.policy.",),
    "Algorithms and critics": ("robo_rl.algo.", "robo_rl.critic.", "robo_rl.train.stages."),
    "Off-policy evaluation": ("robo_rl.ope.",),
    "Stages": ("robo_rl.train.",),
    "Bundles and transports": ("robo_rl.bundle.", "robo_rl_sim2real."),
    "Conformance suites": ("robo_rl.testing.",),
}
"""Heading → prefixes of the modules whose names it lists; the first match counts."""


def page() -> str:
    """Return the text of the page."""
    names = {**_homes(robo_rl), **_homes(robo_rl.testing)}
    topics = {name: _topic(module) for name, module in names.items()}
    parts = list[str]()
    for topic in _TOPICS:
        parts.append(f"## {topic}")
        parts += [_name(name) for name in names if topics[name] == topic]
    return document("Python interface", _ABOUT, *parts)


def _homes(package: Any) -> dict[str, str]:
    return {name: module for module, names in package.MODULES.items() for name in names}


def _topic(module: str) -> str:
    return next(topic for topic, begins in _TOPICS.items() if module.startswith(begins))


def _name(name: str) -> str:
    package = "robo_rl" if name in robo_rl.__all__ else "robo_rl.testing"
    thing: Any = getattr(robo_rl if package == "robo_rl" else robo_rl.testing, name)
    code = f"```python\nfrom {package} import {name}\n\n{_head(name, thing)}\n```"
    listed = "\n".join(_members(thing)) if isinstance(thing, type) else ""
    members = f"Members:\n\n{listed}" if listed else ""
    return "\n\n".join(
        part for part in (f"### {name}", code, prose(docstring(thing)), members) if part
    )


def _head(name: str, thing: Any) -> str:
    if not isinstance(thing, type):
        return f"def {name}{_signature(thing)}"
    bases = [_base(base) for base in thing.__bases__ if base is not object]
    shown = f"class {name}({', '.join(bases)})" if bases else f"class {name}"
    fields = list(_fields(thing))
    return "\n".join([f"{shown}:", *(f"    {each}" for each in fields)] if fields else [shown])


def _base(base: type) -> str:
    return "NamedTuple" if base is tuple else base.__name__


def _fields(cls: type) -> Iterator[str]:
    """Yield the declared attributes, and the constructor unless they imply it."""
    for name, kind in inspect.get_annotations(cls).items():
        if not name.startswith("_"):
            yield f"{name}: {_text(kind)}"
    said = issubclass(cls, BaseModel) or dataclasses.is_dataclass(cls) or is_protocol(cls)
    if "__init__" in vars(cls) and not said:
        yield f"def __init__{_signature(cls.__init__)}"


def _text(annotation: Any) -> str:
    shown = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"ForwardRef\('([^']*)'[^)]*\)", r"\1", shown)


def _members(cls: type) -> Iterator[str]:
    """Yield the public methods and properties with the first paragraph of their docstrings."""
    for name, member in vars(cls).items():
        inner = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if name.startswith("_") or not sentence(inner):
            continue
        if isinstance(member, property):
            yield f"- `{name}`: {sentence(member)}"
        elif inspect.isfunction(inner):
            yield f"- `{name}{_signature(inner)}`: {sentence(inner)}"


def _signature(function: Any) -> str:
    signature = inspect.signature(function)
    own = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
    shown = str(signature.replace(parameters=own)).replace("'", "")
    return re.sub(r" at 0x[0-9a-f]+", "", shown)
