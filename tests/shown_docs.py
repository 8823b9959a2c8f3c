"""The pages that a reader meets, and what they show."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
GENERATED = {
    ROOT / "docs" / "reference" / f"{name}.md"
    for name in ("config-keys", "cli", "metrics", "entry-points", "bundle-format", "api")
}
"""Written from the code, and so true; a checkout need not have them."""
PAGES = [
    ROOT / "README.md",
    *sorted(set((ROOT / "docs").rglob("*.md")) - GENERATED),
    ROOT / "benchmarks" / "README.md",
]


def named(page: Path) -> str:
    """A page's path below the root."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> list[str]:
    """A page's fenced blocks in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.M | re.S)


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)


def commands(page: Path) -> list[str]:
    """Every ``robo-rl …`` of a page: in blocks, indented, and within a line."""
    shown = "\n".join(blocks(page, "bash"))
    found = re.findall(r"^robo-rl .*$", shown, re.M)
    found += re.findall(r"^    (robo-rl .*)$", prose(page), re.M)
    found += [" ".join(line.split()) for line in re.findall(r"`(robo-rl [^`…]*)`", prose(page))]
    return found


def on_tick(page: Path) -> list[str]:
    """What a page sets in code within its lines."""
    return re.findall(r"`([^`\n]+)`", prose(page))


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and mkdocs both make it."""
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip())


def anchors(page: Path) -> set[str]:
    """A page's headings as anchors."""
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", prose(page), re.M)}
