"""Types, defaults and limits of a model's fields, in terms of YAML."""

from __future__ import annotations

import types
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel, JsonValue
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python

from robo_rl.config.component import Component, component

_PLAIN = {
    bool: "boolean", int: "integer", float: "number", str: "text", Path: "path", Any: "any",
    type(None): "null", JsonValue: "any JSON value",
}  # fmt: skip
_LIMITS = {
    "gt": "> {}", "ge": "≥ {}", "lt": "< {}", "le": "≤ {}", "multiple_of": "multiple of {}",
    "min_length": "at least {} long", "max_length": "at most {} long", "pattern": "matches `{}`",
}  # fmt: skip


def models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield all models in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for member in get_args(annotation):
        yield from models(member)


def type_name(annotation: Any, links: dict[type[BaseModel], str], kind: str = "") -> str:
    """Return a type in words; models and components are links.

    Args:
        annotation: Annotation of a field.
        links: Model → Markdown link.
        kind: Kind of the component, where the field is one.
    """
    origin, members = get_origin(annotation), get_args(annotation)
    if annotation is Component:
        return f"name of [{kind}](entry-points.md#{kind}), or mapping"
    if origin is Annotated:
        return type_name(members[0], links, _kind(members[1:]) or kind)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(type_name(each, links, kind) for each in members))
    if origin is Literal:
        return " or ".join(f"`{each}`" for each in members)
    if origin in (tuple, list, set, frozenset):
        inner = [each for each in members if each is not Ellipsis]
        names = [type_name(each, links, kind) for each in inner]
        if origin is not tuple or Ellipsis in members:
            return f"list of {names[0]}"
        alike = len(set(names)) == 1
        return f"list of {len(names)}: {names[0] if alike else ', '.join(names)}"
    if origin is not None and len(members) == 2:
        return f"mapping of {' to '.join(type_name(each, links, kind) for each in members)}"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " or ".join(f"`{each.value}`" for each in annotation)
    return links.get(annotation) or _PLAIN.get(annotation) or f"`{annotation}`"


def field_type(field: FieldInfo, links: dict[type[BaseModel], str]) -> str:
    """Return the type of a field in words."""
    return type_name(field.annotation, links, _kind(field.metadata))


def limits(field: FieldInfo) -> str:
    """Return the limits of a field's value; empty without limits."""
    return ", ".join(dict.fromkeys(_limits(field.metadata, field.annotation)))


def default(field: FieldInfo) -> str:
    """Return the default of a field as YAML; ``required`` without one."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "required"
    if isinstance(value, BaseModel):
        changed = _changed(value)
        return f"`{_yaml(changed)}`" if changed else "its defaults"
    return f"`{_yaml(value)}`"


def _kind(metadata: Any) -> str:
    return next((each.kind for each in metadata if isinstance(each, component)), "")


def _limits(metadata: Any, annotation: Any) -> Iterator[str]:
    for each in metadata:
        if isinstance(each, FieldInfo):
            yield from _limits(each.metadata, None)
        for name, words in _LIMITS.items():
            if (bound := getattr(each, name, None)) is not None:
                yield words.format(_yaml(bound))
    if get_origin(annotation) is Annotated:
        inner, *rest = get_args(annotation)
        yield from _limits(rest, inner)
    elif get_origin(annotation) in (Union, types.UnionType):
        for member in get_args(annotation):
            yield from _limits((), member)


def _changed(value: BaseModel) -> dict[str, Any]:
    """Return the fields of a model that differ from the model's own defaults."""
    fields = type(value).model_fields
    plain = {name: getattr(value, name) for name in fields}
    own = {
        name: field.get_default(call_default_factory=True)
        for name, field in fields.items()
        if not field.is_required()
    }
    return {name: each for name, each in plain.items() if name not in own or own[name] != each}


def _yaml(value: Any) -> str:
    if isinstance(value, Component):
        fields = {} if value.cfg is None else _changed(value.cfg)
        return _yaml({"name": value.name, **fields}) if fields else value.name
    if isinstance(value, dict):
        entries = cast("dict[Any, Any]", value)
        if set(entries) == {"name"}:
            return str(entries["name"])
        return "{" + ", ".join(f"{key}: {_yaml(each)}" for key, each in entries.items()) + "}"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_yaml, cast("list[Any]", value))) + "]"
    if isinstance(value, BaseModel):
        return _yaml(_changed(value))
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return str(to_jsonable_python(value)) or '""'
