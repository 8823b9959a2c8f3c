"""Names of cells in groups say the same as the names one by one."""

from itertools import product

from robo_rl.bench.reporting.cell_groups import group_cells


def test_tasks_and_methods_with_the_same_seeds_are_named_once():
    cells = [" ".join(each) for each in product(("a", "b"), ("default", "dppo"), "123")]
    assert group_cells(cells) == "a, b: default, dppo (seeds 1, 2, 3)"


def test_what_differs_is_named_apart():
    cells = ["a default 1", "b default 1", "a dppo 1", "a default 2", "b default 2", "c default 2"]
    assert group_cells(cells) == (
        "a: default (seeds 1, 2), dppo (seed 1); b: default (seeds 1, 2); c: default (seed 2)"
    )


def test_no_cells_have_no_names():
    assert group_cells([]) == ""
