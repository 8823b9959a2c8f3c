"""Episodes of HDF5 files in three layouts, as columns of one length.

Shapes: L rows of an episode.

Layouts: robomimic (``data/demo_0/{obs/…, actions, rewards, dones}``), Minari
(``episode_0/{observations/…, actions, rewards, terminations, truncations}``, with one observation
more than actions), D4RL (``observations, actions, rewards, terminals, timeouts`` of all episodes).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from robo_rl.core.errors import DataError
from robo_rl.data.columns.draft import Told
from robo_rl.data.columns.feature import Feature
from robo_rl.data.hdf5.cuts import TERMINALS, TIMEOUTS, check_cuts, episode_lengths
from robo_rl.data.hdf5.files import (
    array_of,
    arrays_of,
    feature_of,
    group_of,
    names_of,
    open_file,
    read_array,
)

ACTIONS, REWARDS, OBS, TERMINATED = "actions", "rewards", "obs/", "terminated"
SUCCESSES = "successes"
"""Flags of the rows in which the task is solved, in the files of our own exporter."""

TOLD = Told(ACTIONS, SUCCESSES, REWARDS, TERMINATED)
_INFOS = "infos/"
_MINARI = {"terminations": TERMINATED, "truncations": "truncated"}
_D4RL = {TERMINALS: TERMINATED, TIMEOUTS: "truncated"}


@dataclass(frozen=True)
class Layout:
    """What a file holds; a ``Columns``.

    Args:
        kind: ``robomimic``, ``minari`` or ``d4rl``.
        features: Column → its type and shape.
        episodes: Name and number of rows of each episode.
        rate_hz: Rows per second; 0 if the file does not say it.
        robot_type: Robot, if the file names it.
    """

    kind: str
    features: dict[str, Feature]
    episodes: list[tuple[str, int]]
    rate_hz: float
    robot_type: str | None

    @property
    def measurements(self) -> dict[str, Feature]:
        """All columns."""
        return self.features

    @property
    def about(self) -> str:
        """A line about the file."""
        rows = sum(length for _, length in self.episodes)
        rate = f"{self.rate_hz:g} a second" if self.rate_hz else "of an unknown rate"
        robot = self.robot_type or "not named"
        return f"{self.kind}, {len(self.episodes)} episodes, {rows} rows, {rate}, robot {robot}"


def read_layout(path: Path, max_steps: int = 0) -> Layout:
    """Find the layout of a file and the columns of its episodes.

    Args:
        path: The file.
        max_steps: Rows after which episodes of a D4RL file without ``timeouts`` were cut; else 0.

    Raises:
        DataError: The file is damaged, has another layout or no episode, or the cuts are told by
            neither or by both of file and ``max_steps``.
    """
    with open_file(path) as file:
        data = group_of(file, "data")
        if data is not None and any(name.startswith("demo_") for name in names_of(data)):
            check_cuts(path, max_steps, is_told=True)
            return _robomimic(data, path)
        if any(re.fullmatch(r"episode_\d+", name) for name in names_of(file)):
            check_cuts(path, max_steps, is_told=True)
            return _minari(file, path)
        if {"observations", ACTIONS, TERMINALS} <= set(names_of(file)):
            return _d4rl(file, path, max_steps)
    raise DataError(
        "has an unknown layout",
        where=path,
        expected="data/demo_0 (robomimic), episode_0 (Minari), or observations, actions and"
        " terminals (D4RL)",
    )


def read_episodes(path: Path, layout: Layout, columns: set[str]) -> Iterator[dict[str, Any]]:
    """Yield column → (L, …) of each episode, with the flag ``terminated`` of its last row.

    Raises:
        DataError: A column is missing, damaged or not finite, or has another number of rows.
    """
    with open_file(path) as file:
        is_one, start = layout.kind == "d4rl", 0
        source = group_of(file, "data") if layout.kind == "robomimic" else file
        shared = _named(layout.kind, file) if is_one else {}
        for name, length in layout.episodes:
            where = f"{path} {name}"
            arrays = shared if is_one else _named(layout.kind, group_of(source, name))
            rows = slice(start, start + length) if is_one else slice(0, length)
            start += length
            found: dict[str, NDArray[Any]] = {}
            for column in sorted(columns | ({TERMINATED} & set(arrays))):
                if column not in arrays:
                    raise DataError("a column is missing", where=where, found=column)
                place = f"{where} {column}"
                _check_shape(layout, column, arrays[column], rows, place)
                own = _rows_of(layout, column, arrays[column], rows)
                values = read_array(arrays[column], own, place)
                found[column] = values.reshape(length, *(values.shape[1:] or (1,)))
            yield found


def _check_shape(layout: Layout, column: str, array: Any, rows: slice, where: str) -> None:
    """Check the rows of an array, and that its shape is that of the first episode's."""
    count = array.shape[0] if layout.kind != "d4rl" else len(range(*rows.indices(array.shape[0])))
    length = rows.stop - rows.start
    allowed = (length, length + 1) if _has_one_more(layout, column) else (length,)
    if count not in allowed:
        expected = " or ".join(map(str, allowed))
        raise DataError("another number of rows", where=where, expected=expected, found=count)
    found = feature_of(array).shape
    expected = layout.features[column].shape if column in layout.features else found
    if found != expected:
        raise DataError("another shape than before", where=where, expected=expected, found=found)


