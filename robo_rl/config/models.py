"""Configuration models: validation of composed trees into frozen pydantic models.

A component's model derives from ``ConfigModel`` and sits in the component's file. ``compose``
reads files and overrides; ``validate`` checks the tree and reports errors by file and line.
Validation is strict: ``"8"`` and ``true`` are no numbers, but a whole float such as ``1e6`` is an
integer. NaN and infinity are refused unless the field has ``Field(allow_inf_nan=True)``.
"""

from __future__ import annotations

import hashlib
import json
import math
import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, TypeVar, Union, cast, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)
from pydantic_core import ErrorDetails, to_jsonable_python

from robo_rl.config.compose import ConfigTree, KeyPath, compose
from robo_rl.config.renamed_keys import new_key
from robo_rl.config.search_path import default_search
from robo_rl.config.yaml_nodes import dump
from robo_rl.core.errors import ConfigError
from robo_rl.core.suggestions import did_you_mean

__all__ = [
    "ConfigModel",
    "ConfigTree",
    "NestedError",
    "OmitsDefaults",
    "compose",
    "declared_fields",
    "default_search",
    "digest",
    "explain",
    "to_yaml",
    "validate",
    "validate_strict",
]

_Model = TypeVar("_Model", bound=BaseModel)


class ConfigModel(BaseModel):
    """Base of every config: frozen, unknown keys and NaN refused, defaults validated.

    ``without_effect`` names fields that no result depends on, such as time limits. They count as
    their defaults, see ``effective_settings``. A subclass adds its own to those of its bases.
    """

    without_effect: ClassVar[tuple[str, ...]] = ()

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_default=True,
        arbitrary_types_allowed=True,
        use_attribute_docstrings=True,
        protected_namespaces=(),
    )


class OmitsDefaults(ConfigModel):
    """Base of configs whose newer fields are left out of a dump at their default.

    Configs that do not use such a field keep the hashes that they had before it. ``omitted`` names
    the fields; a subclass adds its own to those of its bases. A dump with ``dump_whole`` has all.
    """

    omitted: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _without_defaults(
        self, handler: SerializerFunctionWrapHandler, info: SerializationInfo
    ) -> dict[str, Any]:
        body: dict[str, Any] = handler(self)
        if is_whole(info):
            return body
        kind = type(self)
        names = declared_fields(kind, "omitted")
        usual = {name for name in names if getattr(self, name) == kind.model_fields[name].default}
        return {name: value for name, value in body.items() if name not in usual}


def declared_fields(kind: type[BaseModel], list_name: str) -> set[str]:
    """Return the fields that a config and its bases name in a list of this name."""
    return {name for base in kind.__mro__ for name in base.__dict__.get(list_name, ())}


class NestedError(ValueError):
    """Raised by a validator that validates another model; the inner errors keep their paths.

    Args:
        error: Error of the inner validation.
        model: The model that it validated against.
    """

    def __init__(self, error: ValidationError, model: type[BaseModel]) -> None:
        self.error, self.model = error, model
        told = [(_dotted(e["loc"]), e["msg"].removeprefix("Value error, ")) for e in error.errors()]
        super().__init__("; ".join(f"{at}: {what}" if at else what for at, what in told))


def validate(
    tree: ConfigTree | Mapping[str, Any],
    model: type[_Model],
    context: Mapping[str, Any] | None = None,
) -> _Model:
    """Validate a tree against a model.

    Args:
        tree: Result of ``compose``, or a plain mapping, which gives errors without places.
        model: Type of the root.
        context: Context for the validators.

    Raises:
        ConfigError: Lists all problems, one per line, as ``file:line key: problem``.
    """
    if not isinstance(tree, ConfigTree):
        tree = ConfigTree(dict(tree), {})
    unfilled = [
        path for path, value in leaves(tree.values) if isinstance(value, str) and value == "???"
    ]
    problems = [f"{tree.origin(path)} {_dotted(path)}: a value is needed" for path in unfilled]
    try:
        checked = validate_strict(tree.values, model, context)
    except ValidationError as error:
        problems += [
            _sentence(tree, *found)
            for found in _flatten(error, model, ())
            if found[2] not in unfilled
        ]
    else:
        if not problems:
            return checked
    raise ConfigError("\n".join(dict.fromkeys(problems)))


def validate_strict(
    values: Any, model: type[_Model], context: Mapping[str, Any] | None = None
) -> _Model:
    """Validate as JSON, strictly: a list may become a tuple, but no string a number.

    Raises:
        ValidationError: The values do not fit.
    """
    text = json.dumps(_whole(_with_default_names(to_jsonable_python(values), model)))
    return model.model_validate_json(text, strict=True, context=context)


def _with_default_names(values: Any, model: type[BaseModel]) -> Any:
    """Insert the name of the default component where a component has fields but no name."""
    if not isinstance(values, dict):
        return values
    filled = dict(cast("dict[str, Any]", values))
    for key, field in model.model_fields.items():
        given, below = filled.get(key), cast("Any", field.default)
        below = {"name": below} if isinstance(below, str) else below
        named = isinstance(below, dict) and "name" in below
        if named and isinstance(given, dict) and "name" not in given:
            filled[key] = {**cast("dict[str, Any]", below), **cast("dict[str, Any]", given)}
    return filled


