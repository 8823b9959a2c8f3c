"""Lenient reader of a run directory, so that a failed run still gets a page.

``runs/<name>/{run.json, config.yaml, <NN-stage>/{report.json, metrics.jsonl, …}}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from robo_rl.bundle.bundle import Bundle
from robo_rl.core.errors import BundleError

_DRAWABLE = 1e100  # curves leave out larger values and NaN


@dataclass(frozen=True)
class StageRecord:
    """A finished stage and its report.

    Args:
        directory: Directory of the stage.
        report: ``report.json``: stage, status, seconds, numbers, gate, files, curves, artifacts.
    """

    directory: Path
    report: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The stage's name."""
        return str(self.report.get("stage", self.directory.name))

    @property
    def numbers(self) -> dict[str, Any]:
        """Name → number, or value with interval; nested mappings are flattened."""
        found: dict[str, Any] = {}
        for name, number in _mapping(self.report.get("numbers")).items():
            parts = _mapping(number)
            if parts and "value" not in parts:
                found |= {f"{name} {key}": part for key, part in parts.items()}
            else:
                found[name] = number
        return found

    @property
    def gate(self) -> dict[str, Any]:
        """The gate; empty without one."""
        return _mapping(self.report.get("gate"))

    @property
    def earlier_gate(self) -> list[dict[str, dict[str, Any]]]:
        """Gate results under other evaluation settings: ``eval`` and ``gate``."""
        found: Any = self.report.get("earlier")
        each = [_mapping(item) for item in found] if isinstance(found, list) else []
        return [{name: _mapping(item.get(name)) for name in ("eval", "gate")} for item in each]

    def files(self, *suffixes: str) -> list[Path]:
        """Return the report's files with these suffixes that lie in the stage's directory."""
        root = self.directory.resolve()
        paths = [
            (root / str(name)).resolve() for name in _mapping(self.report.get("files")).values()
        ]
        return [
            path
            for path in paths
            if path.suffix in suffixes and path.is_relative_to(root) and path.is_file()
        ]

    def curves(self) -> dict[str, tuple[str, list[tuple[float, float]]]]:
        """Return name → (name of x, points in order of x), for curves with points."""
        found: dict[str, tuple[str, list[tuple[float, float]]]] = {}
        for name, axes in _mapping(self.report.get("curves")).items():
            x_name, y_name = str(axes.get("x", "")), str(axes.get("y", ""))
            rows = [row for row in self._metrics if _finite(row, x_name) and _finite(row, y_name)]
            points = sorted((float(row[x_name]), float(row[y_name])) for row in rows)
            if points:
                found[name] = x_name, points
        return found

    @cached_property
    def _metrics(self) -> list[dict[str, Any]]:
        path = self.directory / "metrics.jsonl"
        lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
        return [row for row in map(_parse, lines) if row]


@dataclass(frozen=True)
class RunRecord:
    """A run and its stages in order.

    Args:
        info: ``run.json``: name, seed, versions, machine.
        config: Text of the resolved config.
        stages: Finished stages.
        pending_stages: Names of the unfinished stages.
    """

    info: Mapping[str, Any]
    config: str
    stages: tuple[StageRecord, ...]
    pending_stages: tuple[str, ...]

    @staticmethod
    def read(directory: Path) -> RunRecord:
        """Read the existing files of a run directory."""
        info, config = directory / "run.json", directory / "config.yaml"
        text = _read(config)
        done = sorted(path.parent for path in directory.glob("[0-9][0-9]-*/report.json"))
        stages = [StageRecord(path, _parse(_read(path / "report.json"))) for path in done]
        names = {path.name for path in done}
        planned = _planned(text)
        to_come = [
            name for number, name in enumerate(planned) if f"{number:02d}-{name}" not in names
        ]
        return RunRecord(
            _parse(_read(info)),
            text,
            tuple(stages),
            tuple(to_come),
        )

    def bundle(self) -> Bundle | BundleError | None:
        """Return the newest bundle, or its load error; None if no stage has made one."""
        for stage in reversed(self.stages):
            name = _mapping(stage.report.get("artifacts")).get("bundle")
            if name is None:
                continue
            try:
                return Bundle.load(stage.directory / str(name))
            except BundleError as error:
                return error
        return None


def _planned(config: str) -> list[str]:
    try:
        tree: Any = yaml.safe_load(config)
        return [str(label) for label in tree["stages"]]
    except (yaml.YAMLError, TypeError, KeyError):
        return []


def _read(path: Path) -> str:
    """Return the text of a file, damaged or not; empty without one."""
    return path.read_text(errors="replace") if path.is_file() else ""


def _parse(text: str) -> dict[str, Any]:
    """Parse a JSON object; empty on a syntax error, such as in the last line of a killed run."""
    try:
        return _mapping(json.loads(text))
    except ValueError:
        return {}


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _finite(row: Mapping[str, Any], key: str) -> bool:
    value = row.get(key)
    return isinstance(value, (int, float)) and abs(value) < _DRAWABLE
