"""The files of a package that some of its modules depend on, found without importing any.

A module depends on the modules that it imports, also within functions, and on those that its
strings name, such as a module that another process runs. A package that is named itself counts with
all its files, because its files may be run by their paths. What is imported for types alone does
not count, and neither do names in docstrings.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path


def import_closure(package: str, root: Path, modules: Iterable[str]) -> tuple[Path, ...]:
    """Return the files of a package that modules of it depend on, themselves included; sorted.

    Args:
        package: Dotted name of the package.
        root: Its folder.
        modules: Dotted names of modules within the package; others are ignored.
    """
    ahead, found = list(modules), set[Path]()
    while ahead:
        for path in _files(package, root, ahead.pop()):
            if path not in found:
                found.add(path)
                ahead += mentioned(path, package, _dotted(package, root, path))
    return tuple(sorted(found))


@cache
def mentioned(path: Path, package: str, module: str = "") -> tuple[str, ...]:
    """Return the names within a package that a file mentions, as it is first read.

    Args:
        path: File of Python source; of a file that does not parse, all of its text counts.
        package: Dotted name of the package.
        module: Dotted name of the file's module, for relative imports.
    """
    mention = re.compile(re.escape(package) + r"(?:\.\w+)+")
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        said = list(_mentions(ast.parse(text), module))
    except (SyntaxError, ValueError):
        said = [text]
    return tuple(dict.fromkeys(name for each in said for name in mention.findall(each)))


def _files(package: str, root: Path, module: str) -> Iterator[Path]:
    """Yield the files of a module, or of a package, and of the packages around it.

    A name that is in a module, such as a class, stands for the module.
    """
    rest = module.removeprefix(package).strip(".").split(".")
    if not f"{module}.".startswith(f"{package}.") or not rest[0]:
        return
    place = root
    yield place / "__init__.py"
    for name in rest:
        if (place / f"{name}.py").is_file():
            yield place / f"{name}.py"
            return
        if not (place / name / "__init__.py").is_file():
            return  # a name in the package around it
        place = place / name
        yield place / "__init__.py"
    yield from sorted(place.rglob("*.py"))


def _dotted(package: str, root: Path, path: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join((package, *parts))


def _mentions(tree: ast.AST, module: str) -> Iterator[str]:
    """Yield imported names and strings of a syntax tree, without docstrings and types' imports."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            within = ".".join(module.split(".")[: -node.level]) if node.level else ""
            base = ".".join(part for part in (within, node.module) if part)
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.If) and _is_for_types(node.test):
            yield from _mentions(ast.Module(node.orelse, []), module)
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            yield from _mentions(node, module)


def _is_for_types(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return name == "TYPE_CHECKING"
