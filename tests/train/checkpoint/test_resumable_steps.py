"""Steps that are broken off and gone on with."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from small_plugin import Plugins, plugins
from torch import nn

from robo_rl.core.errors import CheckpointError
from robo_rl.core.stateful import Stateful
from robo_rl.train.checkpoint.metrics_log import read_metrics
from robo_rl.train.checkpoint.resumable_steps import take_steps
from robo_rl.train.checkpoint.series import CheckpointSeries

__all__ = ["plugins"]


class Walk(Stateful):
    """Adds what is drawn; may break off."""

    state_parts = ("place",)

    def __init__(self, stop_at: int = -1) -> None:
        self.place, self.taken, self.stop_at = torch.zeros(()), 0, stop_at
        self.generator = torch.Generator().manual_seed(0)

    def step(self) -> dict[str, float]:
        self.taken += 1
        if self.taken == self.stop_at:
            raise KeyboardInterrupt
        self.place = self.place + torch.randn((), generator=self.generator)
        return {"place": float(self.place)}


def walked(folder: Path, walk: Walk) -> dict[str, float]:
    return take_steps(folder, "walk", 250, walk, walk.generator, walk.step, checkpoint_every=60)


def test_what_was_broken_off_ends_as_if_it_had_not_been(tmp_path: Path):
    whole = Walk()
    means = walked(tmp_path / "whole", whole)
    with pytest.raises(KeyboardInterrupt):
        walked(tmp_path / "torn", Walk(stop_at=200))
    again = Walk()
    assert walked(tmp_path / "torn", again) == means
    assert torch.equal(again.place, whole.place)
    assert again.taken == 250 - 180  # from the last checkpoint on
    files = [read_metrics(tmp_path / name / "metrics.jsonl") for name in ("whole", "torn")]
    steps = [[(row["step"], row["place"]) for row in rows] for rows in files]
    assert steps[0] == steps[1]


class Layer(Stateful):
    """A network of a width, which takes no step."""

    state_parts = ("net",)

    def __init__(self, width: int) -> None:
        self.net, self.generator = nn.Linear(width, 1), torch.Generator()


def test_a_checkpoint_of_other_code_is_one_typed_error(tmp_path: Path):
    for width in (8, 8):
        layer = Layer(width)
        take_steps(tmp_path, "walk", 1, layer, layer.generator, dict, checkpoint_every=1)
    layer = Layer(16)
    with pytest.raises(CheckpointError, match=r"does not fit the code of today; .*size mismatch"):
        take_steps(tmp_path, "walk", 1, layer, layer.generator, dict, checkpoint_every=1)


def test_what_is_done_is_not_done_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    first = Walk()
    take_steps(tmp_path, "walk", 120, first, first.generator, first.step, checkpoint_every=60)
    again = Walk()
    capsys.readouterr()
    take_steps(tmp_path, "walk", 120, again, again.generator, again.step, checkpoint_every=60)
    assert again.taken == 0
    assert "walk: 120/120 steps" in capsys.readouterr().err
    assert torch.equal(again.place, first.place)


PLUGIN = """\
import torch
from torch import nn

from robo_rl.core.stateful import Stateful


class Learner(Stateful):
    state_parts = ("net",)
    width, flaw = 8, None

    def __init__(self):
        self.net, self.generator = nn.Linear(self.width, 1), torch.Generator()

    def load_state_dict(self, state):
        if self.flaw is not None:
            raise self.flaw
        super().load_state_dict(state)
"""


def test_what_the_code_of_a_plugin_raises_itself_stays_its_own(plugins: Plugins, tmp_path: Path):
    """An older state that does not fit its networks is still one of the checkpoint."""
    module = plugins.install("acme-learners", {"__init__.py": PLUGIN}, {"algos": {"acme": "L"}})
    learner: Any = import_module(module).Learner

    def resume() -> None:
        made = learner()
        take_steps(tmp_path, "walk", 1, made, made.generator, dict, checkpoint_every=1)

    resume()
    learner.width = 16
    with pytest.raises(CheckpointError, match="size mismatch"):
        resume()
    learner.flaw = KeyError("momentum")
    with pytest.raises(KeyError, match="momentum"):
        resume()


def test_an_error_of_the_gpu_is_none_of_the_checkpoint(tmp_path: Path):
    with pytest.raises(RuntimeError, match="illegal"), CheckpointSeries(tmp_path).loading():
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
