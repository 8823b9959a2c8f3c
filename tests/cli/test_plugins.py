"""Packages of others on the command line: what they break is told in a line, and breaks no more."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from small_plugin import FILES, POINTS, Plugins, plugins, sweep
from small_runs import EXPERIMENT

from robo_rl.cli.main import main
from robo_rl.config import registry
from robo_rl.config.component import Component
from robo_rl.config.models import compose, validate
from robo_rl.config.search_path import available_configs
from robo_rl.train.pipeline.experiment import Experiment

__all__ = ["plugins"]

EXPERT = (
    "    def expert(self, num_envs, generator, noise):\n        return 1 / 0\n\n    def control"
)
BROKEN = {"__init__.py": "1 / 0\n"}
LIFT = {"tasks": {"lift_cube": "Sweep", "reach": "Sweep"}}
UNFINISHED = """\
from robo_rl.config.registry import load
from robo_rl_tasks.arm import ArmTask

class Unfinished(ArmTask):
    def __init__(self):
        super().__init__(load("robots", "panda"), 2.0, start=(), start_noise=0.0)

    def scene(self, *args):
        "Never asked."

    reset = reward = terminated = success = scene
"""
AFTER_AN_IMPORT = "from no_such_simulator import step\n"


def experiment(folder: Path, **changes: object) -> str:
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump({**EXPERIMENT, "task": "sweep", **changes}, sort_keys=False))
    return str(path)


def ran(argv: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = main(argv)
    return status, capsys.readouterr().err


def task_of(path: str, *overrides: str) -> Component:
    task = validate(compose(path, list(overrides)), Experiment).task
    assert task is not None
    return task


def told(err: str) -> str:
    """The one line behind what the progress said."""
    (line,) = [line for line in err.splitlines() if not line.startswith("record: ")]
    return line


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    def run(*words: str) -> tuple[int, str]:
        return ran(["run", experiment(tmp_path), *words, "--out", str(tmp_path / "runs")], capsys)

    return run


def test_what_a_plugin_raises_is_one_line_with_method_file_and_line(plugins: Plugins, run):
    plugins.install(files=sweep(("    def control", EXPERT)))
    status, err = run()
    line = told(err)
    assert status == 2
    assert line.startswith(
        "robo-rl: Sweep.expert of the distribution 'acme-tasks': raises ZeroDivisionError:"
        " division by zero at "
    )
    assert "acme_tasks/__init__.py:" in line
    status, err = run("--debug")
    assert status == 2
    assert "Traceback" in err


def test_an_import_inside_of_a_plugin_is_its_own(plugins: Plugins, run):
    late = EXPERT.replace("return 1 / 0", AFTER_AN_IMPORT.strip())
    plugins.install(files=sweep(("    def control", late)))
    status, err = run()
    assert status == 2
    assert "raises ModuleNotFoundError: No module named 'no_such_simulator'" in told(err)


def test_what_a_base_class_of_ours_lacks_is_told_of_the_plugin(plugins: Plugins, run):
    points = {"tasks": {"sweep": "Unfinished"}}
    plugins.install("acme-tasks", {"__init__.py": UNFINISHED}, points)
    status, err = run()
    assert status == 2
    assert told(err).startswith("robo-rl: Unfinished.__init__ of the distribution 'acme-tasks'")
    assert "raises NotImplementedError at" in err


def test_all_that_is_wrong_with_a_task_is_told_before_anything_runs(
    plugins: Plugins, run, tmp_path: Path
):
    changes = [("> 0.98", "* 0.5"), ('return -gap, {"gap": gap}', "return -gap")]
    quiet = ("    def control", EXPERT.replace("1 / 0", "None"))
    plugins.install(files=sweep(*changes, quiet))
    status, err = run()
    assert status == 2
    assert [line.split(" (")[0] for line in err.splitlines()] == [
        "robo-rl: task Sweep, reward",
        "task Sweep, success",
        "task Sweep, terminated",
    ]
    assert not list((tmp_path / "runs").rglob("*.zarr"))


@pytest.mark.parametrize("missing", ["dt_s", "episode_s"])
def test_a_task_without_an_attribute_is_told_by_the_check_of_tasks(
    plugins: Plugins, run, missing: str
):
    """And not by the digest of its world, which is taken before."""
    names = "self.open_loop, self.dt_s, self.episode_s"
    plugins.install(files=sweep((names, names.replace(f"self.{missing}", "unused"))))
    status, err = run()
    assert status == 2
    assert err.startswith("robo-rl: task Sweep")
    assert missing in err


SLOW_COUNT = """\
import torch
from robo_rl import ActSpec, ConfigModel, ObsSpec, TensorSpec


