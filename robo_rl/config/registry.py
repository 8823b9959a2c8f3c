"""Names to objects, by entry points: the one place where a name in a config is resolved.

Ours and a third party's tasks, robots, policies … are found alike, in the groups
``robo_rl.<kind>``, and are imported only when named.

Two distributions may register the same name. A name may be qualified by its distribution,
``acme-tasks:lift_cube``; a bare one is that of robo-rl where it has one, so that nothing which is
installed beside it changes what a config means.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from types import FunctionType
from typing import Any, Generic, TypeVar, cast, get_args

from pydantic import BaseModel, GetCoreSchemaHandler, SerializationInfo, ValidationError
from pydantic_core import CoreSchema, core_schema

from robo_rl.config.models import ConfigModel, NestedError, validate_strict
from robo_rl.core.errors import DeviceError, Notice, PluginError
from robo_rl.core.suggestions import did_you_mean

_PREFIX = "robo_rl."
_OURS = "robo-rl"
_OF = ":"
_LOADED: dict[str, str] = {}

T_co = TypeVar("T_co", covariant=True)

EXTRA_OF = {
    "mujoco": "sim", "mink": "sim", "daqp": "sim",
    "torch": "train", "zarr": "train", "numcodecs": "train", "google_crc32c": "train",
    "safetensors": "train", "scipy": "train",
    "onnx": "export", "onnxruntime": "export", "onnxscript": "export",
    "cyclonedds": "dds", "rosbags": "dds", "cv2": "images",
    "warp": "warp", "mujoco_warp": "warp",
    "gymnasium": "gym", "diffusers": "diffusion", "imageio": "video", "metaworld": "bench",
}  # fmt: skip
"""Third-party module → the extra of robo-rl that brings it."""

ALONE = {"metaworld": "metaworld==3.1.1"}
"""Module → what pip is to install besides the extra and without dependencies, whose pins clash."""


def names(kind: str) -> list[str]:
    """All names of a kind (``"tasks"``) that can be loaded, sorted; nothing is imported.

    They are qualified where the bare name is of another distribution, or of none by itself.
    """
    return sorted(_named(kind))


def kinds() -> list[str]:
    """All kinds that anything is registered for."""
    groups = cast("set[str]", entry_points().groups)
    return sorted(g.removeprefix(_PREFIX) for g in groups if g.startswith(_PREFIX))


def provider(kind: str, name: str) -> tuple[str, str]:
    """(distribution, ``module:attribute``) of what a name stands for.

    Raises:
        PluginError: Nothing has that name, or several distributions have and none is named.
    """
    point = _point(kind, name)
    return _distribution(point), point.value


def ambiguous_names(kind: str) -> dict[str, list[str]]:
    """Bare name → all names, each of another distribution, that it could have meant."""
    return {
        bare: [name for name, point in _named(kind).items() if point in points]
        for bare, points in _found(kind).items()
        if len(points) > 1
    }


def plugin_packages() -> dict[str, str]:
    """Top-level package of everything that others registered → its distribution."""
    return {
        point.value.partition(_OF)[0].partition(".")[0].strip(): _distribution(point)
        for kind in kinds()
        for points in _found(kind).values()
        for point in points
        if _distribution(point) != _OURS
    }


def load(kind: str, name: str) -> Any:
    """Import what is registered under a name.

    Args:
        kind: Group behind ``robo_rl.``: ``tasks``, ``robots``, ``policies`` …
        name: Name of the entry point, bare or as ``distribution:name``.

    Raises:
        PluginError: Nothing has that name, or several distributions have and none is named, or it
            fails to import.
        DeviceError: It needs an extra that is not installed.
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
    """Distribution → version of all that brought something that this process has loaded."""
    return dict(_LOADED)


def entry_point(kind: str, name: str) -> EntryPoint | None:
    """The entry point that ``load`` takes; None where nothing has the name, or several plugins."""
    return _chosen(_found(kind).get(name) or _of(kind, name))


