"""Each way of damaging a run is one typed error, exit status 2, and costs nothing else."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from small_runs import EXPERIMENT, STAGES, Ended, Runner, write_experiment

from robo_rl.bundle.bundle import Bundle


@pytest.fixture
def out(road: Any, tmp_path: Path) -> Path:
    """The folder of a finished run, to be damaged."""
    shutil.copytree(road.out, tmp_path / "runs")
    return tmp_path / "runs"


@pytest.fixture
def again(runner: Runner, road: Any, out: Path):
    """The command of the run, on its damaged folder."""
    return lambda **how: runner.run("run", road.config, "--out", out, **how)


def undo(out: Path, first: str) -> None:
    """Take back the stages from ``first`` on."""
    for place in sorted((out / "tiny").glob("0*")):
        if place.name >= first:
            shutil.rmtree(place)


def check_error(ended: Ended, *says: str) -> None:
    assert ended.status == 2, ended.output
    assert "Traceback" not in ended.output
    (message,) = re.split(r"^robo-rl: (?!warning: )", ended.output, flags=re.MULTILINE)[1:]
    assert all(text in message for text in says), message


def cut(path: Path, share: float = 0.5) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("task=lift_cub", ["unknown task 'lift_cub'", "did you mean 'lift_cube'"]),
        ("policy.horizn=3", ["policy.horizn: unknown key", "did you mean 'horizon'"]),
        ("stages.bc.steps=many", ["stages.bc.steps: expected", "'many'"]),
        ("eval.episodes=0", ["eval.episodes"]),
        ("policy.exec_horizon=9", ["policy: exec_horizon 9 is beyond horizon 4"]),
        ("policy.finetune_steps=3", ["policy: more steps to fine-tune", "num_steps 2"]),
        ("policy.relative_to=typo", ["policy.relative_to: no observation for actions", "typo"]),
    ],
)
def test_a_wrong_setting(runner: Runner, road: Any, tmp_path: Path, override: str, says: list[str]):
    check_error(runner.run("run", road.config, override, "--out", tmp_path / "new"), *says)
    assert not (tmp_path / "new").exists()


def test_the_installed_command_says_it_too(tmp_path: Path):
    config = write_experiment(tmp_path, task={"name": "lift_cub"})
    done = subprocess.run(
        [sys.executable, "-m", "robo_rl", "run", str(config), "--out", str(tmp_path / "runs")],
        capture_output=True,
        text=True,
        check=False,
    )
    check_error(Ended(done.returncode, done.stdout + done.stderr), "tiny.yaml:", "lift_cube")


def test_another_config_in_the_same_directory(runner: Runner, road: Any, out: Path):
    ended = runner.run("run", road.config, "seed=5", "--out", out)
    check_error(
        ended, "00-collect", "another configuration", "seed: 0 → 5", "give the run another name="
    )


def test_a_stage_that_was_refused_does_not_stand_in_the_way(
    runner: Runner, out: Path, tmp_path: Path
):
    """Its env differs from the policy's, which shows when the stage has begun."""
    shutil.copytree(out / "tiny" / "01-bc", tmp_path / "same")
    stages = {"policy": {"path": str(out / "tiny" / "01-bc")}}
    task = {**EXPERIMENT["task"], "robot": "so101"}
    config = write_experiment(tmp_path, name="new", stages=stages, waive={}, task=task)
    check_error(runner.run("run", config, "--out", out), "other arrays than the env has")
    place = out / "new" / "00-policy"
    assert (place / "digest").exists()
    (place / ".tmp-seconds-ab12").write_text("1.0")  # of a writer that was killed
    other = f"stages.policy.path={tmp_path / 'same'}"
    check_error(runner.run("run", config, other, "--out", out), "other arrays than the env has")
    (place / "half").write_text("")
    ended = runner.run("run", config, "--out", out)
    check_error(ended, "00-policy", "another configuration")


def test_a_stage_without_its_run_cannot_be_evaluated(runner: Runner, out: Path, tmp_path: Path):
    shutil.copytree(out / "tiny" / "01-bc", tmp_path / "copy")
    check_error(runner.run("eval", tmp_path / "copy"), "config.yaml of the run is missing")


