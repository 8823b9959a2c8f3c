"""A list of task names is a mapping of overrides, and every mistake in it has its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_suites import write_suite

from robo_rl.bench.suite.suite import CellKey
from robo_rl.bench.suite.suite_file import load_plan
from robo_rl.core.errors import ConfigError


def listed(folder: Path, tasks: Any, key: Any = "eval.seed") -> Any:
    write_suite(folder, "listed", tasks=tasks, task_key=key)
    return load_plan("listed")


def test_a_name_is_the_label_of_its_task_and_the_value_of_the_key(here: Path):
    plan = listed(here, ["reach", "push_t"], "task.name")
    cells = {task: plan.cell(CellKey(task, "default", 0)) for task in plan.suite.tasks}
    assert {label: cell.experiment.task.name for label, cell in cells.items()} == {
        "reach": "reach",
        "push_t": "push_t",
    }


@pytest.mark.parametrize(
    ("tasks", "key", "said"),
    [
        (["a", "a"], "task.name", "task 'a' is there twice"),
        ([["a"]], "task.name", "a list of tasks has names"),
        (["a"], ["task"], "task_key must be a dotted key"),
        ([], "task.name", "tasks"),
    ],
)
def test_what_is_no_list_of_names_is_refused_with_its_place(
    here: Path, tasks: Any, key: Any, said: str
):
    with pytest.raises(ConfigError, match=rf"listed\.yaml(?s:.*){said}"):
        listed(here, tasks, key)
