"""From YAML files and overrides to one tree of values, each with the place that it came from.

A file may have ``base: [task/lift_cube, policy/flow]``: bases are merged in order, each file once,
and the file's own values over them. *Where* a file lands depends on its folder alone:
``task/lift_cube.yaml`` lands under the key ``task``, a file in ``experiment/``, ``method/`` or
``deploy/`` (or outside every configs folder) at the root; ``{teacher: policy/flow}`` in a base list
puts it under ``teacher``.
Mappings merge, all else replaces; a mapping whose ``name`` differs from the one below replaces it
too, since the fields below belong to another component. Overrides (``algo.lr=1e-4``,
``stages.bc.steps=100``, ``stages.0.steps=100``) are merged last, all at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from robo_rl.errors import ConfigError
from robo_rl.naming import did_you_mean
from robo_rl.yaml_tree import Node, parse

KeyPath = tuple[str | int, ...]

_MAX_BYTES = 1_000_000
_ROOT_FOLDER = "experiment"
_ROOT_FOLDERS = (_ROOT_FOLDER, "method", "deploy")


@dataclass(frozen=True)
class ConfigTree:
    """Composed values, interpolations resolved, and where each was written.

    Args:
        values: Nested plain dicts, lists and scalars.
        origins: Key path → ``file:line`` or ``override '…'``.
    """

    values: dict[str, Any]
    origins: dict[KeyPath, str]

    def origin(self, path: KeyPath) -> str:
        """The place of a value, or of the nearest mapping or list around it."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.origins:
                return self.origins[path[:end]]
        return "configuration"


def default_search() -> list[Path]:
    """Where configs are looked for: ``./configs``, then those shipped with the library."""
    here = Path(__file__).resolve().parent
    folders = [Path("configs"), here / "configs", here.parent / "configs"]
    found: dict[Path, Path] = {}
    for folder in folders:
        if folder.is_dir():
            found.setdefault(folder.resolve(), folder)
    return list(found.values())


def available(search: Iterable[Path] | None = None) -> dict[str, Path]:
    """All configs by name (``task/lift_cube``), the first folder of the search winning."""
    found: dict[str, Path] = {}
    for root in default_search() if search is None else search:
        for path in sorted(root.rglob("*.yaml")):
            found.setdefault(path.relative_to(root).with_suffix("").as_posix(), path)
    return found


def compose(
    name_or_path: str | Path, overrides: Sequence[str] = (), search: Iterable[Path] | None = None
) -> ConfigTree:
    """Read a config with its bases and put the overrides over it.

    Args:
        name_or_path: ``demo`` (also in ``experiment/``), ``task/lift_cube``, or a file's path.
        overrides: ``dotted.key=value`` each; the value is YAML.
        search: Folders in which names are looked for; ``default_search()`` if not given.

    Raises:
        ConfigError: A file is missing, unreadable, cyclic or not YAML of our subset, or an
            override does not fit.
    """
    return tree_of(merge(read(name_or_path, search), overlay(overrides)))


def read(name_or_path: str | Path, search: Iterable[Path] | None = None) -> Node:
    """A config with its bases, before overrides and interpolation; see ``compose``."""
    folders = list(default_search() if search is None else search)
    return _Files(folders).load(str(name_or_path))


def merge(below: Node, above: Node) -> Node:
    """Two trees as a file is merged over its base."""
    return _merge(below, above, root=True)


def overlay(overrides: Sequence[str]) -> Node:
    """All overrides as one tree: only among those of one key does the order matter."""
    tree = Node({}, "overrides")
    for override in overrides:
        _check_override(override)
    for override in overrides:
        origin = f"override '{override}'"
        key, _, text = override.partition("=")
        node = _placed_override(parse(text, lambda _, o=origin: o), _keys(key))
        tree = merge(tree, node)
    return tree


def tree_of(root: Node) -> ConfigTree:
    """The tree of merged nodes, with interpolations (``${task.dt_s}``) resolved."""
    origins = dict(_walk(root, ()))
    return ConfigTree(_resolve(_plain(root), origins), origins)


class _Files:
    """Loads files with their bases; a file lands once under a key, when it is first named."""

    def __init__(self, search: list[Path]) -> None:
        self._search = search
        self._done: set[tuple[Path, str]] = set()

    def load(self, name: str) -> Node:
        path = _find(name, self._search, None)
        return self._load(path, self._group(path), ())

    def _load(self, path: Path, key: str, above: tuple[Path, ...]) -> Node:
        if path in above:
            chain = " → ".join(_shown(p) for p in (*above, path))
            raise ConfigError(f"base is cyclic: {chain}", where=_shown(above[-1]))
        own = _read(path)
        bases = own.value.pop("base", Node([], own.origin))
        tree = Node({}, own.origin)
        for base_key, name, origin in _base_entries(bases):
            base = _find(name, [path.parent] if name.startswith(".") else self._search, origin)
            base_key = self._group(base) if base_key is None else base_key
            if base in (*above, path) or (base, base_key) not in self._done:
                tree = _merge(tree, self._load(base, base_key, (*above, path)), root=True)
        self._done.add((path, key))
        merged = _merge(tree, _placed(own, key), root=True)
        return Node(merged.value, own.origin)

    def _group(self, path: Path) -> str:
        for root in self._search:
            if path.is_relative_to(root.resolve()):
                folders = path.relative_to(root.resolve()).parts[:-1]
                return folders[0] if folders and folders[0] not in _ROOT_FOLDERS else ""
        return ""


