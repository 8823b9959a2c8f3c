"""What of code numbers depend on: the source of a package and the versions of simulators.

Digests are of content alone, so that they agree over processes, machines and places of
installation: no absolute path, no time stamp, no compiled file is in them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, runtime_checkable

OURS = "robo_rl"
WORLDS = "robo_rl.env"
"""The one part of the library whose source numbers of a world depend on."""

_BUILT = (".pyc", ".pyo", ".so", ".pyd", ".dylib", "~")
_HEX_DIGITS = 12


class Fingerprint(NamedTuple):
    """What a component depends on beside its settings and its own package.

    Args:
        sources: Further modules whose package's source counts, or paths of single files.
        versions: Distribution → version, of simulators.
    """

    sources: tuple[str, ...] = ()
    versions: Mapping[str, str] = MappingProxyType({})


@runtime_checkable
class Fingerprinted(Protocol):
    """A class of a component, such as an env or a backend, that says what it depends on."""

    @staticmethod
    def fingerprint(cfg: Any) -> Fingerprint:
        """Say it; ``cfg`` is the component's own ``Config``, None where it has none."""
        ...


def versions_of(names: Iterable[str]) -> dict[str, str]:
    """Distribution → version of those that are installed."""
    found = {name: _version(name) for name in names}
    return {name: version for name, version in found.items() if version}


def distributions_of(module: str) -> tuple[str, ...]:
    """Names of the distributions that installed a module's top-level package."""
    return tuple(dict.fromkeys(_owners().get(module.partition(".")[0], ())))


def is_plugin(module: str) -> bool:
    """Whether a module's source counts: a plugin's, or one that no distribution installed.

    Of the library itself only what is in ``robo_rl.env`` does.
    """
    top = module.partition(".")[0]
    if top == OURS:
        return f"{module}.".startswith(f"{WORLDS}.")
    if top in sys.stdlib_module_names:
        return False
    owners = distributions_of(top)
    return not owners or any(map(_extends_us, owners))


def source_digest(module: str) -> tuple[str, str]:
    """What the source is of, and its digest, empty where there is no source to be read.

    Args:
        module: Of a package, all of whose files count but built and hidden ones; of the library,
            all of ``robo_rl.env``. Or the path of one file.
    """
    if module.endswith(".py"):
        return Path(module).name, _digest((Path(module),), Path(module).parent)
    name, root = _package(module)
    if root is None or not root.exists():
        return name, ""
    return name, _tree_digest(root)


def _package(module: str) -> tuple[str, Path | None]:
    """The outermost regular package or single module: its name, and its folder or file."""
    if f"{module}.".startswith(f"{WORLDS}."):
        return WORLDS, Path(__file__).parents[1] / "env"
    top, _, rest = module.partition(".")
    spec = _spec(top)
    origin = getattr(sys.modules.get(top), "__file__", None) if spec is None else spec.origin
    if origin and (spec is None or spec.has_location):
        path = Path(origin)
        return top, path.parent if path.name.startswith("__init__.") else path
    below = rest.partition(".")[0]
    for place in (spec and spec.submodule_search_locations) or ():
        for path in (Path(place) / below, Path(place) / f"{below}.py"):
            if below and path.exists():
                return f"{top}.{below}", path
    return top, None


def _spec(top: str) -> Any:
    try:
        return importlib.util.find_spec(top)
    except (ImportError, ValueError):  # a module that was not imported, such as __main__
        return None


@cache
def _tree_digest(root: Path) -> str:
    if root.is_file():
        return _digest((root,), root.parent)
    return _digest(_files(root), root)


def _files(root: Path) -> Iterator[Path]:
    for folder, below, names in os.walk(root):
        below[:] = sorted(name for name in below if not name.startswith((".", "__pycache__")))
        for name in sorted(names):
            if not name.startswith(".") and not name.endswith(_BUILT):
                yield Path(folder) / name


def _digest(files: Iterable[Path], root: Path) -> str:
    content = hashlib.sha256()
    for path in sorted(files):
        data = path.read_bytes()
        if path.suffix == ".py":
            data = data.replace(b"\r\n", b"\n")
        content.update(f"{path.relative_to(root).as_posix()} {len(data)}\n".encode())
        content.update(data)
    return content.hexdigest()[:_HEX_DIGITS]


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


@cache
def _owners() -> Mapping[str, list[str]]:
    return metadata.packages_distributions()


@cache
def _extends_us(distribution: str) -> bool:
    points = metadata.distribution(distribution).entry_points
    return any(point.group.startswith(f"{OURS}.") for point in points)
