"""What is kept of a cell is read back, and every file that is not what it should be is named."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from small_suites import kept

from robo_rl.bench.results.store import Results
from robo_rl.bench.suite.curves import Point
from robo_rl.bench.suite.suite import CellKey
from robo_rl.core.errors import CheckpointError, DataError


def test_a_cell_is_read_back_as_it_was_kept(tmp_path: Path):
    results = Results(tmp_path, "made_up")
    cells = [kept("near", "sde", seed, curve=[(10, 0.5, 3, 1)]) for seed in (0, 11)]
    paths = [results.write(cell) for cell in cells]
    assert paths[1] == tmp_path / "made_up" / "near" / "sde" / "11.json"
    assert results.read() == {cell.key: cell for cell in cells}
    point = results.read()[CellKey("near", "sde", 0)].points()[0]
    assert point[:4] == Point(10, 0.5, 3, 1, math.nan)[:4]
    assert math.isnan(point.returns)


def test_a_point_of_the_curve_is_a_line_of_the_file(tmp_path: Path):
    path = Results(tmp_path, "made_up").write(kept("a", "b", 0, curve=[(10, 0.5, 3, 1)] * 50))
    assert path.read_text().count("  [10, 0.5, 3, 1, null]") == 50


def test_what_is_no_number_stays_valid_json(tmp_path: Path):
    numbers = {"loss": math.nan, "success": {"value": math.inf}}
    path = Results(tmp_path, "made_up").write(kept("a", "b", 0, numbers=numbers))
    body = json.loads(path.read_text(), parse_constant=pytest.fail)
    found = body["stages"]["online"]["numbers"]
    assert (found["loss"], found["success"]["value"]) == (None, None)


def test_numbers_of_any_stage_are_kept_as_they_are(tmp_path: Path):
    results = Results(tmp_path, "made_up")
    numbers = {"latency_us": {"p50": 9.5}, "env_steps": 12, "dataset": "ab", "ok": True}
    numbers |= {"list": [1, 2], "deep": {"a": {"b": 1}}}
    results.write(kept("a", "b", 0, numbers=numbers))
    (found,) = results.read().values()
    assert found.stages["online"].numbers == numbers
    assert isinstance(found.stages["online"].numbers["env_steps"], int)


@pytest.mark.parametrize("damage", ["", "[]", '{"suite": 3}', '{"task": "near"'])
def test_a_damaged_file_is_named(tmp_path: Path, damage: str):
    results = Results(tmp_path, "made_up")
    path = results.write(kept("near", "sde", 0))
    path.write_text(damage)
    with pytest.raises(DataError, match=r"near/sde/0\.json.*delete it"):
        results.read()


DAMAGED = {
    "a count that is none": ("stages.online.numbers.success.n", "x"),
    "a share above one": ("stages.online.numbers.success.value", 1.7),
    "a value outside of its interval": ("stages.online.numbers.success.low", 0.95),
    "a word for a value": ("stages.online.numbers.success.value", "abc"),
    "stages that are none": ("config.stages", None),
    "a stage that is none": ("config.stages", {"bc": 3}),
    "episodes that nobody could run": ("curve", [[10, 1.0, -3, 0, None]]),
    "more successes than episodes": ("curve", [[10, 1.0, 3, 4, None]]),
    "seconds below nothing": ("stages.online.seconds", -1.0),
    "a curve that runs backwards": ("curve", [[10, 1.0, 3, 1, None], [5, 2.0, 3, 1, None]]),
    "an older robo-rl's reading of a newer file": ("new_field", 1),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_so_is_one_whose_numbers_cannot_be(tmp_path: Path, what: str):
    results = Results(tmp_path, "made_up")
    unit = {"success": {"value": 0.9, "n": 100, "unit": "1", "low": 0.8, "high": 0.93}}
    path = results.write(kept("near", "sde", 0, numbers=unit))
    assert results.read()
    (where, value), body = DAMAGED[what], json.loads(path.read_text())
    *parents, last = where.split(".")
    place = body
    for name in parents:
        place = place[name]
    place[last] = value
    path.write_text(json.dumps(body))
    with pytest.raises(DataError, match=r"near/sde/0\.json: is no kept cell; found .*delete it"):
        results.read()


def test_nesting_without_end_is_damage_too(tmp_path: Path):
    results = Results(tmp_path, "made_up")
    path = results.write(kept("near", "sde", 0))
    path.write_text("[" * 100_000)
    with pytest.raises(DataError, match=r"0\.json: cannot be read"):
        results.read()


def test_nobody_is_told_to_delete_what_a_newer_one_kept(tmp_path: Path):
    results = Results(tmp_path, "made_up")
    path = results.write(kept("near", "sde", 0))
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 2, "new_field": 1}))
    with pytest.raises(DataError, match=r"is a newer one's; .* found 2; update") as caught:
        results.read()
    assert "delete it" not in str(caught.value)


def test_a_file_in_anothers_place_is_refused(tmp_path: Path):
    results = Results(tmp_path, "made_up")
    path = results.write(kept("near", "sde", 0))
    path.rename(path.with_name("1.json"))
    with pytest.raises(
        DataError,
        match=r"1\.json: lies in another's place; .* near/sde/1, found near sde 0; move it to",
    ):
        results.read()


def test_a_place_that_cannot_be_written_is_found_out_before(tmp_path: Path):
    (tmp_path / "file").write_text("")
    results = Results(tmp_path / "file", "made_up")
    for write in (results.demand_writable, lambda: results.write(kept("a", "b", 0))):
        with pytest.raises(CheckpointError, match=r"file.*cannot be written.*another --results"):
            write()


def test_several_may_find_out_at_once(tmp_path: Path):
    results = Results(tmp_path, "made_up")
    with ThreadPoolExecutor(4) as pool:
        for each in [pool.submit(results.demand_writable) for _ in range(100)]:
            each.result()
    assert not list((tmp_path / "made_up").iterdir())


def test_what_killed_writers_left_is_swept(tmp_path: Path):
    results, cell = Results(tmp_path, "made_up"), kept("near", "sde", 0)
    place = results.write(cell).parent
    left = [tmp_path / "made_up" / ".probe", place / ".tmp-0.json-1234"]
    for path in left:
        path.write_text("")
    results.demand_writable()
    results.write(cell)
    assert not [path for path in left if path.exists()]
    assert [path.name for path in place.iterdir()] == ["0.json"]


def test_one_cell_is_found_by_itself(tmp_path: Path):
    results = Results(tmp_path, "made_up")
    cell = kept("near", "sde", 0)
    assert results.find(cell.key) is None
    results.write(cell)
    assert results.find(cell.key) == cell
