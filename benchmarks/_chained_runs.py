"""Runs of which some begin with the files of others: what is kept of them, and what is missing."""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from _kept import load_result, resolve_experiment, save_result

from robo_rl.config.compose import compose
from robo_rl.core.atomic_files import make_directory
from robo_rl.train.pipeline.run import run_experiment

Cell = dict[str, Any]


class ChainedRun(NamedTuple):
    """A run, and the runs of the same seed that it begins with.

    Args:
        content: Its config.
        last: The stage that makes its policy.
        before: Names of those runs.
    """

    content: dict[str, Any]
    last: str
    before: tuple[str, ...] = ()

    @property
    def settings(self) -> dict[str, Any]:
        """The settings without paths, which differ between machines."""
        content = copy.deepcopy(self.content)
        cloning = content["stages"].get("bc") or {}
        begins = cloning.pop("pretrained", None) is not None
        statistics = begins and cloning.pop("pretrained_statistics", False)
        found = resolve_experiment(content)
        found["stages"].get("bc", {}).pop("pretrained", None)
        found["stages"].get("opd", {}).pop("teacher", None)
        if statistics:
            found["stages"]["bc"]["pretrained_statistics"] = True
        return found


class FinishedRun(NamedTuple):
    """A finished run, for its measurements.

    Args:
        directory: Its directory.
        file: Its config.
        reports: Stage → report.
        policy: Directory of its policy.
    """

    directory: Path
    file: Path
    reports: dict[str, dict[str, Any]]
    policy: Path


def cells(
    runs: Mapping[str, ChainedRun],
    result_file: Callable[[str], Path],
    measure: Callable[[str, FinishedRun], Cell],
    args: argparse.Namespace,
) -> Iterator[tuple[str, Cell]]:
    """Yield the name and the cell of each run, kept or made, in the given order.

    Args:
        runs: Name → run, each after those that it begins with.
        result_file: Maps a name to the file of its cell.
        measure: Maps a name and its finished run to the cell.
        args: ``out``, folder of the runs, and ``redo``.
    """
    kept = {
        name: None if args.redo else load_result(result_file(name), settings(name, runs))
        for name in runs
    }
    needed = _missing_before(runs, [name for name in runs if kept[name] is None], args.out)
    for name in runs:
        cell = kept[name]
        if cell is None or name in needed:
            cell = measure(name, _finish(runs[name], args.out))
            save_result(result_file(name), settings(name, runs), cell)
        yield name, cell


def settings(name: str, runs: Mapping[str, ChainedRun]) -> dict[str, Any]:
    """Return the settings of a run, and of those that it begins with, by name."""
    return {each: runs[each].settings for each in (*runs[name].before, name)}


def _missing_before(runs: Mapping[str, ChainedRun], names: list[str], out: Path) -> set[str]:
    """Return the runs whose files the named runs read, and which are not finished."""
    before = {each for name in names for each in runs[name].before}
    return {name for name in before if _stage_of(runs[name], out) is None}


def _stage_of(run: ChainedRun, out: Path) -> Path | None:
    reports = (out / run.content["name"]).glob(f"*-{run.last}/report.json")
    return next((path.parent for path in reports), None)


def _finish(run: ChainedRun, out: Path) -> FinishedRun:
    file = out / f"{run.content['name']}.yaml"
    make_directory(out)
    file.write_text(json.dumps(run.content))
    summary = run_experiment(compose(str(file), []), [], out)
    reports = {stage["stage"]: stage for stage in summary["stages"]}
    made = Path(summary["directory"])
    return FinishedRun(made, file, reports, next(made.glob(f"*-{run.last}")) / "policy")


def percent(rate: Mapping[str, float]) -> str:
    """Return a rate with its interval, in percent."""
    value, low, high = (100 * rate[part] for part in ("value", "low", "high"))
    return f"{value:.1f} % [{low:.1f}, {high:.1f}]"
