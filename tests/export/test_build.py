"""A bundle is written only when every proof holds, and its manifest says what was found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from small_export import run_build
from torch import Tensor

from robo_rl.bundle.bundle import Bundle
from robo_rl.bundle.manifest import (
    ClosedLoopParity,
    Contract,
    NumericParity,
    QueryLatency,
)
from robo_rl.bundle.session import PolicySession
from robo_rl.core.errors import GateError
from robo_rl.export import build
from robo_rl.export.parity import closed_loop_parity, latency, numeric_parity


def test_a_bundle_that_goes_on_from_a_plan_has_both_graphs_and_both_proofs(
    policy: Any, contract: Contract, dataset_obs: dict[str, Tensor], tmp_path: Path
) -> None:
    def inpaint(obs: Any, noise: Tensor, planned: Tensor, weight: Tensor) -> Tensor:
        return torch.lerp(policy.decode(obs, noise), planned, weight[..., None])

    policy.inpaint = inpaint
    try:
        run_build(policy, tmp_path / "bundle", contract, dataset_obs, inpaint=True)
    finally:
        del policy.inpaint
    bundle = Bundle.load(tmp_path / "bundle")
    assert set(bundle.manifest.files) == {"policy.onnx", "inpaint.onnx"}
    assert bundle.manifest.inpainting is not None
    assert bundle.manifest.inpainting.passed
    assert bundle.manifest.latency["onnx_inpaint"].calls == 50
    assert bundle.manifest.schema_version == 2  # who cannot read that is told so
    assert bundle.session(inpaint=True).inpaints


def test_a_bundle_without_is_as_it_always_was(
    policy: Any, contract: Contract, dataset_obs: dict[str, Tensor], tmp_path: Path
) -> None:
    run_build(policy, tmp_path / "bundle", contract, dataset_obs)
    tree = json.loads((tmp_path / "bundle" / "manifest.json").read_text())
    assert tree["schema_version"] == 1
    assert "inpainting" not in tree


@pytest.mark.parametrize(("p99_us", "said"), [(4e4, ""), (1.9e5, "; asked in a thread")])
def test_a_chunk_policy_may_take_as_long_as_its_chunks_are_played(
    policy: Any,
    contract: Contract,
    dataset_obs: dict[str, Tensor],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    p99_us: float,
    said: str,
) -> None:
    """Four ticks of 50 ms; what takes longer than one of them cannot be asked within it."""
    slow = QueryLatency(p50_us=1.0, p99_us=p99_us, calls=50)
    monkeypatch.setattr(build, "session_latency", lambda *args, **kwargs: slow)
    bundle = run_build(policy, tmp_path / "bundle", contract, dataset_obs)
    assert bundle.manifest.gates[-1].detail.endswith(f"p99 {p99_us:.0f} µs{said}")


def test_bundle_carries_the_evidence(
    policy: Any, contract: Contract, dataset_obs: dict[str, Tensor], tmp_path: Path
) -> None:
    run_build(policy, tmp_path / "bundle", contract, dataset_obs)
    manifest = Bundle.load(tmp_path / "bundle").manifest
    assert manifest.numeric.rows == 1000
    assert manifest.numeric.max_abs < 1e-5
    assert manifest.closed_loop.success == 187 / 200
    assert [(gate.name, gate.passed, gate.waiver) for gate in manifest.gates] == [
        ("bc", False, "a trial"),
        ("export", True, None),
    ]
    assert manifest.normalizer == "stats"
    assert set(manifest.latency) == {"onnx", "torch"}
    assert all(0 < each.p50_us <= each.p99_us for each in manifest.latency.values())
    assert "torch" in manifest.versions


def test_all_failed_proofs_are_named_and_nothing_is_written(
    policy: Any,
    contract: Contract,
    dataset_obs: dict[str, Tensor],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = QueryLatency(p50_us=1e5, p99_us=3e5, calls=50)
    monkeypatch.setattr(build, "session_latency", lambda *args, **kwargs: slow)
    few = {name: tensor[:10] for name, tensor in dataset_obs.items()}
    with pytest.raises(GateError) as caught:
        run_build(policy, tmp_path / "bundle", contract, few, successes=100, loss="return halved")
    for part in ("10 observations", "success 50.0%", "return halved", "p99 300000 µs"):
        assert part in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_graph_of_another_policy_fails_numeric_parity(
    policy: Any, graph: bytes, contract: Contract, dataset_obs: dict[str, Tensor]
) -> None:
    session, other = PolicySession(graph, contract), type(policy)(seed=1)
    same = numeric_parity(policy, session, dataset_obs, torch.Generator())
    different = numeric_parity(other, session, dataset_obs, torch.Generator())
    assert same.record.passed
    assert same.rows == 1000
    assert not different.record.passed


def test_a_policy_that_is_evaluated_from_other_noise_fails_numeric_parity(
    policy: Any, graph: bytes, contract: Contract, dataset_obs: dict[str, Tensor]
) -> None:
    class FromZero(type(policy)):
        def act(self, obs: dict[str, Tensor], generator: torch.Generator) -> Tensor:
            return self.decode(obs, torch.zeros(len(obs["joint_pos"]), 8, 2))

    result = numeric_parity(
        FromZero(), PolicySession(graph, contract), dataset_obs, torch.Generator()
    )
    assert not result.record.passed


def test_nan_is_no_parity() -> None:
    assert not NumericParity(max_abs=float("nan"), limit=1e-4, rows=1000).passed


def test_without_one_success_the_closed_loop_shows_nothing(
    policy: Any, contract: Contract, dataset_obs: dict[str, Tensor], tmp_path: Path
) -> None:
    with pytest.raises(GateError, match=r"export cannot tell: .*eval\.measure=return"):
        run_build(
            policy, tmp_path / "bundle", contract, dataset_obs, successes=0, policy_successes=0
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("successes", "passed"), [(188, True), (180, True), (150, False)])
def test_closed_loop_parity_is_the_policys_interval(successes: int, passed: bool) -> None:
    result = closed_loop_parity(successes, 200, 188, 200)
    assert isinstance(result, ClosedLoopParity)
    assert result.low < 0.94 < result.high
    assert result.passed is passed


def test_latency_is_on_one_thread_and_gives_the_threads_back() -> None:
    threads, seen = torch.get_num_threads(), set[int]()
    torch.set_num_threads(2)
    try:
        result = latency(lambda: seen.add(torch.get_num_threads()), calls=20)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert seen == {1}
    assert 0 < result.p50_us <= result.p99_us
    assert result.calls == 20