def unknown_name_hint(kind: str, name: str) -> str:
    """What to say about a name that nothing provides."""
    known = [each for each, _ in _qualified(kind)] if _OF in name else names(kind)
    return f"unknown {singular(kind)} '{name}'; {did_you_mean(name, known)}"


def singular(kind: str) -> str:
    """``policies`` → ``policy``, ``tasks`` → ``task``."""
    return kind.removesuffix("ies") + "y" if kind.endswith("ies") else kind.removesuffix("s")


def missing_extra(error: BaseException | None) -> DeviceError | None:
    """The one line for an import that failed for want of an extra; None for any other failure."""
    name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    extra = EXTRA_OF.get(name)
    if extra is None:
        return None
    then = f" && pip install --no-deps {ALONE[name]}" if name in ALONE else ""
    return DeviceError(f"this needs the extra '{extra}': pip install 'robo-rl[{extra}]'{then}")


@dataclass(frozen=True)
class Component(Generic[T_co]):
    """A named class and its validated config, or a named object that takes no config (a robot).

    ``Component[Task]`` builds a ``Task``.

    Args:
        kind: ``tasks``, ``policies`` …
        name: Name of the entry point, as it was written; bare where it is one of robo-rl.
        cls: What the entry point gave.
        cfg: ``cls.Config`` filled in, None if there is none.
    """

    kind: str
    name: str
    cls: Any
    cfg: Any

    def build(self, *args: Any, **kwargs: Any) -> T_co:
        """``cls(cfg, *args, **kwargs)``; an object without a config is given as it is."""
        if self.cfg is not None:
            return self.cls(self.cfg, *args, **kwargs)
        return self.cls(*args, **kwargs) if isinstance(self.cls, type) else self.cls


class component:  # noqa: N801  reads as a function in annotations
    """Makes a config field name a component.

        task: Annotated[Component[Task], component("tasks")]

    What the name stands for must be of the field's interface: a class that derives from it, or has
    the methods of a protocol.

    Takes ``{name: lift_cube, robot: so101}``, the bare ``lift_cube``, or a ``Component``; defaults
    likewise. Fields other than ``name`` are checked against the ``Config`` of the named class, and
    their errors keep their dotted path.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Validate by ``make``, serialise to ``{name: …, fields …}``."""
        del handler
        (interface,) = get_args(source) or (object,)
        serialise = core_schema.plain_serializer_function_ser_schema(_serialise, info_arg=True)
        make = partial(self.make, interface=interface)
        return core_schema.no_info_plain_validator_function(make, serialization=serialise)

    def make(self, value: Any, interface: Any = object) -> Component[Any]:
        """Resolve the name and validate the fields.

        Args:
            value: See the class.
            interface: A class or protocol that what is loaded has to be of.

        Raises:
            ValueError: No such name, not a mapping, or fields that do not fit (``NestedError``).
            PluginError: The named component fails to load, or several distributions have one of
                that name, or it is not of the interface, or its ``Config`` is no config.
            DeviceError: It needs an extra that is not installed.
        """
        if isinstance(value, Component) and value.kind == self.kind:
            return value
        fields = cast("dict[str, Any]", dict(value) if isinstance(value, dict) else {"name": value})
        name = fields.pop("name", None)
        if not isinstance(name, str):
            what = singular(self.kind)
            raise ValueError(f"expected the name of a {what} or {{name: …}}, found {value!r:.60}")
        if name not in _found(self.kind) and not _of(self.kind, name):
            raise ValueError(unknown_name_hint(self.kind, name))
        loaded = load(self.kind, name)
        demand_interface(self.kind, name, loaded, interface)
        ours = provider(self.kind, name)[0] == _OURS
        name = name.rpartition(_OF)[2] if ours else name
        return Component(self.kind, name, loaded, _config(loaded, fields))


def default(name: str, **fields: Any) -> Any:
    """A component as a field's default; typed Any because the field makes a Component of it."""
    return {"name": name, **fields}


