"""What a number was measured in is part of its hash, and named where it is another."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_runs import EXPERIMENT, STAGES
from small_world_plugin import Plugin

from robo_rl.config import registry
from robo_rl.config.models import ConfigTree, validate
from robo_rl.config.provenance import versions
from robo_rl.core.errors import ConfigError, DataError, PluginError
from robo_rl.train.evaluation.evaluate import EvalProtocol, protocol_digest
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.run import run_experiment
from robo_rl.train.pipeline.stage import Report
from robo_rl.train.pipeline.stage_digest import stage_world
from robo_rl.train.pipeline.world_digest import World, changed_parts, describe_changes, world_of

TREE: dict[str, Any] = {
    **EXPERIMENT,
    "task": {**EXPERIMENT["task"], "name": "touch", "robot": "acme_arm"},
    "policy": {**EXPERIMENT["policy"], "name": "acme"},
    "stages": {"collect": STAGES["collect"], "bc": {**STAGES["bc"], "steps": 2}},
    "waive": dict.fromkeys(("collect", "bc"), "too short to pass"),
}
ARM, TASK = "acme_robots/arm/robot.yaml", "acme_tasks/touch.py"
PRINT = """
import json, sys
from robo_rl.config.models import validate
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.world_digest import world_of
print(json.dumps(world_of(validate(json.loads(sys.argv[1]), Experiment))))
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plugin]:
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    made = Plugin(tmp_path / "site")
    yield made
    shutil.rmtree(made.root)
    made.renew()


def experiment(**changes: Any) -> Experiment:
    return validate({**TREE, **changes}, Experiment)


def world(**changes: Any) -> World:
    return world_of(experiment(**changes))


def protocol(parts: World) -> str:
    settings = experiment()
    return protocol_digest(settings.eval, settings.world(), 4, parts)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ((ARM, "kp: [1200,", "kp: [120,"), ["robot"]),
        ((ARM, "physics_hz: 200", "physics_hz: 400"), ["physics", "robot"]),
        (("acme_robots/arm/panda.xml", 'mass="', 'mass="1'), ["robot"]),
        (("assets/post.obj", "0.3", "0.4"), ["scene"]),
        ((TASK, "1.0 * rew", "2.0 * rew"), ["task source: acme_tasks"]),
        (
            (TASK, "return spec", "spec.option.impratio = 9.0\n        return spec"),
            ["physics", "task source: acme_tasks"],
        ),
    ],
    ids=["gains", "rate", "mass", "mesh", "reward", "options"],
)
def test_every_change_of_the_world_is_named_and_changes_the_hash(
    plugin: Plugin, change: tuple[str, str, str], parts: list[str]
):
    before = world()
    plugin.change(*change)
    assert changed_parts(before, world()) == parts
    assert protocol(world()) != protocol(before)


def test_a_plugin_of_another_version_is_named_with_both(plugin: Plugin):
    before = world()
    plugin.release("acme-tasks", "1.1")
    assert describe_changes(before, world()) == "plugin version: acme-tasks: 1.0 → 1.1"
    assert protocol(world()) != protocol(before)


def test_settings_are_parts_too(plugin: Plugin):
    before = world()
    task = {**TREE["task"], "success_m": 0.2}
    assert changed_parts(before, world(task=task)) == ["task settings"]
    env = {"name": "latency", "env": "sim"}
    assert "env settings" in changed_parts(before, world(env=env))
    assert {"simulator version: mujoco", "scene"} <= world(env=env).keys()


def test_an_env_that_says_nothing_is_its_source_its_version_and_its_settings(plugin: Plugin):
    before = world(task=None, env={"name": "bare"})
    assert [*before] == ["env settings", "env source: acme_envs", "plugin version: acme-envs"]
    assert changed_parts(before, world(task=None, env={"name": "bare", "level": 2})) == [
        "env settings"
    ]
    plugin.change("acme_envs.py", "nothing is", "so little is")
    after = world(task=None, env={"name": "bare"})
    assert changed_parts(before, after) == ["env source: acme_envs"]
    plugin.change("acme_envs.py", "    def __init__", "    fingerprint = str\n\n    def __init__")
    with pytest.raises(PluginError, match=r"bare: fingerprint: does not say .* a Fingerprint"):
        world(task=None, env={"name": "bare"})


