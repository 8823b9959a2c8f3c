"""Sources and versions: content alone, of plugins alone, and never the library's other files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import robo_rl
from robo_rl.config import fingerprint
from robo_rl.config.fingerprint import (
    distributions_of,
    is_plugin,
    source_digest,
    versions_of,
    world_source_digest,
    worlds_read_by,
)
from robo_rl.config.import_closure import mentioned
from robo_rl.core.errors import DeviceError
from robo_rl.env.gym_envs.env import GymEnv, GymEnvConfig
from robo_rl.env.gym_envs.gym_robotics import GymRobotics
from robo_rl.env.gym_envs.metaworld import MetaWorld
from robo_rl.env.remote.env import RemoteConfig, RemoteEnv

ROOT = Path(__file__).parents[2]
MUJOCO, BYTES = "robo_rl.env.mujoco.sim_env", "robo_rl.language.byte_text"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    fingerprint._tree_digest.cache_clear()
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    fingerprint._tree_digest.cache_clear()


def test_a_package_is_all_its_files_and_a_module_one(site: Path):
    write(site / "pack" / "__init__.py", "")
    write(site / "pack" / "below" / "env.py", "a = 1")
    write(site / "alone.py", "a = 1")
    name, before = source_digest("pack.below.env")
    assert name == "pack"
    for file, text in (("below/env.py", "a = 2"), ("table.csv", "1"), ("new.py", "")):
        write(site / "pack" / file, text)
        assert source_digest("pack")[1] != before, file
        before = source_digest("pack")[1]
    write(site / "pack" / "built.so", "1")
    assert source_digest("pack")[1] == before
    name, before = source_digest("alone")
    assert name == "alone"
    write(site / "beside.py", "b = 1")
    assert source_digest("alone")[1] == before
    write(site / "alone.py", "a = 2")
    assert source_digest("alone")[1] not in ("", before)
    assert "pack" not in sys.modules, "nothing is imported"


def test_of_a_namespace_the_package_within_it_counts(site: Path):
    write(site / "space" / "mine" / "env.py", "a = 1")
    write(site / "space" / "others" / "env.py", "a = 1")
    name, before = source_digest("space.mine.env")
    write(site / "space" / "others" / "env.py", "a = 2")
    assert source_digest("space.mine.env") == (name, before) == ("space.mine", before)


def test_what_has_no_source_is_told_by_its_name_alone():
    assert source_digest("no_such_module.at_all") == ("no_such_module", "")
    assert source_digest("sys") == ("sys", "")


def test_of_the_library_only_envs_and_text_encoders_count():
    plugins = ("robo_rl.env.mujoco.sim_env", "robo_rl_tasks.reach", BYTES)
    others = ("robo_rl.train.pipeline.stage", "robo_rl.environs", "torch.nn", "pydantic", "typing")
    assert [*map(is_plugin, plugins)] == [True] * 3
    assert [*map(is_plugin, others)] == [False] * 5
    one, other = "robo_rl.env.mujoco.sim_env", "robo_rl.env.gym_envs.env"
    digests = {world_source_digest(frozenset(each)) for each in ([one], [other], [one, other])}
    assert len(digests) == 3


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the library, whose digests are taken."""
    root = tmp_path / "robo_rl"
    shutil.copytree(Path(fingerprint.__file__).parents[1], root, ignore=lambda *_: ["__pycache__"])
    monkeypatch.setattr(fingerprint, "__file__", str(root / "config" / "fingerprint.py"))
    return root


@pytest.mark.parametrize(
    ("file", "modules", "counts"),
    [
        ("core/rotations.py", [MUJOCO], True),
        ("core/seeding.py", [MUJOCO], True),
        ("core/labels.py", [MUJOCO], True),
        ("env/mujoco/sim_env.py", [MUJOCO], True),
        ("language/byte_text.py", [MUJOCO, BYTES], True),
        ("language/base.py", [MUJOCO, BYTES], True),
        ("language/byte_text.py", [MUJOCO], False),
        ("core/errors.py", [MUJOCO, BYTES], False),
        ("language/sentence_model.py", [MUJOCO, BYTES], False),
    ],
)
def test_what_tasks_compute_with_counts_wherever_it_is(
    library: Path, file: str, modules: list[str], counts: bool
):
    compute = world_source_digest.__wrapped__
    before, path = compute(frozenset(modules)), library / file
    path.write_text(path.read_text() + "\n# changed\n")
    assert (compute(frozenset(modules)) != before) == counts