def test_a_failed_gate(runner: Runner, tmp_path: Path):
    task = {**EXPERIMENT["task"], "success_m": 0.03}
    stages = {**STAGES, "bc": {**STAGES["bc"], "steps": 1}}
    config = write_experiment(tmp_path, task=task, stages=stages, waive={})
    file = tmp_path / "numbers.json"
    ended = runner.run("run", config, "--out", tmp_path / "runs", "--json", file)
    check_error(ended, "stage 'bc' did not pass 'learnt'", "waive.bc='why'")
    told = {stage["stage"]: stage["status"] for stage in json.loads(file.read_text())["stages"]}
    assert told == {"collect": "passed", "bc": "failed"}


def test_a_stage_without_its_mark_and_a_folder_that_is_a_file(again, out: Path, runner: Runner):
    (out / "tiny" / "01-bc" / "digest").unlink()
    check_error(again(), "01-bc/digest", "put it back, or remove", "01-bc to run the stage again")
    (out / "file").write_text("")
    ended = runner.run("run", "demo", "--out", out / "file")
    check_error(ended, "file: cannot be used", "name another --out")


def test_what_is_asked_for_by_another_name_is_named(runner: Runner, out: Path):
    suite = runner.run("run", "suite/cloning")
    check_error(suite, "suite: is a suite of experiments; robo-rl bench runs it")
    check_error(runner.run("run", "lift_cube"), "no config 'lift_cube'", "it is a task: ")
    check_error(
        runner.run("bench", "demo"), "no suite 'demo'", "it is an experiment: robo-rl run demo"
    )
    bundle = out / "tiny" / "04-export" / "bundle"
    bundle.mkdir(parents=True)
    (bundle / "manifest.json").write_text("{}")
    ended = runner.run("eval", out / "tiny")
    check_error(ended, "tiny: holds no policy", "tiny/01-bc or ", "04-export/bundle")
    check_error(runner.run("eval", out / "tiny" / "04-export"), "evaluate ", "04-export/bundle")


def test_a_value_that_is_to_be_given_is_asked_for_once(runner: Runner, road: Any, tmp_path: Path):
    ended = runner.run("run", road.config, "stages.collect.episodes=???", "--out", tmp_path)
    check_error(ended, "stages.collect.episodes: a value is needed")
    assert "expected" not in ended.output


def test_a_name_is_told_what_it_may_be(runner: Runner, road: Any, tmp_path: Path):
    ended = runner.run("run", road.config, "name=../x", "--out", tmp_path)
    check_error(ended, "name: expected text of the pattern '^[A-Za-z0-9_]", "found '../x' (str)")
    ended = runner.run("run", road.config, f"name={'x' * 300}", "--out", tmp_path)
    check_error(ended, "name: ", "200 characters")


@pytest.mark.parametrize("damage", [cut, flip])
def test_a_damaged_policy(again, out: Path, damage: Any):
    undo(out, "02")
    damage(out / "tiny" / "01-bc" / "policy" / "tensors.safetensors")
    check_error(again(), "01-bc/policy/tensors.safetensors")


def test_a_policy_whose_description_is_damaged(again, out: Path):
    undo(out, "02")
    cut(out / "tiny" / "01-bc" / "policy" / "meta.json")
    check_error(again(), "01-bc/policy/meta.json")


def test_damaged_checkpoints(again, out: Path):
    undo(out, "03")
    (out / "tiny" / "02-online" / "report.json").unlink()
    for file in (out / "tiny" / "02-online" / "ckpt").glob("*/tensors.safetensors"):
        cut(file)
    check_error(again(), "02-online/ckpt", "none of the checkpoints can be read", "truncated")


def test_a_damaged_checkpoint_costs_the_way_from_the_one_before(again, road: Any, out: Path):
    undo(out, "03")
    (out / "tiny" / "02-online" / "report.json").unlink()
    cut(out / "tiny" / "02-online" / "ckpt" / "000002" / "tensors.safetensors")
    ended = again()
    assert ended.status == 0, ended.output
    numbers = [
        json.loads((root / "tiny" / "03-distill" / "report.json").read_text())["numbers"]
        for root in (out, road.out)
    ]
    assert numbers[0] == numbers[1]


