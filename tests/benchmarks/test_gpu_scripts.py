"""The scripts for a GPU run where there is one, and say in one line where there is none."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch
from pretended_gpu import GPU, PretendedGpu

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_one_line_and_status_2(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        import_module("_gpu").demanded("auto")
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("no GPU: device 'cuda' does not exist")
    assert import_module("_gpu").demanded("cpu").type == "cpu"


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ["state", "conv"])
def test_an_update_is_timed_on_a_gpu(encoder: str):
    script = import_module("gpu_update")
    setting = script.UPDATE._replace(num_envs=8, encoder=encoder, device=str(GPU))
    with PretendedGpu():
        row = script.measured(setting, 1)
    assert row["minibatches"] == 32
    assert all(row[column] >= 0.0 for column in script.COLUMNS)


def test_twins_on_the_processor_draw_what_a_generator_of_their_seed_draws():
    audit = import_module("gpu_audit")
    stream, wanted = (torch.Generator().manual_seed(3) for _ in range(2))
    with audit.HostStreams():
        found = [torch.randn(4, generator=stream, device="cpu") for _ in range(2)]
    assert torch.equal(
        torch.cat(found), torch.cat([torch.randn(4, generator=wanted) for _ in found])
    )
