"""Saved results of a run with their settings; a result is valid for equal settings only.

Settings are those of the experiment with all defaults, so that a changed default invalidates a
result. Options that did not exist yet count as their defaults, as in suites.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from robo_rl.bench.results.cell_record import settings_agree
from robo_rl.config.compose import compose
from robo_rl.config.models import validate
from robo_rl.core.atomic_files import write_file
from robo_rl.train.pipeline.experiment import Experiment

_ELSEWHERE = ("name", "waive")
"""Keys that do not affect the numbers."""


def resolve_experiment(
    content: str | Mapping[str, Any], overrides: Sequence[str] = ()
) -> dict[str, Any]:
    """Return an experiment with its defaults, given by name or by content.

    Paths and ``model_error``, which only widens the reported intervals, are omitted.
    """
    if not isinstance(content, str):
        with TemporaryDirectory() as folder:
            file = Path(folder) / "experiment.yaml"
            file.write_text(json.dumps({"name": "kept", **content}))
            return resolve_experiment(str(file), overrides)
    found = validate(compose(content, overrides), Experiment).model_dump(mode="json")
    for stage in found["stages"].values():
        for name in ("path", "model_error"):
            stage.pop(name, None)
    return {key: value for key, value in found.items() if key not in _ELSEWHERE}


def load_result(path: Path, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the saved result, if its settings agree; otherwise None."""
    if not path.exists():
        return None
    found = json.loads(path.read_text())
    found.pop("carried", None)
    same = settings_agree(found.pop("settings", None), json.loads(json.dumps(settings)))
    return found if same else None


def save_result(path: Path, settings: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Save the result, with the settings on one line."""
    shown = json.dumps(found, indent=2).removesuffix("\n}")
    write_file(path, f'{shown},\n  "settings": {json.dumps(settings)}\n}}\n'.encode())