def test_of_the_core_what_worlds_import_counts_or_computes_no_number():
    """Errors, checks, files and memory; a new module is to be put with these or to be counted."""
    others = {"errors", "file_lock", "memory", "spec", "suggestions"}
    folders = [ROOT / each for each in ("robo_rl/env", "robo_rl/api", "robo_rl/language")]
    folders += [ROOT / each for each in ("tasks/robo_rl_tasks", "robots/robo_rl_robots")]
    where = {name: module for module, names in robo_rl.MODULES.items() for name in names}
    found = set[str]()
    for path in (path for folder in folders for path in folder.rglob("*.py")):
        said = mentioned(path, "robo_rl")
        public = (where.get(name.removeprefix("robo_rl."), "") for name in said)
        found |= {name for name in (*said, *public) if name.startswith("robo_rl.core.")}
    modules = {".".join(name.split(".")[:3]) for name in found}
    assert modules == {*fingerprint.NUMERIC, *(f"robo_rl.core.{name}" for name in others)}


def test_versions_are_of_what_is_installed():
    assert versions_of(["mujoco", "no-such-distribution"]).keys() == {"mujoco"}
    assert distributions_of("gymnasium.envs") == ("gymnasium",)


def test_a_gymnasium_env_is_what_registers_it_and_what_it_is_made_of():
    known = GymEnv.fingerprint(GymEnvConfig(id="Hopper-v5"))
    assert known.sources == ("gymnasium.envs.mujoco.hopper_v5",)
    assert {"gymnasium", "mujoco"} <= known.versions.keys()
    own = GymEnvConfig(id="Faults-v0", import_module="gym_faults")
    assert GymEnv.fingerprint(own).sources == ("gym_faults",)
    assert GymEnv.fingerprint(GymEnvConfig(id="mine.envs:Peg-v0")).sources == ("mine.envs",)


def test_meta_world_is_its_package_too():
    pytest.importorskip("metaworld")
    found = MetaWorld.fingerprint(MetaWorld.Config(task="push-v3"))
    assert found.sources == ("metaworld",)
    assert {"metaworld", "gymnasium", "mujoco"} == found.versions.keys()


def test_gymnasium_robotics_is_its_package_too():
    pytest.importorskip("gymnasium_robotics", reason="Gymnasium-Robotics is not installed")
    found = GymRobotics.fingerprint(GymRobotics.Config())
    assert found.sources == ("gymnasium_robotics",)
    assert {"gymnasium-robotics", "gymnasium", "mujoco"} == found.versions.keys()


def test_a_remote_env_is_its_adapter_and_what_that_imports_there(tmp_path: Path):
    adapter = tmp_path / "mine_world.py"
    write(adapter, "import os\nimport gymnasium\n\ndef make_one():\n    import torch\n")
    found = RemoteEnv.fingerprint(RemoteConfig(adapter=str(adapter)))
    assert found.sources == (str(adapter),)
    assert {"gymnasium", "numpy", "torch"} <= found.versions.keys(), "with what they require"
    assert "pytest" not in found.versions
    assert found.versions["numpy"] == versions_of(["numpy"])["numpy"]
    ours = RemoteEnv.fingerprint(RemoteConfig(adapter="point_mass"))
    assert (ours.sources, [*ours.versions]) == ((), ["numpy"])
    there = RemoteEnv.fingerprint(RemoteConfig(adapter="point_mass", socket="/tmp/none"))
    assert there.versions == {}
    with pytest.raises(DeviceError, match="does not say what is installed"):
        RemoteEnv.fingerprint(RemoteConfig(adapter="point_mass", python=str(tmp_path / "none")))


def test_it_costs_the_library_no_import():
    """``robo_rl.config.fingerprint`` is on the floor of the registry."""
    words = "import sys, robo_rl.config.fingerprint; print({'torch', 'mujoco'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_what_a_plugin_reads_of_our_envs_is_found_in_its_package(site: Path):
    write(site / "mine" / "__init__.py", "")
    write(site / "mine" / "env.py", "def f():\n    from robo_rl.env.warp import backend\n")
    write(site / "mine" / "below" / "old.py", "print 'robo_rl.env.latency_env'")
    write(site / "mine" / "words.py", "from robo_rl.language.base import padded")
    found = worlds_read_by("mine.env")
    words = "robo_rl.language.base.padded"
    assert found == {"robo_rl.env.warp.backend", "robo_rl.env.latency_env", words}
    assert worlds_read_by(str(site / "mine" / "env.py")) == {"robo_rl.env.warp.backend"}
    assert worlds_read_by("no_such_module") == set()
    write(site / "tokenizer.json", '{"robo_rl.env.latency_env": 1}')
    assert worlds_read_by(str(site / "tokenizer.json")) == set()
