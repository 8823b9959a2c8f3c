"""What several cells would each make alike is made once, and found by each as if it had."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_suites import SUITE, write_suite

from robo_rl.bench.results.run_conditions import FILE, RunConditions, add_conditions, conditions_of
from robo_rl.bench.runner.run_tasks import run_tasks
from robo_rl.bench.runner.shared_stages import SharedStages, copy_shared_stages, find_shared_stages
from robo_rl.bench.suite.suite import CellKey
from robo_rl.bench.suite.suite_file import load_plan
from robo_rl.core.errors import DataError
from robo_rl.train.pipeline.stage import Report
from robo_rl.train.pipeline.stage_digest import stage_digest
from robo_rl.train.pipeline.world_digest import world_of


@pytest.fixture
def found(here: Path) -> dict[CellKey, SharedStages]:
    del here
    return find_shared_stages(load_plan("tiny").cells().values(), ("collect", "bc"))


def test_methods_share_as_far_as_their_results_would_be_the_same(
    found: dict[CellKey, SharedStages],
):
    labels = {str(key): share.labels for key, share in found.items() if key.seed == 0}
    assert labels == {
        "near default 0": ("collect", "bc"),
        "near sde 0": ("collect", "bc"),
        "near gaussian 0": ("collect",),
        "far default 0": ("collect", "bc"),
        "far sde 0": ("collect", "bc"),
        "far gaussian 0": ("collect",),
    }
    by_name = {share.name: share for share in found.values()}
    assert len(by_name) == 2 * 2 * 2  # of each task and seed: demonstrations, and a clone
    cloned = found[CellKey("near", "sde", 0)]
    assert cloned is found[CellKey("near", "default", 0)]
    assert cloned.parent is found[CellKey("near", "gaussian", 0)]
    assert list(cloned.experiment.stages) == ["collect", "bc"]


def test_nothing_is_made_apart_for_one_cell_alone(here: Path):
    write_suite(here, methods={"default": {}})
    assert find_shared_stages(load_plan("tiny").cells().values(), ("collect", "bc")) == {}


def test_what_all_share_is_made_in_one_run(here: Path):
    write_suite(here, methods={name: SUITE["methods"][name] for name in ("default", "sde")})
    found = find_shared_stages(load_plan("tiny").cells().values(), ("collect", "bc"))
    assert all(
        (share.labels, share.parent) == (("collect", "bc"), None) for share in found.values()
    )


def test_only_what_the_suite_says_is_shared(here: Path):
    del here
    cells = load_plan("tiny").cells().values()
    assert find_shared_stages(cells, ()) == {}
    assert {share.labels for share in find_shared_stages(cells, ("collect",)).values()} == {
        ("collect",)
    }


def test_works_come_behind_what_they_take_up(here: Path):
    plan = load_plan("tiny")
    chosen = [CellKey("far", "sde", 1), CellKey("far", "gaussian", 1)]
    found = run_tasks(plan.cells(), chosen, plan.suite.shared, here / "runs")
    assert [work.label for work in found] == [
        "far collect 1",
        "far collect and bc 1",
        "far sde 1",
        "far gaussian 1",
    ]
    assert [work.is_ready for work in found] == [True, False, False, False]
    assert [[work.waits_for(other) for other in found].count(True) for work in found] == [
        0,
        1,
        1,
        1,
    ]


def made(share: SharedStages, root: Path) -> None:
    """As a run of the share would leave it."""
    for index, label in enumerate(share.labels):
        place = root / share.name / f"{index:02d}-{label}"
        (place / "ckpt" / "000001").mkdir(parents=True)
        (place / "policy").mkdir()
        (place / "policy" / "weights").write_text(label)
        (place / "digest").write_text(stage_digest(share.experiment, index))
        Report(label, digest=stage_digest(share.experiment, index), seconds=7.0).write(place)


def test_a_run_finds_what_it_takes_up_as_if_it_had_made_it(
    found: dict[CellKey, SharedStages], here: Path
):
    key = CellKey("near", "sde", 0)
    share, cell = found[key], load_plan("tiny").cell(key)
    assert not share.is_done(here)
    made(share, here)
    assert share.is_done(here)
    run = here / "run"
    (run / "01-bc").mkdir(parents=True)
    (run / "01-bc" / "half").write_text("begun, and not finished")
    copy_shared_stages(share, here, run)
    for index, label in enumerate(("collect", "bc")):
        place = run / f"{index:02d}-{label}"
        report = json.loads((place / "report.json").read_text())
        assert report["digest"] == stage_digest(cell.experiment, index)
        assert (place / "policy" / "weights").read_text() == label
        assert not (place / "ckpt").exists()
    assert not (run / "01-bc" / "half").exists()


def test_what_was_made_in_another_world_is_not_done(found: dict[CellKey, SharedStages], here: Path):
    """So that its run is started, and refused by its own name."""
    share = found[CellKey("near", "sde", 0)]
    made(share, here)
    last = here / share.name / "01-bc"
    (last / "world.json").write_text(json.dumps(world_of(share.experiment)))
    assert share.is_done(here)
    (last / "world.json").write_text(json.dumps({**world_of(share.experiment), "scene": "other"}))
    assert not share.is_done(here)


def test_what_a_run_has_is_left_alone(found: dict[CellKey, SharedStages], here: Path):
    share = found[CellKey("near", "sde", 0)]
    made(share, here)
    Report("collect", seconds=3.0).write(_folder(here / "run" / "00-collect"))
    copy_shared_stages(share, here, here / "run")
    kept = Report.read(here / "run" / "00-collect")
    assert kept is not None
    assert kept.seconds == 3.0


def test_a_run_is_of_the_sittings_of_what_it_took_up_too(
    found: dict[CellKey, SharedStages], here: Path
):
    share = found[CellKey("near", "sde", 0)]
    made(share, here)
    slow, fast = (RunConditions(jobs=jobs, threads=1, version="0.1.0") for jobs in (4, 1))
    add_conditions(here / share.name, [slow])
    for _ in range(2):  # the run went on after a kill
        copy_shared_stages(share, here, here / "run")
        add_conditions(here / "run", [fast])
    assert conditions_of(here / "run") == (slow, fast)
    add_conditions(here / "run", [slow])  # the latest is last
    assert conditions_of(here / "run") == (fast, slow)
    assert conditions_of(here / "nowhere") == ()
    (here / "run" / FILE).write_text("[{]")
    with pytest.raises(DataError, match=r"sittings\.json: cannot be read"):
        conditions_of(here / "run")


def _folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path
