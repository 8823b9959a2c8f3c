"""A place with a suite in its configs folder, to stand in."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_suites import write_suite


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with ``configs/suite/tiny.yaml``, where the test stands."""
    monkeypatch.chdir(tmp_path)
    write_suite(tmp_path)
    return tmp_path