def test_what_makes_no_other_numbers_changes_nothing(plugin: Plugin):
    """Order of keys, comments of YAML and MJCF, prose, line ends, built and hidden files."""
    before = world()
    plugin.change(ARM, "name: panda\nmjcf: panda.xml\n", "# An arm.\n")
    text = (plugin.root / ARM).read_text()
    text = re.sub(r"source: >-\n(  .*\n)+", "source: mine\n", text)
    plugin.write(ARM, text + "\nmjcf: panda.xml\nname: panda\n")
    plugin.change("acme_robots/arm/panda.xml", "</mujoco>", "<!-- the end --></mujoco>")
    code = plugin.root / "acme_tasks" / "touch.py"
    code.write_bytes(code.read_bytes().replace(b"\n", b"\r\n"))
    os.utime(code, (0, 0))
    plugin.write("acme_tasks/__pycache__/touch.cpython-311.pyc", "x")
    plugin.write("acme_tasks/.cache", "x")
    assert world() == before


def test_another_process_and_another_place_give_the_same(plugin: Plugin, tmp_path: Path):
    shutil.copytree(plugin.root, tmp_path / "elsewhere" / "site")
    path = os.pathsep.join([str(tmp_path / "elsewhere" / "site"), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", PRINT, json.dumps(TREE)],
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "7"},
        cwd=tmp_path / "elsewhere",
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == world()


def test_a_run_goes_on_in_its_world_alone(plugin: Plugin, tmp_path: Path):
    """And says what changed; with that put back it goes on, its policy's plugin in its versions."""
    out, place = tmp_path / "runs", tmp_path / "runs" / "tiny"
    run_experiment(ConfigTree(TREE, {}), [], out, until="collect")
    report = Report.read(place / "00-collect")
    assert report is not None
    assert report.world == world()
    assert json.loads((place / "run.json").read_text())["versions"]["acme-policies"] == "1.0"
    kept = (place / "config.yaml").read_bytes()
    plugin.change(ARM, "kp: [1200,", "kp: [120,")
    with pytest.raises(ConfigError, match=r"00-collect: holds a stage of another world.* robot: "):
        run_experiment(ConfigTree(TREE, {}), [], out)
    assert (place / "config.yaml").read_bytes() == kept
    assert not (place / "01-bc").exists()
    plugin.change(ARM, "kp: [120,", "kp: [1200,")
    assert len(run_experiment(ConfigTree(TREE, {}), [], out)["stages"]) == 2


def test_a_stage_that_was_begun_in_another_world_is_not_gone_on_with(
    plugin: Plugin, tmp_path: Path
):
    place = tmp_path / "runs" / "tiny" / "00-collect"
    run_experiment(ConfigTree(TREE, {}), [], tmp_path / "runs", until="collect")
    (place / "report.json").unlink()
    plugin.release("acme-tasks", "2.0")
    says = "00-collect: holds a stage of another world.* plugin version: acme-tasks: 1.0 → 2.0"
    with pytest.raises(ConfigError, match=says):
        run_experiment(ConfigTree(TREE, {}), [], tmp_path / "runs")


def test_a_run_whose_world_was_not_recorded_is_still_read_and_said_to_be_such(
    plugin: Plugin, tmp_path: Path
):
    place = tmp_path / "runs" / "tiny" / "00-collect"
    run_experiment(ConfigTree(TREE, {}), [], tmp_path / "runs", until="collect")
    body = json.loads((place / "report.json").read_text())
    del body["world"]
    (place / "report.json").write_text(json.dumps(body))
    (place / "world.json").unlink()
    plugin.change("assets/post.obj", "0.3", "0.4")
    result = run_experiment(ConfigTree(TREE, {}), [], tmp_path / "runs", until="collect")
    assert result["stages"][0]["world"] == {}
    page = (tmp_path / "runs" / "tiny" / "report.html").read_text()
    assert re.search(r"<td>world</td>.*?not recorded", page)


def test_a_damaged_record_of_the_world_is_a_data_error(plugin: Plugin, tmp_path: Path):
    run_experiment(ConfigTree(TREE, {}), [], tmp_path / "runs", until="collect")
    (tmp_path / "runs" / "tiny" / "00-collect" / "world.json").write_text("[")
    with pytest.raises(DataError, match=r"world\.json: cannot be read"):
        run_experiment(ConfigTree(TREE, {}), [], tmp_path / "runs")


def test_hashes_without_a_world_stay_as_they_were():
    """Those of results that are kept, which go on being compared with each other."""
    protocol, env = EvalProtocol(episodes=8, num_envs=8), {"env": {"name": "sim"}}
    assert protocol_digest(protocol, env, 4) == "6796d9291390"
    assert protocol_digest(protocol, env, 4, {}) == "6796d9291390"
    assert protocol_digest(protocol, env, 4, {"robot": "a"}) != "6796d9291390"
    assert describe_changes({}, {"robot": "a"}) == ""


def test_the_policy_is_no_part_of_the_world_and_its_plugin_one_of_the_versions(plugin: Plugin):
    assert world(policy=EXPERIMENT["policy"]) == world()
    assert stage_world(experiment(), 0) == world()
    assert registry.loaded_distributions()["acme-policies"] == versions()["acme-policies"] == "1.0"
