"""Config files by name, merged over their bases.

The folder of a file determines its key: ``task/lift_cube.yaml`` goes under the key ``task``. A file
in ``experiment/``, ``method/`` or ``deploy/``, or outside every configs folder, goes to the root.
``{teacher: policy/flow}`` in a base list puts the file under ``teacher`` instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, cast

from robo_rl.config.merge import merge, nest_under
from robo_rl.config.registry import CONFIGS, names, registered
from robo_rl.config.yaml_nodes import YamlNode, parse
from robo_rl.core.errors import ConfigError
from robo_rl.core.suggestions import nearest

_MAX_BYTES = 1_000_000
_ROOT_FOLDER = "experiment"
_ROOT_FOLDERS = (_ROOT_FOLDER, "method", "deploy")


def default_search() -> list[Path]:
    """Return the folders to search: ``./configs``, those of the library, and those of plugins.

    A plugin names the package of its configs in the entry points ``robo_rl.configs``. A file of the
    library has precedence over a plugin's file of the same name.
    """
    here = Path(__file__).resolve().parents[1]
    # A checkout has the folder beside the package, a wheel in it.
    ours = [here / "configs"] if (here / "configs").is_dir() else [here.parent / "configs"]
    theirs = [each.folder for each in plugin_configs()]
    found: dict[Path, Path] = {}
    for folder in (Path("configs"), *ours, *theirs):
        if folder is not None and folder.is_dir():
            found.setdefault(folder.resolve(), folder)
    return list(found.values())


class PluginConfigs(NamedTuple):
    """Configs of a plugin.

    Args:
        distribution: Name of the distribution.
        package: Its package of configs, as registered.
        folder: Folder of the package; None if there is no such package.
    """

    distribution: str
    package: str
    folder: Path | None


def plugin_configs() -> list[PluginConfigs]:
    """Return the packages in the entry points ``robo_rl.configs``; nothing is imported."""
    return [PluginConfigs(*each, _folder_of(each[1])) for each in sorted(registered(CONFIGS))]


def _folder_of(package: str) -> Path | None:
    """Return the folder of a package, whose top-level package is located and not imported."""
    top, *rest = package.strip().split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return None
    roots = list(spec.submodule_search_locations or ()) if spec else []
    folders = (Path(root, *rest) for root in roots)  # a namespace package has several
    return next((folder for folder in folders if folder.is_dir()), None)


def available_configs(search: Iterable[Path] | None = None) -> dict[str, Path]:
    """Return all configs by name (``task/lift_cube``); the first folder has precedence."""
    found: dict[str, Path] = {}
    for root in default_search() if search is None else search:
        for path in sorted(root.rglob("*.yaml")):
            found.setdefault(path.relative_to(root).with_suffix("").as_posix(), path)
    return found


def read_config(name_or_path: str | Path, search: Iterable[Path] | None = None) -> YamlNode:
    """Read a config with its bases, before overrides and interpolation (``compose.compose``)."""
    folders = list(default_search() if search is None else search)
    return _Files(folders).load(str(name_or_path))


class _Files:
    """Loads files with their bases; a file is merged once per key, at its first mention."""

    def __init__(self, search: list[Path]) -> None:
        self._search = search
        self._done: set[tuple[Path, str]] = set()

    def load(self, name: str) -> YamlNode:
        path = _find(name, self._search)
        return self._load(path, self._group(path), ())

    def _load(self, path: Path, key: str, above: tuple[Path, ...]) -> YamlNode:
        if path in above:
            chain = " → ".join(_shown(p) for p in (*above, path))
            raise ConfigError(f"base is cyclic: {chain}", where=_shown(above[-1]))
        own = _read(path)
        bases = own.value.pop("base", YamlNode([], own.origin))
        tree = YamlNode({}, own.origin)
        for base_key, name, origin in _base_entries(bases):
            dotted = name.startswith(".")
            base = _find(name, [path.parent] if dotted else self._search, origin, path.parent)
            if base_key is None:
                base_key = self._place(base, path, key)
            if base in (*above, path) or (base, base_key) not in self._done:
                tree = merge(tree, self._load(base, base_key, (*above, path)))
        self._done.add((path, key))
        merged = merge(tree, nest_under(own, key.split(".") if key else []))
        return YamlNode(merged.value, own.origin)

    def _place(self, base: Path, path: Path, key: str) -> str:
        """Return the key of a base without one of its own, below a file that is at ``key``."""
        group, own = self._group(base), self._group(path)
        if group == own:
            return key
        root = key if not own else key.removesuffix(own).rstrip(".")
        return ".".join(filter(None, (root, group)))

    def _group(self, path: Path) -> str:
        for root in self._search:
            if path.is_relative_to(root.resolve()):
                folders = path.relative_to(root.resolve()).parts[:-1]
                return folders[0] if folders and folders[0] not in _ROOT_FOLDERS else ""
        return ""


def _find(
    name: str, search: list[Path], where: str | None = None, beside: Path | None = None
) -> Path:
    """Return a config's file; a base with a leading dot is relative to its own file.

    Args:
        name: Name of a config, or path of a file.
        search: Folders to search.
        where: Place that names a base; None for the config that is asked for.
        beside: Folder of the file that names a base.
    """
    as_path, dotted = Path(name), name.startswith(".")
    if as_path.suffix in (".yaml", ".yml") and not (dotted and where is not None):
        candidates = [as_path, *(root / name for root in search if not dotted)]
    else:
        stems = (name, f"{_ROOT_FOLDER}/{name}")
        candidates = [root / s for root in search for stem in stems for s in (stem, f"{stem}.yaml")]
    for candidate in candidates:
        if "\0" not in name and candidate.is_file():
            return candidate.resolve()
    known = {n.removeprefix(f"{_ROOT_FOLDER}/") for n in available_configs(search)}
    folders = ", ".join(_shown(folder) for folder in search) or "no folder"
    near = nearest(as_path.with_suffix("").as_posix() if as_path.suffix else name, sorted(known))
    named = f"did you mean '{near}'?" if near else "`robo-rl list configs` names all"
    hint = f"looked in {folders}; {named}"
    if where is None and "\0" not in name and Path(f"{name}.yaml").is_file():
        hint = f"a file goes by its whole name: {name}.yaml"
    if where is None and name in names("tasks"):
        hint = f"it is a task: name a config, such as demo, with task={name}"
    file = Path(name).name if as_path.suffix else f"{name}.yaml"
    if beside is not None and "\0" not in name and (beside / file).is_file():
        hint = f"a base beside its file begins with a dot: ./{file}"
    raise ConfigError(f"no config '{name}'", where=where, hint=hint)


def _read(path: Path) -> YamlNode:
    shown = _shown(path)
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ConfigError("too large for a config", where=shown, expected="at most 1 MB")
        text = path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise ConfigError("not UTF-8 text", where=shown) from error
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=shown) from error
    node = parse(text, lambda line: f"{shown}:{line}")
    if node.value is None:
        return YamlNode({}, node.origin)
    if not isinstance(node.value, dict):
        raise ConfigError("a config must be a mapping", where=node.origin, found=_kind(node.value))
    return node


def _base_entries(bases: YamlNode) -> Iterator[tuple[str | None, str, str]]:
    """Yield (key or None, name, origin) of each base."""
    entries = bases.value if isinstance(bases.value, list) else [bases]
    for entry in cast("list[YamlNode]", entries):
        named = list(entry.value.items()) if isinstance(entry.value, dict) else [(None, entry)]
        for key, node in cast("list[tuple[str | None, YamlNode]]", named):
            if not isinstance(node.value, str):
                raise ConfigError(
                    "base must list names", where=node.origin, expected="[task/lift_cube, …]"
                )
            yield key, node.value, node.origin


def _shown(path: Path) -> str:
    """Return the path for messages: relative where it lies below the working folder."""
    resolved, here = path.resolve(), Path.cwd()
    return str(resolved.relative_to(here) if resolved.is_relative_to(here) else resolved)


def _kind(value: object) -> str:
    return "a list" if isinstance(value, list) else f"{value!r}"[:60]
