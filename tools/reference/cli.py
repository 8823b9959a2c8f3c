"""The page with every verb of ``robo-rl``, its arguments and options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from robo_rl.cli.main import VERBS, _app  # pyright: ignore[reportPrivateUsage]
from tools.reference.markdown import document, inline, table
from tools.reference.types import type_name

_ABOUT = (
    "`robo-rl VERB --help` shows the same. Any verb takes `--debug`, which shows the traceback of"
    " an error. `KEY=VALUE` overrides a key of the [config](config-keys.md)."
)
_STATUS = (
    "## Exit status\n\n"
    "0 is success, 1 a failed check of `doctor`, an incomplete `bench`, or an output that no"
    " process reads any more. 2 is an error of the user's, or a gate or `deploy check` that did not"
    " pass. 4 is the end of another process of the run, 130 an interrupt by SIGINT, 143 one by"
    " SIGTERM, 129 one by SIGHUP."
)


def page() -> str:
    """Return the text of the page."""
    verbs = [_verb(f"robo-rl {verb}", command(verb), line) for verb, line in VERBS.items()]
    return document("Command line", _ABOUT, *verbs, _STATUS)


def command(verb: str) -> Any:
    """Return the click command of a verb."""
    return typer.main.get_command(_app(verb)).commands[verb]  # pyright: ignore


def _verb(name: str, verb: Any, line: str) -> str:
    groups = getattr(verb, "commands", {})
    said = [part for part in (line, inline(verb.callback.__doc__ or "") if not groups else "")]
    about = "\n\n".join(_paragraphs(part) for part in dict.fromkeys(said) if part)
    usage = f"    {name} {' '.join(_usage(verb))}".rstrip() if not groups else ""
    below = [_sub(f"{name} {each}", groups[each]) for each in groups]
    parts = [f"## {name}", about, usage, _parameters(verb), *below]
    return "\n\n".join(part for part in parts if part)


def _sub(name: str, verb: Any) -> str:
    about = _paragraphs(inline(verb.callback.__doc__ or ""))
    parts = [f"### {name}", about, f"    {name} {' '.join(_usage(verb))}".rstrip()]
    return "\n\n".join(part for part in [*parts, _parameters(verb)] if part)


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))


def _own(verb: Any) -> list[Any]:
    return [each for each in verb.params if each.name != "help" and not each.hidden]


def _usage(verb: Any) -> Iterator[str]:
    if any(each.param_type_name == "option" for each in _own(verb)):
        yield "[OPTIONS]"
    for each in _own(verb):
        if each.param_type_name == "argument":
            word = (each.metavar or each.name).strip("[]")
            word = word if each.metavar else word.upper()
            several = "..." if each.nargs == -1 else ""
            yield f"{word}{several}" if each.required else f"[{word}]{several}"


def _parameters(verb: Any) -> str:
    rows = [_row(each) for each in _own(verb)]
    return table(("argument or option", "type", "default", "meaning"), rows)


def _row(parameter: Any) -> tuple[str, str, str, str]:
    argument = parameter.param_type_name == "argument"
    words = [(parameter.metavar or parameter.name.upper()).strip("[]")] if argument else []
    words += [] if argument else [*parameter.opts, *parameter.secondary_opts]
    kind = "" if getattr(parameter, "is_flag", False) else _type(parameter)
    default = "required" if parameter.required else _default(parameter.default)
    names = ", ".join(f"`{word}`" for word in words)
    return names, kind or "flag", default, inline(parameter.help or "")


def _type(parameter: Any) -> str:
    name = type_name(parameter.type_descriptor.annotation, {})
    return name.removesuffix(" or null")


def _default(value: Any) -> str:
    value = value() if callable(value) else value
    return "" if value in (None, "", False) or value == () else f"`{value}`"
