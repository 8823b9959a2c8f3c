"""Components in configs: a name with fields becomes a class with its validated ``Config``."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any, Generic, TypeVar, cast, get_args

from pydantic import BaseModel, GetCoreSchemaHandler, SerializationInfo, ValidationError
from pydantic_core import CoreSchema, core_schema

from robo_rl.config.models import ConfigModel, NestedError, validate_strict
from robo_rl.config.registry import (
    is_registered,
    load,
    provider,
    singular,
    unknown_name_hint,
    without_our_prefix,
)
from robo_rl.core.errors import PluginError

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class Component(Generic[T_co]):
    """A named class and its validated config, or a named object that takes no config (a robot).

    ``Component[Task]`` builds a ``Task``.

    Args:
        kind: ``tasks``, ``policies`` …
        name: Name of the entry point, as it was written; bare for robo-rl's own components.
        cls: Object that the entry point loads.
        cfg: ``cls.Config`` with its fields, None if the class has none.
    """

    kind: str
    name: str
    cls: Any
    cfg: Any

    def build(self, *args: Any, **kwargs: Any) -> T_co:
        """Return ``cls(cfg, *args, **kwargs)``; an object without a config is returned as is.

        Raises:
            PluginError: The class takes other arguments.
        """
        if self.cfg is None and not isinstance(self.cls, type):
            return self.cls
        if not self.accepts(*args, **kwargs):
            given = [type(each).__name__ for each in self._arguments(args)] + sorted(kwargs)
            raise PluginError(
                "takes other arguments than it is given",
                where=f"{singular(self.kind)} '{self.name}'",
                expected=f"a call with ({', '.join(given)})",
                found=f"{self.cls.__name__}{inspect.signature(self.cls)}",
            )
        return self.cls(*self._arguments(args), **kwargs)

    def accepts(self, *args: Any, **kwargs: Any) -> bool:
        """Return whether the class can be called with its config and these arguments."""
        try:
            inspect.signature(self.cls).bind(*self._arguments(args), **kwargs)
        except TypeError:
            return False
        except ValueError:  # a class of C, which has no signature
            return True
        return True

    def _arguments(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return args if self.cfg is None else (self.cfg, *args)


class component:  # noqa: N801  reads as a function in annotations
    """Makes a config field name a component.

        task: Annotated[Component[Task], component("tasks")]

    The loaded class must implement the field's interface: it derives from the class, or has the
    methods of the protocol.

    Values and defaults are ``{name: lift_cube, robot: so101}``, the bare ``lift_cube``, or a
    ``Component``. Fields other than ``name`` are validated against the ``Config`` of the named
    class, and their errors keep their dotted path.
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
            interface: Class or protocol that the loaded component must implement.

        Raises:
            ValueError: No such name, not a mapping, or fields that do not fit (``NestedError``).
            PluginError: The component fails to load, its name is ambiguous, it does not implement
                the interface, or its ``Config`` is no config.
            DeviceError: The component needs an extra that is not installed.
        """
        if isinstance(value, Component) and value.kind == self.kind:
            return value
        fields = cast("dict[str, Any]", dict(value) if isinstance(value, dict) else {"name": value})
        name = fields.pop("name", None)
        if not isinstance(name, str):
            what = singular(self.kind)
            raise ValueError(f"expected the name of a {what} or {{name: …}}, found {value!r:.60}")
        if not is_registered(self.kind, name):
            raise ValueError(unknown_name_hint(self.kind, name))
        loaded = load(self.kind, name)
        demand_interface(self.kind, name, loaded, interface)
        return Component(
            self.kind, without_our_prefix(self.kind, name), loaded, _config(loaded, fields)
        )


def default(name: str, **fields: Any) -> Any:
    """Return a component as a field's default; typed Any because validation converts it."""
    return {"name": name, **fields}


def demand_interface(kind: str, name: str, loaded: Any, interface: Any) -> None:
    """Check that a class or an object implements an interface, without building it.

    Args:
        kind: ``tasks``, ``policies`` …
        name: Name of the entry point.
        loaded: Object that the entry point loads.
        interface: A class, or a protocol whose methods must exist; Any accepts everything.

    Raises:
        PluginError: It does not implement the interface.
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


class _NoFields(ConfigModel):
    """The config of an object that has none."""


def _config(loaded: Any, fields: dict[str, Any]) -> BaseModel | None:
    model = cast("type[BaseModel]", getattr(loaded, "Config", _NoFields))
    where = f"Config of {loaded!r:.80}"
    if not (isinstance(model, type) and issubclass(model, ConfigModel)):
        expected = "a class that derives from ConfigModel"
        raise PluginError("is no config", where=where, expected=expected, found=f"{model!r:.80}")
    if "name" in model.model_fields:
        hint = "rename the field: 'name' is the name of the component"
        raise PluginError("has a field 'name'", where=where, hint=hint)
    try:
        cfg = validate_strict(fields, model)
    except ValidationError as error:
        raise NestedError(error, model) from error
    return None if model is _NoFields else cfg


def _methods(protocol: type) -> list[str]:
    """Return the names of the methods of a protocol and of its bases."""
    bases = [base for base in protocol.__mro__ if getattr(base, "_is_protocol", False)]
    own = {name: value for base in reversed(bases) for name, value in vars(base).items()}
    public = [name for name in own if not name.startswith("_") or name == "__call__"]
    kinds = (FunctionType, classmethod, staticmethod)
    return [name for name in public if isinstance(own[name], kinds)]


def _serialise(value: Component[Any], info: SerializationInfo) -> dict[str, Any]:
    fields: dict[str, Any] = (
        {} if value.cfg is None else value.cfg.model_dump(mode=info.mode, context=info.context)
    )
    return {"name": value.name, **fields}