class Count:
    class Config(ConfigModel):
        "It has none."

    def __init__(self, cfg, num_envs):
        self.num_envs, self.device = num_envs, torch.device("cpu")
        self.obs_spec = ObsSpec(items={"count": TensorSpec(shape=(1,))})
        self.act_spec = ActSpec(shape=(1,), low=(-1.0,), high=(1.0,), rate_hz=10)
        self.max_episode_steps = 5

    def reset(self, seed=None):
        return {"count": torch.zeros(self.num_envs, 1)}

    step = close = reset
"""


def test_an_env_without_an_attribute_is_told_by_name(plugins: Plugins, run):
    plugins.install("acme-envs", {"__init__.py": SLOW_COUNT}, {"envs": {"count": "Count"}})
    status, err = run("env=count", "task=null")
    assert status == 2
    assert "robo-rl: env 'count': lacks attributes of VecEnv; expected dt_s: Real" in told(err)


def test_a_class_that_takes_other_arguments_is_told_with_both(plugins: Plugins, run):
    source = SLOW_COUNT.replace("cfg, num_envs)", "cfg, task, robot, num_envs)")
    plugins.install("acme-envs", {"__init__.py": source}, {"envs": {"count": "Count"}})
    status, err = run("env=count", "task=null")
    assert status == 2
    said = "robo-rl: env 'count': takes other arguments than it is given; expected a call with"
    assert said in told(err)
    assert "found Count(cfg, task, robot, num_envs)" in told(err)


def test_a_verb_of_a_plugin_runs(plugins: Plugins, capsys: pytest.CaptureFixture[str]):
    source = "def run(number: int):\n    'Double a number.'\n    print(2 * number)\n"
    plugins.install("acme-verbs", {"__init__.py": source}, {"verbs": {"double": "run"}})
    assert main(["double", "21"]) == 0
    assert capsys.readouterr().out == "42\n"
    assert main(["doubel"]) == 2
    assert "did you mean 'double'?" in capsys.readouterr().err


def test_a_group_of_verbs_of_a_plugin_keeps_its_help(
    plugins: Plugins, capsys: pytest.CaptureFixture[str]
):
    source = (
        "import typer\ngroup = typer.Typer(help='Measure offsets of joints.')\n"
        "@group.command()\ndef arm(): print('measured')\n"
        "@group.command()\ndef hand(): print('measured')\n"
    )
    plugins.install("acme-verbs", {"__init__.py": source}, {"verbs": {"measure": "group"}})
    main(["measure", "-h"])
    assert "Measure offsets of joints." in capsys.readouterr().out


def test_configs_of_a_plugin_are_found_by_name(
    plugins: Plugins, capsys: pytest.CaptureFixture[str]
):
    module = plugins.install("acme-tasks", FILES, POINTS)
    entry = plugins.folder / f"{module}-1.0.dist-info" / "entry_points.txt"
    entry.write_text(entry.read_text() + f"\n[robo_rl.configs]\nacme = {module}.configs\n")
    registry._found.cache_clear()
    folder = plugins.folder / module / "configs" / "experiment"
    assert main(["doctor", "plugins"]) == 1
    said = f"configs of acme-tasks: '{module}.configs' is no package of YAML files"
    assert said in capsys.readouterr().out
    assert compose("demo", []).values  # and nothing else is in the way
    folder.mkdir(parents=True)
    (folder / "sweeping.yaml").write_text("base: [demo]\nname: sweeping\ntask: sweep\n")
    (folder / "demo.yaml").write_text("name: another\n")  # ours has precedence
    composed = compose("sweeping", []).values
    assert composed["task"] in ("sweep", {"name": "sweep"})
    assert compose("demo", []).values["name"] != "another"
    assert main(["list", "configs"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["configs", "experiment/sweeping", "acme-tasks"] in [row[:3] for row in rows]


@pytest.mark.parametrize("package", ["json.decoder", "no_such_package.configs", "acme_tasks"])
def test_configs_that_are_no_package_are_left_out(
    plugins: Plugins, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A module has no folder of its own; the working folder is not taken instead."""
    module = plugins.install("acme-tasks", FILES, POINTS)
    entry = plugins.folder / f"{module}-1.0.dist-info" / "entry_points.txt"
    entry.write_text(entry.read_text() + f"\n[robo_rl.configs]\nacme = {package}\n")
    registry._found.cache_clear()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs").mkdir()
    (tmp_path / "stray.yaml").write_text("name: stray\n")
    found = available_configs()
    assert "stray" not in found
    assert "experiment/demo" in found


