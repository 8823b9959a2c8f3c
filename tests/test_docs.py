"""What README and docs show works: Python runs, YAML composes, commands and links exist."""

from __future__ import annotations

import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import torch

from robo_rl.cli.main import VERBS
from robo_rl.config.models import compose, validate
from robo_rl.config.registry import Component
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.data.normalize import Normalizer
from robo_rl.testing.task import check_task

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), ROOT / "benchmarks" / "README.md"]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.M | re.S)


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Imports a page's Python, all blocks as one module."""

    def load(page: Path) -> Any:
        path = tmp_path / f"shown_in_{page.stem}.py"
        path.write_text("\n".join(blocks(page, "python")))
        spec = spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        monkeypatch.setitem(sys.modules, path.stem, module)
        spec.loader.exec_module(module)
        return module

    return load


def test_the_readmes_task_conforms(python):
    check_task(python(ROOT / "README.md").RaiseHand)


def test_the_docs_tests_pass(python):
    shown = python(ROOT / "docs" / "tasks.md")
    shown.test_my_task_conforms()
    shown.test_my_robot_conforms()
    assert shown.three_pendulums() == ((3, 3), (3,))


def test_the_docs_policy_acts_and_learns(python, generator):
    shown = python(ROOT / "docs" / "policies.md")
    sampler = Component("samplers", "flow_fixed", shown.FlowFixed, shown.FlowFixed.Config())
    obs_spec = ObsSpec(items={"pos": TensorSpec(shape=(3,))})
    act_spec = ActSpec(shape=(2,), rate_hz=20.0, low=(-1.0, -1.0), high=(1.0, 1.0))
    cfg = shown.HuberFlow.Config(sampler=sampler)
    policy = shown.HuberFlow(cfg, obs_spec, act_spec, Normalizer.identity(obs_spec, act_spec))
    obs = {"pos": torch.zeros(4, 1, 3)}
    chain = policy.sample(obs, generator)
    assert chain.log_prob.shape == (4, 4, 8, 2)
    assert policy.loss(obs, chain.act, generator).isfinite().all()


def test_the_docs_stage_has_a_config(python):
    demand = python(ROOT / "docs" / "evidence.md").Demand
    assert demand(demand.Config()).cfg.at_least == 0.8


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_experiments_compose(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from robo_rl.train.pipeline.experiment import Experiment

    monkeypatch.chdir(ROOT)
    for index, block in enumerate(blocks(page, "yaml")):
        text = block if "base:" in block else f"base: [demo]\n{block}"
        path = tmp_path / f"{index}.yaml"
        path.write_text(text)
        validate(compose(path), Experiment)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_verbs_files_and_links_exist(page: Path):
    text = page.read_text()
    verbs = set(re.findall(r"^    (?:\$ )?robo-rl ([a-z-]+)", text, re.M))
    assert verbs <= set(VERBS)
    files = set(re.findall(r"`((?:robo_rl|tests|benchmarks|configs|robots|tasks)/[\w/.]+)`", text))
    links = {(page.parent / link).resolve() for link in re.findall(r"\]\(([\w/.]+)[)#]", text)}
    assert not [path for path in links | {ROOT / file for file in files} if not path.exists()]
