"""Saved results of runs with their settings; a result is valid for equal settings only.

Settings are those of the experiment with all defaults, so that a changed default invalidates a
result. Options that are newer than a result are ignored. Where the default of one describes other
runs than the result's, a line on the standard error says so.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from robo_rl.bench.results.cell_record import read_json, settings_agree
from robo_rl.bench.suite.former_defaults import former_defaults
from robo_rl.config.compose import compose
from robo_rl.config.models import validate
from robo_rl.core.atomic_files import write_file
from robo_rl.train.pipeline.experiment import Experiment

RESULTS = Path(__file__).parent / "results"
_ELSEWHERE = ("name", "waive")
"""Keys that do not affect the numbers."""


def resolve_experiment(
    content: str | Mapping[str, Any], overrides: Sequence[str] = ()
) -> dict[str, Any]:
    """Return an experiment with its defaults, given by name or by content.

    Paths are omitted, and what widens intervals: ``model_error``, which changes no policy, and
    ``difference_error``, which decides only gates that are not waived.
    """
    if not isinstance(content, str):
        with TemporaryDirectory() as folder:
            file = Path(folder) / "experiment.yaml"
            file.write_text(json.dumps({"name": "kept", **content}))
            return resolve_experiment(str(file), overrides)
    found = validate(compose(content, overrides), Experiment).model_dump(mode="json")
    for stage in found["stages"].values():
        for name in ("path", "model_error", "difference_error"):
            stage.pop(name, None)
    return {key: value for key, value in found.items() if key not in _ELSEWHERE}


def load_result(path: Path, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the saved result, if its settings agree; otherwise None.

    Raises:
        DataError: The file is damaged.
    """
    if not path.exists():
        return None
    found = dict(read_json(path, "delete it, and the run is made again"))
    found.pop("carried", None)
    kept, now = found.pop("settings", None), json.loads(json.dumps(settings))
    if not settings_agree(kept, now):
        return None
    if formerly := former_defaults(kept, now):
        said = ", ".join(f"{name}: {value}" for name, value in formerly.items())
        print(f"{path.name}: made before the default changed from {said}", file=sys.stderr)
    return found


def save_result(path: Path, settings: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Save the result, with the settings on one line."""
    shown = json.dumps(found, indent=2).removesuffix("\n}")
    write_file(path, f'{shown},\n  "settings": {json.dumps(settings)}\n}}\n'.encode())


def kept_or_made(
    path: Path,
    settings: Mapping[str, Any],
    make: Callable[[], dict[str, Any]],
    *,
    redo: bool = False,
) -> dict[str, Any]:
    """Return the saved result if its settings agree; otherwise make and save it."""
    if not redo and (found := load_result(path, settings)) is not None:
        return found
    save_result(path, settings, found := make())
    return found


def table_head(columns: Sequence[str]) -> str:
    """Return the first two lines of a table, in Markdown."""
    return f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|"


def run_parser(doc: str | None, name: str, seeds: Sequence[int]) -> argparse.ArgumentParser:
    """Return the options of a benchmark whose runs take long.

    Args:
        doc: Docstring of the script; its first line is the description.
        name: Name of the benchmark, and of its folders of runs and results.
        seeds: Default seeds.
    """
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(seeds))
    parser.add_argument("--redo", action="store_true", help="not what is kept, but the runs")
    parser.add_argument("--out", type=Path, default=Path("runs") / name, help="folder of runs")
    kept = RESULTS / name
    parser.add_argument("--results", type=Path, default=kept, help="folder of what is kept")
    return parser
