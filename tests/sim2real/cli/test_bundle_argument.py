"""A path that is no export bundle is told what was likely meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_bundles import make_bundle

from robo_rl.cli.main import main
from robo_rl.config.registry import load
from robo_rl.core.errors import BundleError
from robo_rl_sim2real.cli.bundle_argument import load_bundle


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose stage 04-export has a bundle."""
    make_bundle(tmp_path / "demo" / "04-export" / "bundle", load("robots", "panda"))
    (tmp_path / "demo" / "03-distill").mkdir()
    return tmp_path / "demo"


def test_the_bundle_of_a_stage_or_a_run_is_named(run: Path):
    inside = run / "04-export" / "bundle"
    for path in (run, run / "04-export"):
        with pytest.raises(BundleError, match=f"{path}: is no export bundle; name {inside}$"):
            load_bundle(path)
    with pytest.raises(BundleError, match="no manifest; is this the directory"):
        load_bundle(run / "03-distill")
    assert load_bundle(inside).manifest.contract.robot == "panda"


@pytest.mark.parametrize(("word", "meant"), [("chek", "check"), ("latencies", "latency")])
def test_a_mistyped_second_word_is_no_bundle(
    word: str, meant: str, run: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["deploy", word, str(run)]) == 2
    assert f"did you mean `robo-rl deploy {meant}`?" in capsys.readouterr().err


def test_an_altered_bundle_is_told_as_such(run: Path):
    inside = run / "04-export" / "bundle"
    (inside / "policy.onnx").write_bytes(b"")
    with pytest.raises(BundleError, match="was cut or altered"):
        load_bundle(inside)


def test_the_help_of_deploy_names_the_verbs_beside_it(capsys: pytest.CaptureFixture[str]):
    assert main(["deploy", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "`deploy check`" in said
    assert "`deploy latency`" in said
