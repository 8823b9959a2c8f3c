"""What README and docs show works: Python runs and YAML composes."""

from __future__ import annotations

import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from shown_docs import PAGES, ROOT, blocks, named
from small_export import contract, graph, manifest, policy

from robo_rl.bundle.bundle import Bundle
from robo_rl.bundle.manifest import Manifest
from robo_rl.config.component import Component
from robo_rl.config.models import compose, validate
from robo_rl.core.errors import ConfigError
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.data.normalize import Normalizer
from robo_rl.testing.task import check_task
from robo_rl.train.evaluation.evaluate import EvalResult
from robo_rl.train.pipeline.stage import Report, Stage

__all__ = ["contract", "graph", "manifest", "policy"]

DOCS = ROOT / "docs"
NOT_READ = {
    ("benchmarks/README.md", 0),  # a suite, read by ``tests/bench/suite/test_plan.py``
    ("docs/how-to/vision-language-action.md", 0),  # its base is made of a folder with weights
}
"""Blocks of a known kind, by page and number."""


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Imports a page's Python, all blocks from one on as one module."""

    def load(page: Path, first: int = 0) -> Any:
        path = tmp_path / f"shown_in_{page.stem.replace('-', '_')}.py"
        path.write_text("\n".join(blocks(page, "python")[first:]))
        spec = spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        monkeypatch.setitem(sys.modules, path.stem, module)
        spec.loader.exec_module(module)
        return module

    return load


def test_the_readmes_bundle_acts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manifest: Manifest, graph: bytes
):
    monkeypatch.chdir(tmp_path)
    Bundle.write("runs/demo/04-export/bundle", manifest, {"policy.onnx": graph})
    shown: dict[str, Any] = {}
    exec(blocks(ROOT / "README.md", "python")[0], shown)
    assert shown["chunk"].shape == (1, *shown["contract"].chunk_shape)
    assert np.isfinite(shown["chunk"]).all()


def test_the_readmes_task_conforms_in_few_lines(python):
    check_task(python(ROOT / "README.md", 1).RaiseHand)
    task = blocks(ROOT / "README.md", "python")[1]
    assert len(re.findall(r"^.*\S", task[task.index("class") :], re.M)) <= 20
    assert len((ROOT / "README.md").read_text().splitlines()) <= 180


def test_the_tutorials_task_and_tests_pass(python):
    shown = python(DOCS / "tutorials" / "02-own-task.md")
    check_task(shown.RaiseHand)
    shown.test_my_task_conforms()
    shown.test_my_robot_conforms()


def test_the_docs_gymnasium_env_steps(python):
    shown = python(DOCS / "concepts" / "env-contract.md")
    assert shown.three_pendulums() == ((3, 3), (3,))


def test_the_docs_policy_acts_and_learns(python, generator):
    shown = python(DOCS / "concepts" / "policy-as-chain.md")
    sampler = Component("samplers", "flow_fixed", shown.FlowFixed, shown.FlowFixed.Config())
    obs_spec = ObsSpec(items={"pos": TensorSpec(shape=(3,))})
    act_spec = ActSpec(shape=(2,), rate_hz=20.0, low=(-1.0, -1.0), high=(1.0, 1.0))
    cfg = shown.HuberFlow.Config(sampler=sampler)
    policy = shown.HuberFlow(cfg, obs_spec, act_spec, Normalizer.identity(obs_spec, act_spec))
    obs = {"pos": torch.zeros(4, 1, 3)}
    chain = policy.sample(obs, generator)
    assert chain.log_prob.shape == (4, 4, 8, 2)
    assert policy.loss(obs, chain.act, generator).isfinite().all()
    taken = []
    policy.from_env = lambda obs, act: taken.append(act) or act  # also relative actions are
    policy.loss(obs, chain.act, generator)
    assert torch.equal(taken[0], chain.act)


@pytest.mark.parametrize(("successes", "answer"), [(99, "pass"), (85, "cannot tell"), (50, "fail")])
def test_the_docs_stage_decides_by_the_interval(python, monkeypatch, successes: int, answer: str):
    shown = python(DOCS / "concepts" / "stages-gates-evidence.md")
    assert Stage in shown.Demand.__mro__
    monkeypatch.setattr(shown, "load_policy", lambda path: path)
    success = torch.arange(100) < successes
    result = EvalResult(success, success.double(), torch.ones(100, dtype=torch.int64), "p")
    context: Any = SimpleNamespace(artifact=Path, evaluate=lambda policy, label: result)
    report: Report = shown.Demand(shown.Demand.Config(at_least=0.8)).run(context)
    gate = report.gate
    assert gate is not None
    assert (gate.answer, gate.passed) == (answer, answer == "pass")
    assert report.numbers["success"]["value"] == successes / 100


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_experiments_compose(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from robo_rl.train.pipeline.experiment import Experiment

    monkeypatch.chdir(ROOT)
    for index, block in enumerate(blocks(page, "yaml")):
        text = block if "base:" in block else f"base: [demo]\n{block}"
        path = tmp_path / f"{index}.yaml"
        path.write_text(text)
        validate(compose(path), Experiment)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_what_is_a_part_of_a_file_fits(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Settings of a deployment, mappings of datasets, and experiments that name files."""
    from robo_rl.data.columns.mapping import read_mapping
    from robo_rl_sim2real.node.settings import DeploySettings

    monkeypatch.chdir(tmp_path)  # where no run is
    for index, block in enumerate(blocks(page, "yml")):
        path = tmp_path / f"{index}.yaml"
        if re.match(r"(robot|observe|teleop):", block):
            path.write_text(f"base: [{{'': deploy/panda_lift_cube}}]\n{block}")
            validate(compose(path), DeploySettings)
        elif block.startswith("obs:"):
            path.write_text(block)
            read_mapping(str(path))
        elif (named(page), index) not in NOT_READ:
            path.write_text(block)
            problem = _problem(path)
            assert not problem or "no such folder" in problem  # which comes after all keys


def _problem(path: Path) -> str:
    """What is wrong with an experiment; empty if nothing is."""
    from robo_rl.train.pipeline.experiment import Experiment

    try:
        validate(compose(path), Experiment)
    except ConfigError as error:
        return str(error)
    return ""
