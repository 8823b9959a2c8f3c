"""A strict, plain subset of YAML 1.2 that keeps the place of every value.

Scalars are null, booleans (``true`` and ``false`` only), decimal integers, floats (``1e-4`` is one)
and strings; a date is a string. Other tags, duplicate keys and numbers over 64 bits are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import yaml

from robo_rl.core.errors import ConfigError

_MAX_NODES = 100_000  # aliases can expand a small file without bound
_TAG = "tag:yaml.org,2002:"
_BOOL, _NULL = re.compile(r"(?:true|false)\Z", re.I), re.compile(r"(?:~|null|Null|NULL|)\Z")
_INT = re.compile(r"[-+]?[0-9]+(?:_[0-9]+)*\Z")
_FLOAT = re.compile(
    r"(?:[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
)


@dataclass(frozen=True)
class YamlNode:
    """A mapping (dict of nodes), list (of nodes) or scalar, and its place in the source."""

    value: Any
    origin: str


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}  # noqa: RUF012  PyYAML's own convention


class _Dumper(yaml.SafeDumper):
    yaml_implicit_resolvers = {}  # noqa: RUF012

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _class in (_Loader, _Dumper):
    _class.add_implicit_resolver(_TAG + "bool", _BOOL, list("tTfF"))
    _class.add_implicit_resolver(_TAG + "null", _NULL, ["~", "n", "N", ""])
    _class.add_implicit_resolver(_TAG + "int", _INT, list("-+0123456789"))
    _class.add_implicit_resolver(_TAG + "float", _FLOAT, list("-+.0123456789"))


def parse(text: str, place: Callable[[int], str]) -> YamlNode:
    """Parse one YAML document.

    Args:
        text: The document.
        place: Line number (from 1) → name of that place in errors.

    Returns:
        The document as nodes; an empty document is a null.

    Raises:
        ConfigError: It is not YAML of the subset.
    """
    try:
        document = _Loader(text).get_single_node()
        return YamlNode(None, place(1)) if document is None else _Reader(place).node(document)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise ConfigError(
            f"not valid YAML: {error.problem or error.context}", where=place(line)
        ) from error
    except yaml.YAMLError as error:
        raise ConfigError(
            f"not valid YAML: {' '.join(str(error).split())}", where=place(1)
        ) from error
    except RecursionError as error:
        raise ConfigError("nested too deeply or within itself", where=place(1)) from error


def dump(values: Any) -> str:
    """Return plain values as YAML that ``parse`` reads back unchanged."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


class _Reader:
    """Converts PyYAML nodes to ``YamlNode``."""

    def __init__(self, place: Callable[[int], str]) -> None:
        self._place, self._count = place, 0

    def node(self, node: yaml.Node, line: int | None = None) -> YamlNode:
        """Convert a node; line is the line of its key, if it has one."""
        origin = self._place(node.start_mark.line + 1 if line is None else line)
        self._count += 1
        if self._count > _MAX_NODES:
            raise ConfigError(f"more than {_MAX_NODES} values", where=origin)
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return YamlNode(self._mapping(node), origin)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return YamlNode([self.node(item) for item in node.value], origin)
        if isinstance(node, yaml.ScalarNode):
            return YamlNode(_scalar(node, origin), origin)
        raise ConfigError(f"YAML tag '{node.tag}' is refused", where=origin)

    def _mapping(self, node: yaml.MappingNode) -> dict[str, YamlNode]:
        values: dict[str, YamlNode] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = self._key(key_node, line)
            if key in values:
                raise ConfigError(
                    f"key '{key}' is given twice; first at {values[key].origin}",
                    where=self._place(line),
                )
            values[key] = self.node(value_node, line)
        return values

    def _key(self, node: yaml.Node, line: int) -> str:
        if isinstance(node, yaml.ScalarNode) and node.tag in (_TAG + "str", _TAG + "int"):
            return str(_scalar(node, self._place(line)))
        raise ConfigError("a key must be a name", where=self._place(line), found=_brief(node))


def _scalar(node: yaml.ScalarNode, origin: str) -> Any:
    kind, text = node.tag.removeprefix(_TAG), str(node.value)
    with suppress(ValueError):
        if kind == "str":
            text.encode()  # a lone surrogate is no valid text
            return text
        if kind == "int" and -(2**63) <= (number := int(text)) < 2**63:
            return number
        if kind == "float":
            return float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
        if kind == "null" and _NULL.match(text):
            return None
        if kind == "bool" and _BOOL.match(text):
            return text.lower() == "true"
    known = kind in ("str", "int", "float", "null", "bool")
    problem = f"not a valid {kind}" if known else f"YAML tag '{node.tag}' is refused"
    raise ConfigError(problem, where=origin, found=_brief(node))


def _brief(node: yaml.Node) -> str:
    text = (
        repr(node.value)
        if isinstance(node, yaml.ScalarNode)
        else f"a {'list' if isinstance(node, yaml.SequenceNode) else 'mapping'}"
    )
    return text if len(text) <= 60 else text[:57] + "…"
