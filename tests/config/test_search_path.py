"""Configs of plugins are found where their package is, without an import of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from robo_rl.config.search_path import _folder_of


def test_a_namespace_package_is_searched_in_all_of_its_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Two distributions share a namespace, and the second has the configs."""
    (tmp_path / "one" / "acme_shared" / "robots").mkdir(parents=True)
    (tmp_path / "two" / "acme_shared" / "tasks" / "configs").mkdir(parents=True)
    for root in ("two", "one"):
        monkeypatch.syspath_prepend(tmp_path / root)
    assert _folder_of("acme_shared.tasks.configs") == tmp_path / "two/acme_shared/tasks/configs"
    assert _folder_of("acme_shared.none") is None
