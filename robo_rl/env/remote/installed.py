"""Prints what an adapter imports, as it is installed in the interpreter that runs this file.

The program takes the path of an adapter and prints a JSON object: distribution → version. A
distribution that was installed from a folder, also in editable mode, keeps its version while its
source changes; its version is followed by a digest of the source. A module of no distribution has
the digest alone. The file needs the standard library of Python 3.10 and nothing else.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from urllib.parse import urlparse
from urllib.request import url2pathname

_BUILT = (".pyc", ".pyo", ".so", ".pyd", ".dylib", "~")
_HEX_DIGITS = 12


def imported_modules(source: str) -> set[str]:
    """Return the top-level modules that a source imports, also within functions and by name."""
    found = set[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__"):
            found |= {a.value for a in node.args[:1] if isinstance(a, ast.Constant)}
    return {str(name).partition(".")[0] for name in found}


def installed(modules: Iterable[str]) -> dict[str, str]:
    """Return distribution or module → version or source of some modules.

    The requirements of their distributions are included.

    Args:
        modules: Top-level names; modules that are not installed are left out.
    """
    owners = metadata.packages_distributions()
    direct = {name for module in modules for name in owners.get(module, ())}
    wanted = {_plain(name) for name in direct.union(*map(_requirements, direct))}
    found: dict[str, str] = {}
    for each in metadata.distributions():
        name = each.metadata["Name"]
        if _plain(name) in wanted and name not in found:  # the first one on the path is imported
            parts = [module for module, names in owners.items() if name in names]
            found[name] = f"{each.version}{_source_of(each, parts)}"
    for module in {*modules} - {*owners} - {*sys.stdlib_module_names}:
        if roots := _roots(module):
            found[module] = f"source {_digest(roots)}"
    return found


def _called(node: ast.Call) -> str:
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _requirements(name: str) -> set[str]:
    needs = [need for need in metadata.requires(name) or () if "extra ==" not in need]
    return {found.group() for need in needs if (found := re.match(r"[\w.-]+", need))}


def _source_of(distribution: metadata.Distribution, modules: Iterable[str]) -> str:
    """Return the digest of a distribution's source, as text, if it was installed from a folder."""
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    if "dir_info" not in origin:
        return ""
    roots = [root for module in sorted(modules) for root in _roots(module)]
    if roots:
        return f" source {_digest(roots)}"
    folder = url2pathname(urlparse(origin["url"]).path)  # its metadata name no module
    return f" source {_digest([folder], kinds=('.py',))}"


def _roots(module: str) -> list[str]:
    """Return the folders, or the file, of a top-level module; it is located, not imported."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    if spec.submodule_search_locations is not None:
        return list(spec.submodule_search_locations)
    return [spec.origin] if spec.has_location and spec.origin else []


def _digest(roots: Iterable[str], kinds: tuple[str, ...] = ("",)) -> str:
    """Return a digest of files: their contents, and their paths within the roots."""
    content = hashlib.sha256()
    for root in roots:
        for path in _files(root):
            if path.endswith(kinds):
                with open(path, "rb") as file:
                    data = file.read()
                if path.endswith(".py"):
                    data = data.replace(b"\r\n", b"\n")
                content.update(f"{os.path.relpath(path, root)} {len(data)}\n".encode())
                content.update(data)
    return content.hexdigest()[:_HEX_DIGITS]


def _files(root: str) -> Iterator[str]:
    """Yield a file, or all files of a folder except built and hidden ones."""
    if os.path.isfile(root):
        yield root
    for folder, below, names in os.walk(root):
        below[:] = sorted(name for name in below if not name.startswith((".", "__pycache__")))
        for name in sorted(names):
            if not name.startswith(".") and not name.endswith(_BUILT):
                yield os.path.join(folder, name)


def main(adapter: str) -> None:
    """Print what an adapter imports; its folder is searched last, and this file's never."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    sys.path.append(os.path.dirname(os.path.abspath(adapter)))
    with open(adapter, encoding="utf-8") as file:
        modules = imported_modules(file.read())
    print(json.dumps(installed(modules), sort_keys=True))


if __name__ == "__main__":
    main(sys.argv[1])