def test_our_own_mistakes_keep_their_traceback(monkeypatch: pytest.MonkeyPatch, plugins: Plugins):
    plugins.install()
    monkeypatch.setattr("robo_rl.cli.list.run", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["list"])


def test_a_broken_package_breaks_nothing_else(
    plugins: Plugins, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    plugins.install("broken", BROKEN, {**POINTS, **{"stages": {"bc": "X"}, "envs": {"sim": "X"}}})
    for info in plugins.folder.glob("*.dist-info"):
        (info / "METADATA").unlink()  # half uninstalled
    assert main(["list"]) == 0
    assert "sweep" in capsys.readouterr().out
    assert main(["config", experiment(tmp_path, task="reach")]) == 0
    assert main(["doctor", "plugins"]) == 1
    shown = capsys.readouterr().out
    assert "FAIL" in shown
    assert "broken/__init__.py:1: ZeroDivisionError" in shown
    assert main(["config", experiment(tmp_path)]) == 2
    assert "broken/__init__.py:1: ZeroDivisionError" in capsys.readouterr().err


def test_a_built_in_name_stays_ours_and_the_other_is_qualified(
    plugins: Plugins, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    plugins.install("acme-tasks", FILES, LIFT)
    assert main(["list", "tasks"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert ["tasks", "lift_cube", "robo-rl", "robo_rl_tasks.lift_cube:LiftCube"] in rows
    assert ["tasks", "acme-tasks:lift_cube", "acme-tasks", "acme_tasks:Sweep"] in rows
    assert main(["doctor", "plugins"]) == 0
    shown = capsys.readouterr().out
    assert "tasks.lift_cube is of several distributions: acme-tasks:lift_cube, lift_cube" in shown
    path = experiment(tmp_path, task={"name": "lift_cube"})
    with pytest.warns(UserWarning, match="is that of robo-rl; others are named acme-tasks:lift_cu"):
        assert task_of(path).cls.__name__ == "LiftCube"


@pytest.mark.parametrize("written", ["task=acme-tasks:reach", "task={name: acme-tasks:reach}"])
def test_a_qualified_name_is_one_in_files_and_overrides(
    plugins: Plugins, tmp_path: Path, written: str
):
    plugins.install("acme-tasks", FILES, LIFT)
    plain = experiment(tmp_path, task={"name": "ppo"})
    by_override = task_of(plain, written)
    Path(plain).write_text(
        Path(plain)
        .read_text()
        .replace("task:\n  name: ppo\n", f"{written.replace('=', ': ', 1)}\n")
    )
    in_file = task_of(plain)
    for task in (by_override, in_file):
        assert (task.name, task.cls.__name__) == ("acme-tasks:reach", "Sweep")
