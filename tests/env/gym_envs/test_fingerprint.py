"""The package behind an id is found without the env, and its lack is left to the env to tell."""

from __future__ import annotations

import importlib
import os
import struct
import sys
from pathlib import Path

import pytest

from robo_rl.config.component import component
from robo_rl.env.gym_envs.fingerprint import _class_module, gym_fingerprint
from robo_rl.train.pipeline.world_digest import _of_component

ARM = """<mujoco><include file="parts.xml"/><worldbody>
<body><joint/><geom type="mesh" mesh="link"/></body></worldbody></mujoco>"""
PARTS = (
    '<mujoco><option timestep=".004"/><asset><mesh name="link" file="link.stl"/></asset></mujoco>'
)
REGISTERS = (
    "import gymnasium\ngymnasium.register('Peg-v0', 'peg_classes.envs:Peg')\nprint('Hello')\n"
)


@pytest.fixture(autouse=True)
def _fresh():
    _class_module.cache_clear()


def test_a_registered_env_names_its_module_and_versions():
    found = gym_fingerprint("Pendulum-v1", "")
    assert found.sources == ("gymnasium.envs.classic_control.pendulum",)
    assert "gymnasium" in found.versions


def test_without_gymnasium_and_for_an_unknown_id_there_is_nothing_to_name(
    monkeypatch: pytest.MonkeyPatch,
):
    assert gym_fingerprint("Nowhere-v0", "").sources == ()
    _class_module.cache_clear()
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    assert gym_fingerprint("Pendulum-v1", "").sources == ()


def test_it_does_not_depend_on_what_this_process_has_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    gymnasium = pytest.importorskip("gymnasium")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "registers_peg.py").write_text(REGISTERS)
    before = gym_fingerprint("Peg-v0", "registers_peg")
    assert before.sources == ("peg_classes.envs", "registers_peg")
    importlib.import_module("registers_peg")
    _class_module.cache_clear()
    try:
        assert gym_fingerprint("Peg-v0", "registers_peg") == before
        assert gym_fingerprint("registers_peg:Peg-v0", "") == before
    finally:
        gymnasium.registry.pop("Peg-v0")


def tetrahedron(size: float) -> bytes:
    """A mesh in STL's binary format."""
    corners = [(0.0, 0.0, 0.0), (size, 0.0, 0.0), (0.0, size, 0.0), (0.0, 0.0, size)]
    sides = [(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)]
    rows = [(0.0,) * 3 + sum((corners[i] for i in side), ()) for side in sides]
    return bytes(80) + struct.pack("<I", 4) + b"".join(struct.pack("<12fH", *r, 0) for r in rows)


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    """A model in three files."""
    (tmp_path / "arm.xml").write_text(ARM)
    (tmp_path / "parts.xml").write_text(PARTS)
    (tmp_path / "link.stl").write_bytes(tetrahedron(0.1))
    os.utime(tmp_path / "link.stl", (0, 0))  # MuJoCo reads a mesh again where its date differs
    return tmp_path


def world(**kwargs: object) -> dict[str, str]:
    settings = {"name": "gym", "id": "Pendulum-v1", "kwargs": kwargs}
    return dict(_of_component("env", component("envs").make(settings)))


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {part for part in {**before, **after} if before.get(part) != after.get(part)}


@pytest.mark.parametrize("edited", ["arm.xml", "parts.xml", "link.stl"])
def test_an_edited_file_of_a_model_changes_one_part_of_the_world(arm: Path, edited: str):
    pytest.importorskip("mujoco")
    kwargs = {"xml_file": str(arm / "arm.xml"), "other": {"xml": [3, "arm.xml"]}}
    before = world(**kwargs)
    assert world(**kwargs) == before
    if edited == "link.stl":
        (arm / edited).write_bytes(tetrahedron(0.2))
    else:
        text = (arm / edited).read_text()
        (arm / edited).write_text(text.replace("<joint/>", "<freejoint/>").replace(".004", ".005"))
    assert changed(before, world(**kwargs)) == {"simulator version: kwargs.xml_file"}


def test_files_of_any_kind_count_wherever_they_are_named(arm: Path):
    (arm / "table.csv").write_text("1\n")
    (arm / "scene.xml").write_text("<scene/>")
    kwargs = {"tables": [{"file": str(arm / "table.csv")}], "scene": str(arm / "scene.xml")}
    before = world(**kwargs)
    (arm / "table.csv").write_text("2\n")
    assert changed(before, world(**kwargs)) == {"simulator version: kwargs.tables.0.file"}
    before = world(**kwargs)
    (arm / "scene.xml").write_text("<scene />")
    assert changed(before, world(**kwargs)) == {"simulator version: kwargs.scene"}
