"""Markdown for the pages: headings, tables, and converted docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any

_WRITTEN = "<!-- Written by `make reference` from the code; do not edit. -->"
_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields|Source|Sources?):\s*(.*)$")
_ENTRY = re.compile(r"^    ([\w*]+(?: \([^)]*\))?): (.*)$")


def document(title: str, *parts: str) -> str:
    """Return a page: its title, and its parts separated by empty lines."""
    return "\n\n".join([_WRITTEN, f"# {title}", *(part for part in parts if part)]) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; empty without rows."""
    lines = [f"| {' | '.join(cell(each) for each in row)} |" for row in rows]
    head = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    return "\n".join(head + lines) if lines else ""


def cell(text: str) -> str:
    """Return text on one line, with table delimiters escaped."""
    return re.sub(r"\s+", " ", text).strip().replace("|", "\\|")


def inline(text: str) -> str:
    """Convert a docstring's ``code`` to Markdown code."""
    return text.replace("``", "`")


def slug(title: str) -> str:
    """Return the anchor of a heading in MkDocs."""
    plain = re.sub(r"[^\w\s-]", "", title.replace("`", "")).strip().lower()
    return re.sub(r"[-\s]+", "-", plain)


def docstring(thing: Any) -> str:
    """Return an object's own docstring, cleaned; empty if it has none."""
    return inspect.cleandoc(getattr(thing, "__doc__", None) or "")


def sentence(thing: Any) -> str:
    """Return the first paragraph of an object's docstring on one line."""
    return inline(re.sub(r"\s+", " ", docstring(thing).split("\n\n")[0]))


def arguments(thing: Any) -> dict[str, str]:
    """Return name → description of all entries of ``Args:`` in an object's docstring."""
    found: dict[str, str] = {}
    for lines in (body for title, body in _sections(docstring(thing)) if title == "Args"):
        found |= dict(_entries(lines))
    return found


def prose(text: str) -> str:
    """Convert a Google style docstring to Markdown: paragraphs, and sections as lists."""
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
    """Return (title, lines) of each section; the first has no title."""
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
    """Return (name, description) of ``name: description`` lines with their continuations."""
    found = list[tuple[str, str]]()
    for line in lines:
        if match := _ENTRY.match(line):
            found.append((match[1], match[2]))
        elif found and line.strip():
            found[-1] = found[-1][0], f"{found[-1][1]} {line.strip()}"
    return found
