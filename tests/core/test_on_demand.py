"""A package that imports what it offers when it is asked for it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

INIT = """\
from robo_rl.core.on_demand import on_demand

__getattr__, __dir__ = on_demand(__name__, {"lazy.inner": ("THING",)})
"""


def test_a_module_is_imported_once_and_when_a_name_of_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    package = tmp_path / "lazy"
    package.mkdir()
    (package / "__init__.py").write_text(INIT)
    (package / "inner.py").write_text("THING = []\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import lazy  # pyright: ignore[reportMissingImports]

    assert "THING" in dir(lazy)
    assert "lazy.inner" not in sys.modules
    found = lazy.THING
    assert found is sys.modules["lazy.inner"].THING
    assert vars(lazy)["THING"] is found
    with pytest.raises(AttributeError, match="'lazy' has no attribute 'OTHER'"):
        _ = lazy.OTHER
    for name in ("lazy", "lazy.inner"):
        monkeypatch.delitem(sys.modules, name)