def _find(name: str, search: list[Path], where: str | None) -> Path:
    """A config's file: of a base, which has a place, with a dot only where its own file looks."""
    as_path, dotted = Path(name), name.startswith(".")
    if as_path.suffix in (".yaml", ".yml") and not (dotted and where is not None):
        candidates = [as_path, *(root / name for root in search if not dotted)]
    else:
        stems = (name, f"{_ROOT_FOLDER}/{name}")
        candidates = [root / s for root in search for stem in stems for s in (stem, f"{stem}.yaml")]
    for candidate in candidates:
        if "\0" not in name and candidate.is_file():
            return candidate.resolve()
    known = {n.removeprefix(f"{_ROOT_FOLDER}/") for n in available(search)}
    folders = ", ".join(_shown(folder) for folder in search) or "no folder"
    raise ConfigError(
        f"no config '{name}'", where=where, hint=f"looked in {folders}; {did_you_mean(name, known)}"
    )


def _read(path: Path) -> Node:
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
        return Node({}, node.origin)
    if not isinstance(node.value, dict):
        raise ConfigError("a config must be a mapping", where=node.origin, found=_kind(node.value))
    return node


def _base_entries(bases: Node) -> Iterator[tuple[str | None, str, str]]:
    """(key or None, name, origin) of each base."""
    entries = bases.value if isinstance(bases.value, list) else [bases]
    for entry in cast("list[Node]", entries):
        named = list(entry.value.items()) if isinstance(entry.value, dict) else [(None, entry)]
        for key, node in cast("list[tuple[str | None, Node]]", named):
            if not isinstance(node.value, str):
                raise ConfigError(
                    "base must list names", where=node.origin, expected="[task/lift_cube, …]"
                )
            yield key, node.value, node.origin


def _placed(node: Node, key: str) -> Node:
    for part in reversed(key.split(".") if key else []):
        node = Node({part: node}, node.origin)
    return node


def _merge(below: Node, above: Node, *, root: bool = False) -> Node:
    if not isinstance(above.value, dict):
        return above
    if isinstance(below.value, list):
        return _merge_items(below, above)
    if isinstance(below.value, str) and not root:
        below = Node({"name": below}, below.origin)
    if not isinstance(below.value, dict) or (not root and _another(below, above)):
        return above
    merged = dict(cast("dict[str, Node]", below.value))
    for key, node in cast("dict[str, Node]", above.value).items():
        merged[key] = _merge(merged[key], node) if key in merged else node
    return Node(merged, below.origin)


def _another(below: Node, above: Node) -> bool:
    """Whether both are components, and different ones."""
    names = below.value.get("name"), above.value.get("name")
    return None not in names and names[0].value != names[1].value


def _merge_items(below: Node, above: Node) -> Node:
    """A mapping over a list changes single items, named by index or by their ``name``."""
    items: list[Node] = list(below.value)
    for key, node in cast("dict[str, Node]", above.value).items():
        index = _item(items, key, node.origin)
        items[index] = _merge(items[index], node)
    return Node(items, below.origin)


def _item(items: list[Node], key: str, origin: str) -> int:
    names = [
        str(item.value["name"].value)
        if isinstance(item.value, dict) and "name" in item.value
        else str(item.value)
        for item in items
    ]
    if re.fullmatch(r"[0-9]{1,6}", key) and int(key) < len(items):
        return int(key)
    if names.count(key) == 1:
        return names.index(key)
    many = key in names
    problem = f"{'several items' if many else 'no item'} of the list named '{key}'"
    hint = "use an index" if many else did_you_mean(key, names)
    raise ConfigError(problem, where=origin, hint=hint)


def _check_override(override: str) -> None:
    key, equals, _ = override.partition("=")
    if not equals or not all(_keys(key)):
        raise ConfigError(
            "not an override", where=f"override '{override}'", expected="dotted.key=value"
        )


def _keys(key: str) -> list[str]:
    return re.sub(r"\[(\d+)\]", r".\1", key.strip()).split(".")


def _placed_override(node: Node, keys: list[str]) -> Node:
    for key in reversed(keys):
        node = Node({key: node}, node.origin)
    return node


def _walk(node: Node, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    yield path, node.origin
    if isinstance(node.value, dict | list):
        items = node.value.items() if isinstance(node.value, dict) else enumerate(node.value)
        for key, child in cast("Iterable[tuple[str | int, Node]]", items):
            yield from _walk(child, (*path, key))


def _plain(node: Node) -> Any:
    if isinstance(node.value, dict):
        return {key: _plain(child) for key, child in cast("dict[str, Node]", node.value).items()}
    if isinstance(node.value, list):
        return [_plain(child) for child in cast("list[Node]", node.value)]
    return node.value


def _resolve(values: dict[str, Any], origins: dict[KeyPath, str]) -> dict[str, Any]:
    if not _interpolates(values):
        return values
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        return cast(
            "dict[str, Any]", OmegaConf.to_container(OmegaConf.create(values), resolve=True)
        )
    except (OmegaConfBaseException, RecursionError, ValueError) as error:
        key = str(getattr(error, "full_key", None) or "")
        path = tuple(int(k) if k.isdigit() else k for k in _keys(key)) if key else ()
        tree = ConfigTree(values, origins)
        problem = str(error).splitlines()[0] if str(error) else "cyclic interpolation"
        raise ConfigError(problem, where=f"{tree.origin(path)} {key}".strip()) from error


def _interpolates(value: Any) -> bool:
    if isinstance(value, dict | list):
        items = value.values() if isinstance(value, dict) else value
        return any(_interpolates(item) for item in cast("Iterable[Any]", items))
    return isinstance(value, str) and "${" in value


def _shown(path: Path) -> str:
    """The path as the user would type it: relative where it lies below the working folder."""
    resolved, here = path.resolve(), Path.cwd()
    return str(resolved.relative_to(here) if resolved.is_relative_to(here) else resolved)


def _kind(value: object) -> str:
    return "a list" if isinstance(value, list) else f"{value!r}"[:60]