def leaves(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield every scalar and every empty mapping or list of plain values, with its path."""
    if isinstance(value, dict | list) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, child in cast("Iterator[tuple[str | int, Any]]", items):
            yield from leaves(child, (*path, key))
    else:
        yield path, value


_WHOLE = {"whole": True}


def is_whole(info: SerializationInfo) -> bool:
    """Whether a dump is for a reader, and has the fields that hashes leave out at their default."""
    return bool(info.context and cast("dict[str, Any]", info.context).get("whole"))


def dump_whole(model: BaseModel) -> dict[str, Any]:
    """Return a config as JSON values with all fields, for a reader and for no hash."""
    return model.model_dump(mode="json", context=_WHOLE)


def explain(tree: ConfigTree, model: BaseModel | None = None) -> list[tuple[str, Any, str]]:
    """Return (dotted key, value, origin) of every leaf; with the validated model, defaults too."""
    written = {path: tree.origin(path) for path, _ in leaves(tree.values)}
    values = tree.values if model is None else dump_whole(model)
    rows: list[tuple[str, Any, str]] = []
    for path, value in leaves(values):
        bare = (
            path[:-1] if path and path[-1] == "name" else path
        )  # ``task: reach`` is {name: reach}
        rows.append((_dotted(path), value, written.get(path) or written.get(bare, "default")))
    return rows


def digest(values: BaseModel | Mapping[str, Any]) -> str:
    """Return twelve hex digits that depend on the values, not on order or formatting."""
    plain = values.model_dump(mode="json") if isinstance(values, BaseModel) else values
    text = json.dumps(_whole(to_jsonable_python(plain)), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def to_yaml(values: BaseModel | Mapping[str, Any]) -> str:
    """Return the resolved config as YAML; ``compose`` and ``validate`` restore it exactly."""
    plain = values.model_dump(mode="json") if isinstance(values, BaseModel) else dict(values)
    return dump(_escaped(to_jsonable_python(plain)))


def _escaped(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _escaped(v) for k, v in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_escaped(v) for v in cast("list[Any]", value)]
    return value.replace("${", "\\${") if isinstance(value, str) else value


def _whole(value: Any) -> Any:
    """Convert whole floats to integers, valid for strict float and strict integer fields."""
    if isinstance(value, dict):
        return {k: _whole(v) for k, v in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_whole(v) for v in cast("list[Any]", value)]
    exact = isinstance(value, float) and math.isfinite(value) and abs(value) < 2**53
    return int(value) if exact and value.is_integer() else value


def _flatten(
    error: ValidationError, model: Any, prefix: KeyPath
) -> Iterator[tuple[ErrorDetails, Any, KeyPath]]:
    """Yield (detail, model, full path) of every problem, nested validations included."""
    for detail in error.errors():
        inner = detail.get("ctx", {}).get("error")
        path = (*prefix, *detail["loc"])
        if isinstance(inner, NestedError):
            yield from _flatten(inner.error, inner.model, path)
        elif isinstance(inner, ValidationError):
            yield from _flatten(inner, None, path)
        else:
            yield detail, _holder(model, detail["loc"]), path


def _sentence(tree: ConfigTree, detail: ErrorDetails, holder: Any, path: KeyPath) -> str:
    known = _existing(tree.values, path, missing=detail["type"] == "missing")
    place = f"{tree.origin(known)} {_dotted(known)}".strip()
    return f"{place}: {_problem(detail, holder, path)}"


def _problem(detail: ErrorDetails, holder: Any, path: KeyPath) -> str:
    message = detail["msg"]
    if detail["type"] == "extra_forbidden":
        key = str(path[-1]) if path else ""
        fields = holder.model_fields if holder is not None else {}
        new = new_key(path)
        if new and (not fields or not fields.keys().isdisjoint(new.split())):
            return f"unknown key; it was renamed to {new}"
        return f"unknown key; {did_you_mean(key, fields)}" if fields else "unknown key"
    if detail["type"] == "missing":
        return "a value is needed"
    expected = message.removeprefix("Input should be ").removeprefix("String should match ")
    if expected != message:
        found = repr(detail["input"])
        found = found if len(found) <= 60 else found[:57] + "…"
        expected = expected.replace("pattern '", "text of the pattern '")
        return f"expected {expected}, found {found} ({type(detail['input']).__name__})"
    return message.removeprefix("Value error, ")


def _existing(values: Any, path: KeyPath, *, missing: bool) -> KeyPath:
    """Return the path without pydantic's own entries (names of union members)."""
    kept: list[str | int] = []
    for position, key in enumerate(path):
        fits = isinstance(values, dict) and key in values
        fits = fits or (
            isinstance(values, list)
            and isinstance(key, int)
            and key < len(cast("list[Any]", values))
        )
        if fits:
            values = cast("Any", values)[key]
        if fits or (missing and position == len(path) - 1):
            kept.append(key)
    return tuple(kept)


def _holder(model: Any, loc: tuple[str | int, ...]) -> Any:
    """Return the model that declares the last key of loc, as far as annotations show."""
    for key in loc[:-1]:
        fields = _models(model)
        named = [m.model_fields[key].annotation for m in fields if key in m.model_fields]
        model = named[0] if named else model if fields else _element(model)
    return next(iter(_models(model)), None)


def _models(annotation: Any) -> list[Any]:
    """Return the models that an annotation allows: itself, or members of a union."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (Union, types.UnionType, Annotated):
        return [m for member in get_args(annotation) for m in _models(member)]
    return []


def _element(annotation: Any) -> Any:
    """Return the last type argument: the element type of a list, tuple or dict."""
    members = [a for a in get_args(annotation) if a is not ...]
    return members[-1] if members else None


def _dotted(path: tuple[str | int, ...]) -> str:
    return ".".join(str(key) for key in path)