def demand_interface(kind: str, name: str, loaded: Any, interface: Any) -> None:
    """Demand that a class, or an object, is of an interface; it is not built for that.

    Args:
        kind: ``tasks``, ``policies`` …
        name: Of the entry point.
        loaded: What it gave.
        interface: A class, or a protocol, of which the methods are looked for; Any is anything.

    Raises:
        PluginError: It is not.
    """
    if interface is Any or not isinstance(interface, type):
        return
    place = f"{interface.__module__}.{interface.__qualname__}"
    if getattr(interface, "_is_protocol", False):
        absent = [m for m in _methods(interface) if not callable(getattr(loaded, m, None))]
        fits, found = not absent, f"no {', '.join(f'{each}()' for each in absent)}"
        expected = f"the methods of {place}"
    else:
        given = loaded if isinstance(loaded, type) else type(loaded)
        fits, found = issubclass(given, interface), f"{loaded!r:.80}"
        expected = f"a class that derives from {place}, or an object of one"
    if not fits:
        what = f"{singular(kind)} '{name}'"
        problem = f"'{provider(kind, name)[1]}' is no {singular(kind)}"
        raise PluginError(problem, where=what, expected=expected, found=found)


def _methods(protocol: type) -> list[str]:
    """Names of the methods of a protocol and of its bases."""
    bases = [base for base in protocol.__mro__ if getattr(base, "_is_protocol", False)]
    own = {name: value for base in reversed(bases) for name, value in vars(base).items()}
    public = [name for name in own if not name.startswith("_") or name == "__call__"]
    kinds = (FunctionType, classmethod, staticmethod)
    return [name for name in public if isinstance(own[name], kinds)]


class _NoFields(ConfigModel):
    """The config of an object that has none."""


def _config(loaded: Any, fields: dict[str, Any]) -> BaseModel | None:
    model = cast("type[BaseModel]", getattr(loaded, "Config", _NoFields))
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        where, expected = f"Config of {loaded!r:.80}", "a class that derives from ConfigModel"
        raise PluginError("is no config", where=where, expected=expected, found=f"{model!r:.80}")
    try:
        cfg = validate_strict(fields, model)
    except ValidationError as error:
        raise NestedError(error, model) from error
    return None if model is _NoFields else cfg


def _serialise(value: Component[Any], info: SerializationInfo) -> dict[str, Any]:
    fields: dict[str, Any] = {} if value.cfg is None else value.cfg.model_dump(mode=info.mode)
    return {"name": value.name, **fields}


@cache
def _found(kind: str) -> dict[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=_PREFIX + kind):
        points = found.setdefault(point.name, [])
        if all(_distribution(point) != _distribution(each) for each in points):
            points.append(point)
    return found


def _named(kind: str) -> dict[str, EntryPoint]:
    """Name → what it stands for, of each thing once."""
    named: dict[str, EntryPoint] = {}
    for bare, points in _found(kind).items():
        chosen = _chosen(points)
        for point in points:
            named[bare if point is chosen else f"{_distribution(point)}{_OF}{bare}"] = point
    return named


def _chosen(points: list[EntryPoint]) -> EntryPoint | None:
    """What a bare name stands for: the only one, or ours; None where that is not known."""
    ours = [point for point in points if _distribution(point) == _OURS]
    return points[0] if len(points) == 1 else ours[0] if ours else None


def _qualified(kind: str) -> Iterator[tuple[str, EntryPoint]]:
    for bare, points in _found(kind).items():
        for point in points:
            yield f"{_distribution(point)}{_OF}{bare}", point


def _of(kind: str, name: str) -> list[EntryPoint]:
    """What a qualified name stands for; distributions are compared as pip compares them."""
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
        raise missing_extra(error) or PluginError(
            f"'{point.name} = {point.value}' of the distribution '{_distribution(point)}'"
            f" fails to load: {type(error).__name__}: {error}"
        ) from error
    if point.dist is not None:
        _LOADED[point.dist.name] = point.dist.version
    return found


def _distribution(point: EntryPoint) -> str:
    """Its name; of a broken one, which says none, ``unknown``."""
    return (point.dist.name if point.dist else "") or "unknown"
