"""Fixtures that several folders share."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # helper modules of the tests themselves

from small_runs import EXPORT, Runner, write_experiment


@pytest.fixture
def generator():
    import torch

    return torch.Generator().manual_seed(0)


class Road(NamedTuple):
    """Where the tiny experiment was run: its file, the folder of runs, and its own."""

    config: Path
    out: Path

    @property
    def directory(self) -> Path:
        return self.out / "tiny"


@pytest.fixture(scope="session")
def runner():
    with Runner() as runner:
        yield runner


@pytest.fixture(scope="session")
def road(runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> Road:
    """The stages up to distillation, done; never to be written to."""
    root = tmp_path_factory.mktemp("road")
    config = write_experiment(root)
    ended = runner.run("run", config, "--out", root / "runs")
    assert ended.status == 0, ended.output
    return Road(config, root / "runs")


@pytest.fixture(scope="session")
def exported(runner: Runner, road: Road, tmp_path_factory: pytest.TempPathFactory) -> Road:
    """The road with the stage that exports, which was added when the others were done."""
    root = tmp_path_factory.mktemp("exported")
    shutil.copytree(road.out, root / "runs")
    config = write_experiment(root, **EXPORT)
    ended = runner.run("run", config, "--out", root / "runs", "--json", root / "result.json")
    assert ended.status == 0, ended.output
    return Road(config, root / "runs")


@pytest.fixture(scope="session")
def opengl() -> str:
    """Skips where nothing can be rendered; gives the kind of OpenGL that can."""
    from robo_rl.core.errors import DeviceError
    from robo_rl.env.rendering.offscreen import working_opengl

    try:
        return working_opengl()
    except DeviceError as error:
        pytest.skip(str(error))
