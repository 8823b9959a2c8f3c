"""The tables of docs/results say what the scripts wrote down."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = [path for path in sorted((ROOT / "benchmarks").glob("*.py")) if path.name[0] != "_"]
RATIOS = {
    "per_step": "ddpm | 20 | 10",
    "joint": "flow_noise | 4 | 4",
    "single_step": "flow_sde | 4 | 1",
    "noise_conditioned": "flow_noise | 4 | 1",
}
ARMS = ("without", "with")
EARLIER = ("kill -9", "SIGSTOP")
"""Faults that were counted with an earlier watchdog, as the page says."""
METHODS = {"default": "default", "reinflow": "ReinFlow's setting", "dppo": "DPPO's setting"}


def written(name: str) -> Any:
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())


def throughput() -> Iterator[str]:
    found = written("sim_throughput")
    asynchronous = "16, Gymnasium's `AsyncVectorEnv` on the same model"
    for label, row in {**found["mujoco_cpu"], asynchronous: found["gym_async"]["16"]}.items():
        yield f"| {label} | {speeds(row)} | {row['bytes_per_env'] / 1e3:,.0f} |"

    for label, row in found["mujoco_warp"].items():
        yield f"| {label}, on Warp | {speeds(row)} |"


def speeds(row: Any) -> str:
    """Return medians of the repeats: steps a second, those of bare physics, and the ratio."""
    return f"{row['steps_per_s']:,.0f} | {row['bare_steps_per_s']:,.0f} | {row['ratio']:.2f}"


def cameras() -> Iterator[str]:
    for name, row in written("camera_frames").items():
        yield f"| {name} | {row['frames_per_s']:,.0f} | {row['ratio']:.2f} |"


def camera_steps() -> Iterator[str]:
    for name, row in written("camera_steps").items():
        yield f"| {name} | {row['env_steps_per_s']:,.0f} | {row['ratio']:.2f} |"


def encoders() -> Iterator[str]:
    for name, row in written("encoder_cost").items():
        parts = ("forward_ms", "step_ms", "step_bf16_ms")
        times = " | ".join(f"{row[part]:.1f}" for part in parts)
        query = pair([row["query_ms"], row["query_p99_ms"]])
        yield f"| `{name}` | {row['parameters']:,} | {times} | {query} |"


def remote() -> Iterator[str]:
    for world, sizes in written("remote_overhead").items():
        for name, row in sizes.items():
            spent = " | ".join(f"{row[part]:,.0f}" for part in ("wall", "world", "protocol"))
            yield f"| {world}, {name} | {spent} | {row['share']:.1%} |".replace("%", " %")


def update_speed() -> Iterator[str]:
    for name, row in written("update_speed").items():
        yield f"| {RATIOS[name]} | {row['seconds_per_1e5']:.1f} | {row['ratio']:.2f} |"


def update_scaling() -> Iterator[str]:
    for name, axis in written("update_scaling").items():
        first, last = (f"{axis['points'][i]['value']:.0f}" for i in (-3, -1))
        powers = " | ".join(f"{power:.2f}" for power in axis["power"].values())
        yield f"| {name} {first} … {last} | {powers} |"


def update_precision() -> Iterator[str]:
    for name, row in written("update_precision").items():
        yield f"| {name} | {row['bf16']['ratio']:.2f} | {row['compiled']['ratio']:.2f} |"


def loop_profile() -> Iterator[str]:
    found = written("loop_profile")
    for task, methods in found.items():
        for method, label in METHODS.items():
            row = methods[method]
            times = " | ".join(f"{row[part]:.0f}" for part in ("physics", "inference", "learning"))
            yield f"| {task} | {label} | {times} |"
    overlap = [row["overlap"] for methods in found.values() for row in methods.values()]
    yield f"at most {min(overlap):.2f} to {max(overlap):.2f} times as fast"


def queries() -> Iterator[str]:
    found = written("query_time")
    for name, row in found.items():
        if name != "steps":
            net, _, sees = name.rpartition(", ")
            times = " | ".join(pair(row[key]) for key in ("one_ms", "many_ms"))
            yield f"| {net} | {sees} | {times} | {row['ratio']:.1f} |"


def inference() -> Iterator[str]:
    found = written("deploy_inference")
    long = {"mlp, state, K = 1, ten minutes": found["long"]}
    for name, row in {**found["cases"], **long}.items():
        times = " | ".join(pair(row[key]) for key in ("query_ms", "command_ms"))
        missed = f"{row['missed']} of {row['ticks']:,} | {row['missed_at_standstill']}"
        yield f"| {name} | {times} | {missed} |"


def seeing() -> Iterator[str]:
    found = written("deploy_latency_pixels")
    rate = found["success"]
    low, high = 100 * rate["low"], 100 * rate["high"]
    yield f"{rate['value']:.1%} [".replace("%", " %") + f"{low:.1f}, {high:.1f}]"
    yield f"exported at {found['exported']:.1%}".replace("%", " %")
    yield " and ".join(f"{value:.1f}" for value in found["latency_ms"]) + " ms"
    yield " and ".join(f"{value:.2f}" for value in found["tick_ms"]) + " ms"
    yield f"{found['missed']} of {found['ticks']:,} |"


def soak() -> Iterator[str]:
    found = written("deploy_soak")
    health = found["health"]
    yield f"{health['missed']} of {health['ticks']:,} periods missed"
    for who in ("policy", "watchdog"):
        yield f"{found[who]['slope_mb_an_hour']:.2f} MB an hour"


def pair(values: list[float]) -> str:
    return " / ".join(f"{value:.2f}" for value in values)


def page(name: str) -> str:
    return (ROOT / "docs" / "results" / f"{name}.md").read_text()


def demand_rows(figures: Callable[[], Iterator[str]], name: str) -> None:
    """Demand that there are figures, and that the page has all of them."""
    rows, text = list(figures()), page(name)
    assert rows
    assert [row for row in rows if row not in text] == []


@pytest.mark.parametrize(
    "figures",
    [
        throughput,
        cameras,
        camera_steps,
        encoders,
        remote,
        update_speed,
        update_scaling,
        update_precision,
        loop_profile,
        queries,
    ],
)
def test_the_page_on_speed_says_what_was_measured(figures: Any):
    demand_rows(figures, "speed")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_loads_and_explains_itself(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.syspath_prepend(str(script.parent))
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(script), run_name="__main__")
    assert ended.value.code == 0
    assert "--json" in capsys.readouterr().out


def test_a_task_that_the_suite_lacks_is_a_mistake_with_a_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    script = ROOT / "benchmarks" / "loop_profile.py"
    monkeypatch.setattr(sys, "argv", [str(script), "--tasks", "lift_cub"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(script), run_name="__main__")
    assert ended.value.code == 2
    assert "no task 'lift_cub'; did you mean 'lift_cube'" in capsys.readouterr().err


def faults() -> Iterator[str]:
    for path in sorted((ROOT / "benchmarks" / "results" / "deploy_faults").glob("*.json")):
        found = json.loads(path.read_text())
        name = path.stem.replace("_percent", " %").replace("_", " ")
        void = (
            f" (void: {found['void_violations']} of {found['void']})" if found.get("void") else ""
        )
        old = " (earlier watchdog)" if name in EARLIER else ""
        yield f"| {name}{old} | {found['trials']:,} | {found['violations']}{void} |"


def latency() -> Iterator[str]:
    folder = ROOT / "benchmarks" / "results" / "latency_realism" / "lift_reactive_60ms"
    for seed in range(3):
        cells = [json.loads((folder / f"{arm}_{seed}.json").read_text()) for arm in ARMS]
        shown = " | ".join(f"{cell['exported']:.1%} | {rate(cell['success'])}" for cell in cells)
        yield f"| {seed} | {shown} |".replace("%", " %")


def handover() -> Iterator[str]:
    rows = written("chunk_handover")["rows"]
    for delay in range(4):
        found = [rows[f"{delay} {rule}"] for rule in ("newest", "ensemble", "soft", "inpaint")]
        cells = [
            f"{100 * row['value']:.1f} % [{100 * row['low']:.0f}, {100 * row['high']:.0f}],"
            f" {row['jerk']:.3f}"
            for row in found
        ]
        yield f"| {delay} | {' | '.join(cells)} |"


def rate(found: Any) -> str:
    low, high = (f"{100 * found[end]:.1f}" for end in ("low", "high"))
    return f"{found['value']:.1%} [{low}, {high}]"


def test_the_page_on_offline_learning_says_what_was_measured(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    text = page("offline")
    corrupted = import_module("corrupted_data")
    spoilt = [
        corrupted.line(kind, {tuple(which): cell for *which, cell in cells})
        for kind, cells in by_kind("corrupted_data").items()
    ]
    fooled = import_module("offline_sabotage")
    refused = [fooled.line(seed, cell) for seed, cell in by_seed("offline_sabotage").items()]
    assert len(spoilt) == len(corrupted.KINDS)
    assert len(refused) == 3
    assert [row for row in spoilt + refused if row not in text] == []


def test_what_is_kept_of_offline_learning_is_of_the_settings_of_now(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    modules = ("_kept", "corrupted_data", "offline_sabotage")
    kept, corrupted, fooled = (import_module(name) for name in modules)
    asked = {f"corrupted_data/{k}_{a}_0": corrupted.settings(k, a, 0)
             for k in corrupted.KINDS for a in corrupted.ARMS}  # fmt: skip
    asked |= {f"offline_sabotage/{seed}": fooled.settings(seed) for seed in (0, 1, 2)}
    results = ROOT / "benchmarks" / "results"
    assert [
        x for x, how in asked.items() if kept.load_result(results / f"{x}.json", how) is None
    ] == []


def test_the_page_on_forgetting_says_what_was_measured_under_the_settings_of_now(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    kept, made = import_module("_kept"), import_module("forgetting")
    chained = import_module("_chained_runs")
    for seed in (1, 2, 3):
        runs = made.runs(Path("runs"), seed, "lift")
        for name in runs:
            path = made.result_file(kept.RESULTS / "forgetting", "lift", seed, name)
            cell = kept.load_result(path, chained.settings(name, runs))
            assert cell is not None, path.name
            assert made.line(seed, name, cell) in page("forgetting")


def by_seed(script: str) -> dict[int, Any]:
    kept = sorted((ROOT / "benchmarks" / "results" / script).glob("*.json"))
    return {int(path.stem): json.loads(path.read_text()) for path in kept}


def by_kind(script: str) -> dict[str, list[tuple[str, int, Any]]]:
    """Kind → arm, seed, cell."""
    found: dict[str, list[tuple[str, int, Any]]] = {}
    for path in sorted((ROOT / "benchmarks" / "results" / script).glob("*.json")):
        kind, arm, seed = path.stem.split("_")
        found.setdefault(kind, []).append((arm, int(seed), json.loads(path.read_text())))
    return found


@pytest.mark.parametrize("figures", [faults, latency, handover, inference, seeing, soak])
def test_the_page_on_deployment_says_what_was_measured(figures: Any):
    demand_rows(figures, "deployment")
