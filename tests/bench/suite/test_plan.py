"""From a suite's file to its cells: what wins over what, and every mistake with its place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_suites import SUITE, write_suite

from robo_rl.bench.suite.plan import SuitePlan
from robo_rl.bench.suite.suite import CellKey, ReportConfig, Suite, cell_keys, select_part
from robo_rl.bench.suite.suite_file import load_plan, suite_names
from robo_rl.core.errors import ConfigError, DeviceError

ROOT = Path(__file__).parents[3]


def refused(folder: Path, **changes: Any) -> str:
    """What is said of a suite with these changes, all of its cells included."""
    write_suite(folder, "bad", **changes)
    with pytest.raises(ConfigError) as caught:
        load_plan("bad").cells()
    return str(caught.value)


@pytest.mark.usefixtures("here")
def test_seeds_are_outermost_so_that_a_cut_matrix_is_balanced():
    plan = load_plan("tiny")
    assert [str(key) for key in cell_keys(plan.suite)] == [
        f"{task} {method} {seed}"
        for seed in (0, 1)
        for task in ("near", "far")
        for method in ("default", "sde", "gaussian")
    ]
    assert list(plan.cells()) == cell_keys(plan.suite)


@pytest.mark.usefixtures("here")
def test_a_cell_is_the_experiment_with_its_tasks_and_its_methods_overrides():
    cell = load_plan("tiny").cell(CellKey("far", "sde", 1))
    assert cell.experiment.seed == 1
    assert cell.experiment.task is not None
    assert (cell.experiment.task.name, cell.experiment.task.cfg.success_m) == ("reach", 0.1)
    assert cell.experiment.stages["online"].cfg.exploration.sampler.name == "flow_sde"
    assert cell.experiment.stages["online"].cfg.updates == 4
    assert list(cell.experiment.stages) == ["collect", "bc", "online", "distill"]
    assert cell.experiment.waive.keys() == cell.experiment.stages.keys()
    assert cell.experiment.name == f"1-{cell.digest}"


@pytest.mark.usefixtures("here")
def test_a_gate_that_decides_what_goes_on_is_not_waived():
    stages = "stages.offline={critic_steps: 1, steps: 1, fqe: {steps: 1}}"
    cell = load_plan("tiny", [stages]).cell(CellKey("far", "sde", 1))
    assert cell.experiment.stages.keys() - cell.experiment.waive.keys() == {"offline"}
    waived = load_plan("tiny", [stages, "waive.offline=why"]).cell(CellKey("far", "sde", 1))
    assert waived.experiment.waive["offline"] == "why"
    assert waived.digest != cell.digest
    assert waived.settings != cell.settings


def test_one_tasks_method_wins_over_both_and_the_command_line_over_all(here: Path):
    def updates(count: int) -> dict[str, Any]:
        return {"stages": {"online": {"updates": count}}}

    def found(*overrides: str) -> list[int]:
        plan = load_plan("tiny", overrides)
        return [
            plan.cell(key).experiment.stages["online"].cfg.updates for key in cell_keys(plan.suite)
        ]

    write_suite(
        here,
        tasks={"near": updates(5), "far": {}},
        methods={"default": {}, "sde": updates(6)},
        cells={"near": {"sde": updates(7)}},
        seeds=[0],
    )
    assert found() == [5, 7, 4, 6]
    assert found("stages.online.updates=9") == [9, 9, 9, 9]
    assert found("suite.seeds=[3,4]") == [5, 7, 4, 6] * 2


@pytest.mark.usefixtures("here")
def test_stages_run_in_the_files_order_whatever_the_command_line_changes():
    plan = load_plan("tiny", ["stages.online.updates=9", "stages.distill.steps=7"])
    found = plan.cell(CellKey("near", "default", 0)).experiment.stages
    assert list(found) == ["collect", "bc", "online", "distill"]


def test_methods_are_based_on_files_that_several_suites_share(here: Path):
    folder = here / "configs" / "method"
    folder.mkdir()
    (folder / "wide.yaml").write_text("policy: {net: {name: mlp, width: 64}}\n")
    more = {"base": ["method/wide"], "policy": {"net": {"depth": 2}}}
    write_suite(here, methods={"default": "method/wide", "deep": more})
    plan = load_plan("tiny")
    nets = [plan.cell(CellKey("near", name, 0)).experiment.policy.cfg.net.cfg for name in
            ("default", "deep")]  # fmt: skip
    assert [(net.width, net.depth) for net in nets] == [(64, 1), (64, 2)]


def test_a_file_outside_of_configs_says_suite_itself(here: Path):
    own = {"seeds": [5], "experiment": {"stages": {"online": {"updates": 8}}}}
    (here / "mine.yaml").write_text(yaml.safe_dump({"base": ["suite/tiny"], "suite": own}))
    plan = load_plan("mine.yaml")
    assert (plan.name, plan.suite.seeds) == ("mine", (5,))
    assert plan.cell(CellKey("near", "default", 5)).experiment.stages["online"].cfg.updates == 8
    (here / "mine.yaml").rename(here / "short.yml")
    assert load_plan("short.yml").name == "short"
    (here / "none.yaml").write_text("base: [demo]\n")
    with pytest.raises(ConfigError, match=r"none\.yaml:1: is no suite; expected a key 'suite'"):
        load_plan("none.yaml")


def test_a_file_elsewhere_is_not_the_suite_that_has_its_name(here: Path):
    assert load_plan("tiny").changed == load_plan("configs/suite/tiny.yaml").changed == ()
    assert load_plan(str(here / "configs" / "suite" / "tiny.yaml")).changed == ()
    (here / "tiny.yaml").write_text("base: [suite/tiny]\n")
    assert load_plan("tiny.yaml").changed == ("tiny.yaml",)
    (here / "own.yaml").write_text("base: [suite/tiny]\n")
    assert load_plan("own.yaml").changed == ()


@pytest.mark.usefixtures("here")
def test_suites_are_found_by_name():
    assert "tiny" in suite_names()
    with pytest.raises(ConfigError, match="no suite 'tny'; did you mean 'tiny'"):
        load_plan("tny")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"seed": [0]}, r"bad\.yaml:\d+ suite\.seed: unknown key; did you mean 'seeds'"),
        ({"seeds": []}, r"suite\.seeds"),
        ({"seeds": [1, 1]}, "one is there twice"),
        ({"tasks": {}}, r"suite\.tasks"),
        ({"tasks": {"a/b": {}}}, r"suite\.tasks.*pattern"),
        ({"methods": {"default": 3}}, r"bad\.yaml:\d+: overrides must be a mapping or the name"),
        ({"methods": {"default": "method/non"}}, "no config 'method/non'"),
        ({"cells": {"nea": {"sde": {}}}}, "no task 'nea'; did you mean 'near'"),
        ({"cells": {"near": {"sd": {}}}}, "no method 'sd'; did you mean 'sde'"),
        ({"report": {"reference": "dppo"}}, "no method 'dppo'"),
        ({"report": {"ratios": {"x": {"slow": "sdee"}}}}, "no method 'sdee'; did you mean 'sde'"),
        ({"methods": {"default": {}, "tasks": {}}}, "'tasks' is the name of another part"),
        ({"report": {"ratios": {"sde": {"slow": "sde"}}}}, r"ratios\.sde: is the name of a method"),
        (
            {"report": {"measure": "return", "ratios": {"x": {"slow": "sde"}}}},
            r"report\.ratios: of times to a success rate, but report\.measure is 'return'",
        ),
        ({"report": {"thresholds": [80]}}, r"suite\.report\.thresholds\.0"),
        (
            {"report": {"stage": "onlin"}},
            r"bad\.yaml:\d+ suite\.report\.stage: no stage 'onlin' in near default 0; did you mean"
            r" 'online'",
        ),
        ({"report": {"student": "distil"}}, r"suite\.report\.student: .* did you mean 'distill'"),
        (
            {"report": {"prior_stages": ["bc", "colect"]}},
            r"report\.prior_stages: .* did you mean 'collect'",
        ),
        ({"shared": ["collect", "cb"]}, r"suite\.shared: no stage 'cb'; did you mean 'bc'"),
    ],
)
def test_mistakes_in_a_suite_are_named(here: Path, changes: dict[str, Any], says: str):
    assert re.search(says, refused(here, **changes))


def test_all_mistakes_in_overrides_are_said_at_once_each_with_its_line(here: Path):
    tasks = {"near": {"task": {"sucess_m": 0.1}}, "far": {}}
    methods = {**SUITE["methods"], "sde": {"stages": {"online": {"algo": {"ratoi": "joint"}}}}}
    said = refused(here, tasks=tasks, methods=methods)
    text = (here / "configs" / "suite" / "bad.yaml").read_text().splitlines()
    for key, near in (("sucess_m", "success_m"), ("ratoi", "ratio")):
        line = next(i for i, content in enumerate(text, 1) if key in content)
        assert re.search(rf"bad\.yaml:{line} [\w.]+{key}: unknown key; did you mean '{near}'", said)
    assert len(said.splitlines()) == 2


def test_only_defaults_may_name_stages_that_there_are_not(here: Path):
    stages = {**SUITE["experiment"]["stages"], "collect": None}
    del stages["distill"]
    experiment = {**SUITE["experiment"], "stages": stages}
    write_suite(here, experiment=experiment)
    assert load_plan("tiny").cells()
    write_suite(here, experiment=experiment, report={"student": None})
    assert load_plan("tiny").cells()
    said = refused(here, experiment=experiment, report={"student": "pupil"})
    assert "suite.report.student: no stage 'pupil'; known: bc, collect, online" in said


def test_a_clean_curve_needs_a_stage_that_looks_on_the_way(here: Path):
    said = refused(here, report={"curve": "eval"})
    assert (
        "report.curve: 'eval', but near default 0 sets no stages.online.periodic_eval.every" in said
    )
    stages = {**SUITE["experiment"]["stages"]}
    stages["online"] = {**stages["online"], "periodic_eval": {"every": 1}}
    write_suite(
        here, experiment={**SUITE["experiment"], "stages": stages}, report={"curve": "eval"}
    )
    assert load_plan("tiny").cells()


def test_the_stage_that_counts_must_be_in_every_cell(here: Path):
    other = {"stages": {"again": {"name": "online"}}}
    said = refused(here, methods={"default": {}, "other": other}, report={"stage": "again"})
    assert "no stage 'again' in near default 0" in said
    write_suite(here, methods={"default": {}, "other": other}, report={"prior_stages": ["again"]})
    assert load_plan("tiny").cells()


SDE = "methods.sde.stages.online.updates=2"


@pytest.mark.parametrize(
    ("override", "changed"),
    [
        ("suite.seeds=[3]", ()),
        ("suite.jobs=2", ()),
        ("suite.description=other words", ()),
        ("stages.online.updates=2", ("stages.online.updates=2",)),
        (f"suite.{SDE}", (f"suite.{SDE}",)),
        ("suite.report.stage=bc", ("suite.report.stage=bc",)),
    ],
)
@pytest.mark.usefixtures("here")
def test_a_plan_says_what_the_command_line_changed_of_its_cells(override: str, changed: Any):
    assert load_plan("tiny", [override]).changed == changed


def part(plan: SuitePlan, **chosen: Any) -> list[str]:
    return [str(key) for key in cell_keys(select_part(plan.suite, **chosen))]


@pytest.mark.usefixtures("here")
def test_a_part_of_a_suite():
    plan = load_plan("tiny")
    assert part(plan, tasks=["far"], methods=["sde", "default"], seeds=[1]) == [
        "far default 1",
        "far sde 1",
    ]
    assert len(part(plan)) == 12
    further = part(plan, tasks=["far"], methods=["sde"], seeds=[7, 1, 3])
    assert further == ["far sde 1", "far sde 3", "far sde 7"]
    for chosen, says in [
        ({"tasks": ["fa"]}, "no task 'fa'; did you mean 'far'"),
        ({"methods": ["ppo"]}, "no method 'ppo'"),
        ({"seeds": [-2]}, "--seeds: no seed; expected 0 or more, found -2"),
    ]:
        with pytest.raises(ConfigError, match=says):
            part(plan, **chosen)


@pytest.mark.usefixtures("here")
def test_a_digest_is_of_all_that_a_cells_result_depends_on():
    found = {cell.digest for cell in load_plan("tiny").cells().values()}
    assert len(found) == 12
    again = load_plan("tiny", ["suite.report.window=9"]).cells().values()
    assert {cell.digest for cell in again} == found
    other = load_plan("tiny", ["stages.online.updates=5"]).cells().values()
    assert not {cell.digest for cell in other} & found


def test_the_suite_in_the_readme_of_benchmarks_composes(here: Path):
    page = (ROOT / "benchmarks" / "README.md").read_text()
    (block,) = re.findall(r"^```yml\n(.*?)^```$", page, re.M | re.S)
    (here / "shown.yaml").write_text(block)
    plan = load_plan("shown.yaml")
    assert len(plan.cells()) == 12
    updates = plan.cell(CellKey("large", "louder", 2)).experiment.stages["online"].cfg.updates
    assert updates == 120


@pytest.mark.parametrize("name", suite_names())
def test_our_own_suites_compose_and_no_two_of_their_cells_are_the_same(name: str):
    try:
        cells = load_plan(name).cells()
    except DeviceError as error:
        pytest.skip(str(error))
    assert len({cell.digest for cell in cells.values()}) == len(cells) > 0


def test_the_docs_list_every_field_of_a_suite_and_every_method():
    text = (ROOT / "benchmarks" / "README.md").read_text()
    fields = [name for name in Suite.model_fields if name != "report"]
    fields += [f"report.{name}" for name in ReportConfig.model_fields]
    assert [name for name in fields if f"`{name}`" not in text] == []
    listed = (ROOT / "docs" / "how-to" / "choose-a-method.md").read_text()
    methods = [path.stem for path in (ROOT / "configs" / "method").glob("*.yaml")]
    assert [name for name in methods if f"| `{name}` |" not in listed] == []
