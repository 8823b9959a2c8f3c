"""Builds HTML; all text is escaped unless it is ``Html``."""

from __future__ import annotations

import html


class Html(str):
    """Markup that ``el`` inserts without escaping."""

    __slots__ = ()


def el(name: str, /, *children: object, cls: str = "", **attributes: object) -> Html:
    """Return an element; children that are not ``Html`` are escaped, None is left out.

    Attributes: ``cls`` is the class, ``_`` in a name becomes ``-``, True gives an attribute without
    value, None is left out.
    """
    named = {"class": cls or None, **{key.replace("_", "-"): v for key, v in attributes.items()}}
    head = "".join(
        f" {key}" if value is True else f' {key}="{html.escape(str(value))}"'
        for key, value in named.items()
        if value is not None
    )
    return Html(f"<{name}{head}>{join(*children)}</{name}>")


def join(*children: object) -> Html:
    """Concatenate children; text is escaped, None is left out."""
    return Html(
        "".join(
            child if isinstance(child, Html) else html.escape(str(child))
            for child in children
            if child is not None
        )
    )


def void(name: str, /, **attributes: str) -> Html:
    """Return an element without content, such as ``meta``."""
    return Html(el(name, **attributes).removesuffix(f"</{name}>"))