def _has_one_more(layout: Layout, column: str) -> bool:
    """Return whether a column may also hold what was there before the first action."""
    return layout.kind == "minari" and column.startswith((OBS, _INFOS))


def _rows_of(layout: Layout, column: str, array: Any, rows: slice) -> slice:
    """Return the rows of the steps: infos tell of the state behind an action."""
    later = column.startswith(_INFOS) and array.shape[0] > rows.stop and layout.kind == "minari"
    return slice(rows.start + 1, rows.stop + 1) if later else rows


def _named(kind: str, group: Any) -> dict[str, Any]:
    """Return column → array; names of columns are those of robomimic."""
    arrays = arrays_of(group)
    if kind == "robomimic":
        renamed = {"dones": TERMINATED}
        return {renamed.get(name, name): each for name, each in arrays.items()}
    renamed = _MINARI if kind == "minari" else _D4RL
    found: dict[str, Any] = {}
    for name, array in arrays.items():
        if name == "observations":
            found[f"{OBS}state"] = array
        elif name.startswith("observations/"):
            found[OBS + name.removeprefix("observations/").replace("/", "_")] = array
        else:
            found[renamed.get(name, name)] = array
    return found


def _robomimic(data: Any, path: Path) -> Layout:
    names = sorted((n for n in names_of(data) if n.startswith("demo_")), key=_number)
    listed = [(name, _length(data, path, name)) for name in names]
    told = _json(data.attrs.get("env_args"))
    kwargs = told.get("env_kwargs", {}) if isinstance(told.get("env_kwargs"), dict) else {}
    rate = kwargs.get("control_freq", 0.0)
    robots: Any = kwargs.get("robots")
    robot: Any = robots[0] if isinstance(robots, list) and robots else robots
    features = {n: feature_of(a) for n, a in _named("robomimic", group_of(data, names[0])).items()}
    return Layout("robomimic", features, listed, _rate(rate), str(robot) if robot else None)


def _minari(file: Any, path: Path) -> Layout:
    names = sorted((n for n in names_of(file) if re.fullmatch(r"episode_\d+", n)), key=_number)
    listed = [(name, _length(file, path, name)) for name in names]
    features = {n: feature_of(a) for n, a in _named("minari", group_of(file, names[0])).items()}
    return Layout("minari", features, listed, 0.0, None)


def _d4rl(file: Any, path: Path, max_steps: int) -> Layout:
    actions = array_of(file, ACTIONS)
    rows = actions.shape[0] if actions is not None else 0
    flags = {n: each for n in _D4RL if (each := array_of(file, n)) is not None}
    if not rows or TERMINALS not in flags:
        raise DataError("no actions with terminals", where=path, expected="arrays of numbers")
    lengths = episode_lengths(flags, rows, max_steps, path)
    listed = [(f"episode {number}", length) for number, length in enumerate(lengths)]
    arrays = {n: a for n, a in _named("d4rl", file).items() if a.shape[0] == rows}
    return Layout("d4rl", {n: feature_of(a) for n, a in arrays.items()}, listed, 0.0, None)


def _length(parent: Any, path: Path, name: str) -> int:
    group = group_of(parent, name)
    actions = None if group is None else array_of(group, ACTIONS)
    if actions is None or not actions.shape[0]:
        raise DataError("an episode without actions", where=f"{path} {name}")
    return int(actions.shape[0])


def _number(name: str) -> int:
    digits = name.rpartition("_")[2]
    return int(digits) if digits.isdigit() else -1


def _json(text: Any) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (TypeError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _rate(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and 0.0 < value < 1e4 else 0.0
