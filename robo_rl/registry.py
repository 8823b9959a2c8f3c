"""Names to objects, by entry points: the one place where a name in a config is resolved.

Ours and a third party's tasks, robots, policies … are found alike, in the groups
``robo_rl.<kind>``, and are imported only when named.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from pydantic import BaseModel, GetCoreSchemaHandler, SerializationInfo, ValidationError
from pydantic_core import CoreSchema, core_schema

from robo_rl.config import ConfigModel, NestedError, strict
from robo_rl.errors import DeviceError, PluginError
from robo_rl.naming import did_you_mean

_PREFIX = "robo_rl."
_LOADED: dict[str, str] = {}

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
    """All registered names of a kind (``"tasks"``), sorted; nothing is imported."""
    return sorted(_found(kind))


def kinds() -> list[str]:
    """All kinds that anything is registered for."""
    groups = cast("set[str]", entry_points().groups)
    return sorted(g.removeprefix(_PREFIX) for g in groups if g.startswith(_PREFIX))


def providers(kind: str, name: str) -> list[tuple[str, str]]:
    """(distribution, ``module:attribute``) of all that has this name; more than one is a clash."""
    return [(_distribution(point), point.value) for point in _found(kind).get(name, [])]


def load(kind: str, name: str) -> Any:
    """Import what is registered under a name.

    Args:
        kind: Group behind ``robo_rl.``: ``tasks``, ``robots``, ``policies`` …
        name: Name of the entry point.

    Raises:
        PluginError: Nothing or more than one thing has that name, or it fails to import.
        DeviceError: It needs an extra that is not installed.
    """
    found = _found(kind).get(name, [])
    if not found:
        raise PluginError(unknown(kind, name))
    if len(found) > 1:
        by = " and ".join(sorted(_distribution(point) for point in found))
        raise PluginError(
            f"{singular(kind)} '{name}' is provided twice, by {by}", hint="uninstall one"
        )
    return _import(found[0])


def loaded() -> dict[str, str]:
    """Distribution → version of all that brought something that this process has loaded."""
    return dict(_LOADED)


def provider(kind: str, name: str) -> EntryPoint | None:
    """The entry point that ``load`` takes; None where nothing, or more than one, has the name."""
    found = _found(kind).get(name, [])
    return found[0] if len(found) == 1 else None


def unknown(kind: str, name: str) -> str:
    """What to say about a name that nothing provides."""
    return f"unknown {singular(kind)} '{name}'; {did_you_mean(name, names(kind))}"


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
class Component:
    """A named class and its validated config, or a named object that takes no config (a robot).

    Args:
        kind: ``tasks``, ``policies`` …
        name: Name of the entry point.
        cls: What the entry point gave.
        cfg: ``cls.Config`` filled in, None if there is none.
    """

    kind: str
    name: str
    cls: Any
    cfg: Any

    def build(self, *args: Any, **kwargs: Any) -> Any:
        """``cls(cfg, *args, **kwargs)``; an object without a config is given as it is."""
        if self.cfg is not None:
            return self.cls(self.cfg, *args, **kwargs)
        return self.cls(*args, **kwargs) if isinstance(self.cls, type) else self.cls


class component:  # noqa: N801  reads as a function in annotations
    """Makes a config field name a component: ``task: Annotated[Component, component("tasks")]``.

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
        del source, handler
        serialise = core_schema.plain_serializer_function_ser_schema(_serialise, info_arg=True)
        return core_schema.no_info_plain_validator_function(self.make, serialization=serialise)

    def make(self, value: Any) -> Component:
        """Resolve the name and validate the fields.

        Raises:
            ValueError: No such name, not a mapping, or fields that do not fit (``NestedError``).
            PluginError: The named component fails to load.
            DeviceError: It needs an extra that is not installed.
        """
        if isinstance(value, Component) and value.kind == self.kind:
            return value
        fields = cast("dict[str, Any]", dict(value) if isinstance(value, dict) else {"name": value})
        name = fields.pop("name", None)
        if not isinstance(name, str):
            what = singular(self.kind)
            raise ValueError(f"expected the name of a {what} or {{name: …}}, found {value!r:.60}")
        if name not in _found(self.kind):
            raise ValueError(unknown(self.kind, name))
        loaded = load(self.kind, name)
        return Component(self.kind, name, loaded, _config(loaded, fields))


def default(name: str, **fields: Any) -> Any:
    """A component as a field's default; typed Any because the field makes a Component of it."""
    return {"name": name, **fields}


class _NoFields(ConfigModel):
    """The config of an object that has none."""


def _config(loaded: Any, fields: dict[str, Any]) -> BaseModel | None:
    model = cast("type[BaseModel]", getattr(loaded, "Config", _NoFields))
    try:
        cfg = strict(fields, model)
    except ValidationError as error:
        raise NestedError(error, model) from error
    return None if model is _NoFields else cfg


def _serialise(value: Component, info: SerializationInfo) -> dict[str, Any]:
    fields: dict[str, Any] = {} if value.cfg is None else value.cfg.model_dump(mode=info.mode)
    return {"name": value.name, **fields}


@cache
def _found(kind: str) -> dict[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=_PREFIX + kind):
        found.setdefault(point.name, []).append(point)
    return found


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
    return point.dist.name if point.dist else "unknown"
