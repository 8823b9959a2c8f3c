"""What is spoilt, and what is not."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch
from small_logged import logged_columns

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

CORRUPTED = import_module("corrupted_data")


@pytest.mark.parametrize("kind", CORRUPTED.KINDS)
def test_so_many_rows_of_one_kind_are_wrong_and_all_else_is_as_it_was(kind: str):
    before = {**logged_columns(2000), "next": torch.arange(2000)}
    after = CORRUPTED.corrupt(before, kind, torch.Generator().manual_seed(0))
    column = {"dynamics": "next", "clean": ""}.get(kind, kind)
    for name, x in before.items():
        changed = (after[name] != x).flatten(1 if x.ndim > 1 else 0)
        share = float((changed.any(dim=1) if x.ndim > 1 else changed).float().mean())
        is_it = bool(column) and name.startswith(column) and bool(x.float().std(dim=0).any())
        assert share == (pytest.approx(CORRUPTED.SHARE, abs=0.05) if is_it else 0.0), name
        assert after[name].dtype == x.dtype