@pytest.mark.parametrize("damage", [cut, flip, Path.unlink])
def test_a_corrupted_chunk_of_the_dataset(again, runner: Runner, out: Path, damage: Any):
    undo(out, "01")
    chunk = next((out / "tiny" / "00-collect" / "data.zarr" / "act").glob("c.1*"))
    damage(chunk)
    check_error(again(), "data.zarr", "repair")
    ended = runner.run("data", "verify", out / "tiny" / "00-collect" / "data.zarr")
    assert ended.status == 2
    assert chunk.name in ended.output


@pytest.mark.parametrize("content", ["", "{", '{"stage": 1}'])
def test_a_damaged_report(again, out: Path, content: str):
    (out / "tiny" / "01-bc" / "report.json").write_text(content)
    check_error(again(), "01-bc/report.json", "not a stage report", "delete it to run again")


@pytest.mark.parametrize(
    "file",
    [
        pytest.param("config.yaml", marks=pytest.mark.slow),
        pytest.param("00-collect/data.zarr/zarr.json", marks=pytest.mark.slow),
        pytest.param("01-bc/ckpt/000020/tensors.safetensors", marks=pytest.mark.slow),
        "02-online/ckpt/000002/tensors.safetensors",
    ],
)
def test_a_full_disk_loses_nothing(runner: Runner, road: Any, tmp_path: Path, file: str):
    """The disk is full one byte before the end of a file, each larger than all before it.

    The first run has no stages behind that file's, so that its config is smaller, too.
    """
    out = tmp_path / "runs"
    labels = list(STAGES)[: int(file[:2]) + 1] if "/" in file else list(STAGES)
    stages = {name: STAGES[name] for name in labels}
    waive = dict.fromkeys(labels, "too short to pass")
    upto = write_experiment(tmp_path, stages=stages, waive=waive)
    size = (road.directory / file).stat().st_size
    ended = runner.run("run", upto, "--out", out, file_bytes=size - 1)
    where = f"tiny/{file.split('/', 2)[0]}" if "/" in file else "tiny"
    check_error(ended, where, "File too large", "free space")
    kept = {path: path.stat().st_mtime_ns for path in out.glob("tiny/0*/report.json")}
    ended = runner.run("run", road.config, "--out", out)
    assert ended.status == 0, ended.output
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in kept.items())
    numbers = [
        json.loads((root / "tiny" / "03-distill" / "report.json").read_text())["numbers"]
        for root in (out, road.out)
    ]
    assert numbers[0] == numbers[1]


@pytest.fixture
def bundle(exported: Any) -> Path:
    return exported.directory / "04-export" / "bundle"


def test_a_bundle_that_was_altered(runner: Runner, bundle: Path, tmp_path: Path):
    for name in ("manifest.json", "policy.onnx"):
        altered = tmp_path / name
        shutil.copytree(bundle, altered)
        flip(altered / name)
        check_error(runner.run("eval", altered), name, "altered")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"robot": "so101"}, "robot: expected so101, found panda"),
        ({"act": {"rate_hz": 10.0}}, "act rate_hz: expected 10, found 20"),
        ({"act": {"unit": "deg"}}, "act unit: expected deg, found rad"),
    ],
)
def test_a_bundle_whose_contract_does_not_match(
    runner: Runner, bundle: Path, tmp_path: Path, changes: dict[str, Any], says: str
):
    """As a bundle is that was made before the task was changed."""
    found = Bundle.load(bundle)
    contract = found.manifest.contract
    act = contract.act.model_copy(update=changes.get("act", {}))
    contract = contract.model_copy(update={**changes, "act": act})
    manifest = found.manifest.model_copy(update={"contract": contract})
    files = {name: bundle / name for name in found.manifest.files}
    Bundle.write(tmp_path / "other", manifest, files)
    check_error(runner.run("eval", tmp_path / "other"), "does not match in 1 place", says)
