"""What is kept of a cell is read back, and every file that is not what it should be is named."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from small_suites import kept

from robo_rl.errors import CheckpointError, DataError
from robo_rl.train.bench.curve import Point
from robo_rl.train.bench.results import Results
from robo_rl.train.bench.suite import Key


def test_a_cell_is_read_back_as_it_was_kept(tmp_path: Path):
    results = Results(tmp_path, "made_up")
    cells = [kept("near", "sde", seed, curve=[(10, 0.5, 3, 1)]) for seed in (0, 11)]
    paths = [results.write(cell) for cell in cells]
    assert paths[1] == tmp_path / "made_up" / "near" / "sde" / "11.json"
    assert results.read() == {cell.key: cell for cell in cells}
    point = results.read()[Key("near", "sde", 0)].points()[0]
    assert point[:4] == Point(10, 0.5, 3, 1, math.nan)[:4]
    assert math.isnan(point.returns)


def test_a_point_of_the_curve_is_a_line_of_the_file(tmp_path: Path):
    path = Results(tmp_path, "made_up").write(kept("a", "b", 0, curve=[(10, 0.5, 3, 1)] * 50))
    assert path.read_text().count("  [10, 0.5, 3, 1, null]") == 50


def test_what_is_no_number_stays_valid_json(tmp_path: Path):
    numbers = {"loss": math.nan, "success": {"value": math.inf}}
    path = Results(tmp_path, "made_up").write(kept("a", "b", 0, numbers=numbers))
    found = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert found["stages"]["online"]["numbers"] == {"loss": None, "success": {"value": None}}


@pytest.mark.parametrize("damage", ["", "[]", '{"suite": 3}', '{"task": "near"'])
def test_a_damaged_file_is_named(tmp_path: Path, damage: str):
    results = Results(tmp_path, "made_up")
    path = results.write(kept("near", "sde", 0))
    path.write_text(damage)
    with pytest.raises(DataError, match=r"near/sde/0\.json.*delete it"):
        results.read()


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
