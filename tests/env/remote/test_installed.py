"""What an adapter imports is found in its interpreter, and source without a version counts too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from robo_rl.env.remote.fingerprint import _versions, remote_fingerprint


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The packages of an interpreter that has nothing installed: ``tmp_path/venv``."""
    venv = [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")]
    subprocess.run(venv, check=True)
    (found,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    return found


def install(site: Path, name: str, *, needs: str = "", folder: Path | None = None) -> Path:
    """Write the metadata of a distribution with one module; return the module's file."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    requires = f"Requires-Dist: {needs}\n" if needs else ""
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{requires}")
    (info / "top_level.txt").write_text(f"{name}\n")
    if folder is not None:
        (info / "direct_url.json").write_text(
            json.dumps({"url": folder.as_uri(), "dir_info": {"editable": True}})
        )
        (site / f"{name}.pth").write_text(f"{folder}\n")
    package = (folder or site) / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("a = 1\n")
    return package / "__init__.py"


def found(tmp_path: Path, source: str) -> dict[str, str]:
    adapter = tmp_path / "mine_world.py"
    adapter.write_text(source)
    _versions.cache_clear()
    python = str(tmp_path / "venv" / "bin" / "python")
    return dict(remote_fingerprint(str(adapter), python, own=True).versions)


def test_every_imported_name_is_seen(site: Path, tmp_path: Path):
    for name in ("one", "two", "three", "four", "five"):
        install(site, name)
    source = (
        "import os, one, two.part as t\nfrom importlib import import_module\n"
        "def make_one():\n    from three import a; import_module('four.part')\n"
        "text = '''\nimport five\n'''\n"
    )
    assert found(tmp_path, source) == dict.fromkeys(("one", "two", "three", "four"), "1.0")


def test_the_source_of_an_editable_package_counts(site: Path, tmp_path: Path):
    file = install(site, "mine", folder=tmp_path / "project")
    before = found(tmp_path, "import mine\n")
    assert before["mine"].startswith("1.0 source ")
    file.write_text("a = 2\n")
    after = found(tmp_path, "import mine\n")
    assert before.keys() == after.keys() == {"mine"}
    assert before != after


def test_a_requirement_may_be_editable_too(site: Path, tmp_path: Path):
    install(site, "outer", needs="inner>=1")
    file = install(site, "inner", folder=tmp_path / "project")
    before = found(tmp_path, "import outer\n")
    file.with_name("part.py").write_text("")
    after = found(tmp_path, "import outer\n")
    assert before["outer"] == after["outer"] == "1.0"
    assert before["inner"] != after["inner"]


@pytest.mark.parametrize("where", ["on the path", "beside the adapter"])
def test_the_source_of_a_module_without_a_distribution_counts(
    site: Path, tmp_path: Path, where: str
):
    file = (site if where == "on the path" else tmp_path) / "loose.py"
    file.write_text("a = 1\n")
    before = found(tmp_path, "import loose, nowhere\n")
    file.write_text("a = 2\n")
    after = found(tmp_path, "import loose, nowhere\n")
    assert before.keys() == after.keys() == {"loose"}
    assert before != after
