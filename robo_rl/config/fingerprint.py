"""Fingerprints of the code that results depend on: package sources and simulator versions.

Digests cover file contents only: no absolute path, no time stamp, no compiled file. They are
therefore equal across processes, machines and install locations.
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

from robo_rl.config.import_closure import import_closure, mentioned

OURS = "robo_rl"
WORLDS = "robo_rl.env"
"""The part of the library whose source determines the numbers of a world."""
WORDS = "robo_rl.language"
"""The text encoders, which determine the numbers of an instruction."""
NUMERIC = tuple(f"robo_rl.core.{name}" for name in ("labels", "rotations", "seeding"))
"""Further modules that determine the numbers of tasks, robots and envs."""

_BUILT = (".pyc", ".pyo", ".so", ".pyd", ".dylib", "~")
_HEX_DIGITS = 12


class Fingerprint(NamedTuple):
    """Dependencies of a component besides its settings and its own package.

    Args:
        sources: Further modules whose package source counts, or paths of single files, such as
            those of a text encoder.
        versions: Distribution → version, of simulators and encoders; and place in the settings
            → digest of a file that stands there.
    """

    sources: tuple[str, ...] = ()
    versions: Mapping[str, str] = MappingProxyType({})


@runtime_checkable
class Fingerprinted(Protocol):
    """A component class, such as an env or a backend, that declares its dependencies."""

    @staticmethod
    def fingerprint(cfg: Any) -> Fingerprint:
        """Return the fingerprint; ``cfg`` is the component's ``Config``, None if it has none."""
        ...


def versions_of(names: Iterable[str]) -> dict[str, str]:
    """Return distribution → version for the installed distributions among the names."""
    found = {name: _version(name) for name in names}
    return {name: version for name, version in found.items() if version}


def distributions_of(module: str) -> tuple[str, ...]:
    """Return the names of the distributions that installed a module's top-level package."""
    return tuple(dict.fromkeys(_owners().get(module.partition(".")[0], ())))


def is_plugin(module: str) -> bool:
    """Return whether a module's source counts: of a plugin, or not from a distribution.

    Of the library itself, only envs and text encoders count.
    """
    top = module.partition(".")[0]
    if top == OURS:
        return is_world(module)
    if top in sys.stdlib_module_names:
        return False
    owners = distributions_of(top)
    return not owners or any(map(_extends_us, owners))


def is_world(module: str) -> bool:
    """Return whether a module is one of the library's envs or text encoders."""
    return f"{module}.".startswith((f"{WORLDS}.", f"{WORDS}."))


@cache
def world_source_digest(modules: frozenset[str]) -> str:
    """Return the digest of the library's sources that envs depend on, as they are first read.

    Args:
        modules: Modules of envs and text encoders. These count with what they depend on in their
            package, see ``import_closure``, and so do the modules that all envs share: those
            directly in ``robo_rl.env``, and those of ``NUMERIC``.
    """
    root = Path(__file__).parents[1]
    env, language = root / "env", root / "language"
    shared = (f"{WORLDS}.{path.stem}" for path in env.glob("*.py") if path.stem != "__init__")
    files = {root.parent.joinpath(*name.split(".")).with_suffix(".py") for name in NUMERIC}
    files.update(import_closure(WORLDS, env, (*shared, *modules)))
    files.update(import_closure(WORDS, language, modules))
    return _digest(files, root)


def worlds_read_by(module: str) -> set[str]:
    """Return our envs and text encoders that the package of a plug-in's module mentions.

    Args:
        module: Module of a package, or the path of one file, of Python or not.
    """
    is_path = os.sep in module or module.endswith(".py")
    root = Path(module) if is_path else _package(module)[1]
    if root is None or not root.exists() or (is_path and root.suffix != ".py"):
        return set()
    files = (root,) if root.is_file() else sorted(root.rglob("*.py"))
    return {name for path in files for room in (WORLDS, WORDS) for name in mentioned(path, room)}


def source_digest(module: str) -> tuple[str, str]:
    """Return the name of the source and its digest; the digest is empty without a source.

    Args:
        module: Module of a package, or the path of one file. All files of the package count
            except built and hidden ones.
    """
    if module.endswith(".py") or os.sep in module:
        file = Path(module)
        return file.name, _digest((file,), file.parent) if file.is_file() else ""
    name, root = _package(module)
    if root is None or not root.exists():
        return name, ""
    return name, _tree_digest(root)


def _package(module: str) -> tuple[str, Path | None]:
    """Return the outermost regular package or single module: its name, and its folder or file."""
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
