"""Evaluations that a run has made already."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from small_policies import make_policy
from small_runs import EXPERIMENT, STAGES, write_experiment
from small_world_plugin import Plugin

from robo_rl.config import provenance
from robo_rl.config.models import validate
from robo_rl.train.checkpoint.policies import load_policy
from robo_rl.train.evaluation import eval_cache
from robo_rl.train.evaluation.eval_cache import EvalCache
from robo_rl.train.evaluation.evaluate import EvalProtocol, EvalResult
from robo_rl.train.pipeline import stage
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.run import run_experiment
from robo_rl.train.pipeline.stage import Context
from robo_rl.train.stages.init_policy import InitPolicy


def run(folder: Path) -> dict[str, dict[str, Any]]:
    """Stage → its report, of a small run with a teacher, a student and one who judges."""
    folder.mkdir(exist_ok=True)
    stages = {name: STAGES[name] for name in ("collect", "bc", "online", "distill")}
    waive = dict.fromkeys(stages, "too short to pass")
    config = write_experiment(folder, stages=stages, waive=waive)
    summary = run_experiment(str(config), [], folder / "runs")
    return {report["stage"]: report for report in summary["stages"]}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A mark for every evaluation that is really made."""
    made: list[str] = []
    evaluate = stage.evaluate

    def counted(*args: Any, **fields: Any) -> Any:
        made.append(fields["protocol_hash"])
        return evaluate(*args, **fields)

    monkeypatch.setattr(stage, "evaluate", counted)
    return made


@pytest.mark.slow
def test_what_a_stage_leaves_is_not_evaluated_again_by_the_next(tmp_path: Path, asked: list[str]):
    """The clone, the fine-tuned and the student: three; before RL and the teacher are known."""
    found = run(tmp_path)
    assert len(asked) == 3
    assert found["online"]["numbers"]["success_before"] == found["bc"]["numbers"]["success"]
    assert found["distill"]["numbers"]["teacher_return"] == found["online"]["numbers"]["return"]


@pytest.mark.slow
def test_numbers_are_those_of_a_run_that_keeps_nothing(
    tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
):
    kept = run(tmp_path / "kept")
    first = len(asked)
    init = Context.__init__

    def forgetful(self: Context, *args: Any, **fields: Any) -> None:
        init(self, *args, **{**fields, "caches_evaluations": False})

    monkeypatch.setattr(Context, "__init__", forgetful)
    anew = run(tmp_path / "anew")
    assert len(asked) - first > first
    for name, report in kept.items():
        assert report["numbers"] == anew[name]["numbers"]


@pytest.mark.slow
def test_an_evaluation_goes_with_the_stage_that_made_it(tmp_path: Path, asked: list[str]):
    """The student and the policy that it learns from, whose stage's evaluations are gone."""
    run(tmp_path)
    place = tmp_path / "runs" / "tiny"
    shutil.rmtree(place / "02-online" / "evaluated")
    shutil.rmtree(place / "03-distill")
    run(tmp_path)
    assert len(asked) == 5


@pytest.mark.slow
def test_one_that_is_damaged_is_made_anew(tmp_path: Path, asked: list[str]):
    run(tmp_path)
    evaluated = sorted((tmp_path / "runs" / "tiny").glob("*/evaluated/*.json"))
    assert len(evaluated) == 3
    for path in evaluated:
        path.write_text(path.read_text()[:20])
    report = tmp_path / "runs" / "tiny" / "03-distill" / "report.json"
    before = json.loads(report.read_text())["numbers"]
    report.unlink()
    again = run(tmp_path)["distill"]["numbers"]
    assert len(asked) == 5
    assert {name: before[name] for name in before} == again


def test_other_code_of_a_policy_is_another_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """That of plug-ins always, and that of a changed checkout, whose version stays the same."""
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    plugin, tree = Plugin(tmp_path / "site"), {**EXPERIMENT, "waive": {}}
    tree["policy"] = {**EXPERIMENT["policy"], "name": "acme"}
    tree["stages"] = {"scratch": {"num_envs": 2, "steps": 4}}

    settings = validate(tree, Experiment)
    context = Context(settings, tmp_path / "00-scratch", [])
    saved = InitPolicy(settings.stages["scratch"].cfg).run(context).artifacts["policy"]

    def entry() -> str:
        policy = load_policy(context.directory / saved)
        return EvalCache([tmp_path], policy, settings.eval, "0123").paths[0].name

    before = entry()
    assert entry() == before
    plugin.change("acme_policies.py", "    pass", "    more = 1")
    other = entry()
    assert other != before
    dirty = {**provenance.versions(), "robo-rl": "0.1.0+g0123.dirty"}
    monkeypatch.setattr(eval_cache, "versions", lambda: dirty)
    changed = entry()
    monkeypatch.setattr(eval_cache, "source_digest", lambda module: (module, "another"))
    assert len({before, other, changed, entry()}) == 4
    shutil.rmtree(plugin.root)
    plugin.renew()


def test_an_evaluation_that_lost_a_world_is_made_again(tmp_path: Path):
    """A process that died may live next time."""
    cache = EvalCache([tmp_path], make_policy("flow_noise", 2), EvalProtocol(episodes=2), "0123")
    rows = torch.tensor([True, False])
    found = EvalResult(rows, rows.float(), rows.long(), "0123")
    cache.write(found._replace(lost=~rows))
    assert cache.read() is None
    cache.write(found)
    assert cache.read() is not None
