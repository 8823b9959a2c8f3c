"""Markdown of the pages: headings, tables, and docstrings turned into both."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any

_WRITTEN = "<!-- Written by `make reference` from the code; do not edit. -->"
_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields|Source|Sources?):\s*(.*)$")
_ENTRY = re.compile(r"^    ([\w*]+(?: \([^)]*\))?): (.*)$")


def document(title: str, *parts: str) -> str:
    """A page: its title, and its parts with an empty line between them."""
    return "\n\n".join([_WRITTEN, f"# {title}", *(part for part in parts if part)]) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; empty without rows."""
    lines = [f"| {' | '.join(cell(each) for each in row)} |" for row in rows]
    head = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    return "\n".join(head + lines) if lines else ""


def cell(text: str) -> str:
    """Text on one line that does not end its cell."""
    return re.sub(r"\s+", " ", text).strip().replace("|", "\\|")


def inline(text: str) -> str:
    """A docstring's ``code`` as Markdown's."""
    return text.replace("``", "`")


def slug(title: str) -> str:
    """The anchor of a heading, as MkDocs makes it."""
    plain = re.sub(r"[^\w\s-]", "", title.replace("`", "")).strip().lower()
    return re.sub(r"[-\s]+", "-", plain)


def docstring(thing: Any) -> str:
    """Its own docstring, cleaned; empty where it has none."""
    return inspect.cleandoc(getattr(thing, "__doc__", None) or "")


def sentence(thing: Any) -> str:
    """First paragraph of its docstring, on one line."""
    return inline(re.sub(r"\s+", " ", docstring(thing).split("\n\n")[0]))


def arguments(thing: Any) -> dict[str, str]:
    """Name → description of all that ``Args:`` of its docstring lists."""
    found: dict[str, str] = {}
    for lines in (body for title, body in _sections(docstring(thing)) if title == "Args"):
        found |= dict(_entries(lines))
    return found


def prose(text: str) -> str:
    """A docstring in Google style as Markdown: paragraphs, and lists of what its sections name."""
    parts = list[str]()
    for title, lines in _sections(text):
        entries = _entries(lines)
        if not title:
            parts.append("\n".join(lines).strip())
        elif entries:
            listed = "\n".join(f"- `{name}`: {cell(about)}" for name, about in entries)
            parts.append(f"{title}:\n\n{listed}")
        else:
            parts.append(f"{title}: {cell(' '.join(lines))}")
    return inline("\n\n".join(part for part in parts if part))


def _sections(text: str) -> list[tuple[str, list[str]]]:
    """(title, lines) of each section; the first has no title."""
    found: list[tuple[str, list[str]]] = [("", [])]
    for line in text.split("\n"):
        if match := _SECTION.match(line):
            found.append((match[1], [f"    {match[2]}"] if match[2] else []))
        elif found[-1][0] and line and not line.startswith(" "):
            found.append(("", [line]))
        else:
            found[-1][1].append(line)
    return found


def _entries(lines: list[str]) -> list[tuple[str, str]]:
    """(name, description) of ``name: description`` lines and those that go on behind them."""
    found = list[tuple[str, str]]()
    for line in lines:
        if match := _ENTRY.match(line):
            found.append((match[1], match[2]))
        elif found and line.strip():
            found[-1] = found[-1][0], f"{found[-1][1]} {line.strip()}"
    return found
