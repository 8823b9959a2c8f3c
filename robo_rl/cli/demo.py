"""``robo-rl demo``: all stages on one task, with the results in one table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from robo_rl.cli.output import Json, format_table, write_json
from robo_rl.cli.stages import RUNS, Out, Overrides, json_of_failed_gate, run_until

_ROWS = {"bc": "behaviour cloning", "rl": "after RL", "one_step": "one step"}
_MEASURED = ("bc", "online", "distill")
_TIMED = {"k_step": "teacher", "one_step": "onnx"}  # name in the demo → name in the export stage
_QUERIES = {"k_step": "all denoising steps, torch", "one_step": "one step, ONNX Runtime"}


def run(overrides: Overrides = None, out: Out = RUNS, json_file: Json = None) -> None:
    """Run demonstrations, cloning, RL, distillation, export: some minutes on two cores."""
    with json_of_failed_gate(json_file) as done:
        result = run_until("demo", overrides or [], out, on_stage_end=done.update)
    if result is None:
        return
    numbers = summary(result)
    if numbers is None:
        typer.echo(f"without the stages or the measure of its table; in {result['directory']}")
    else:
        typer.echo(_table(numbers))
    for stage in result["stages"]:
        for name, file in stage["files"].items():
            typer.echo(f"{stage['stage']} {name}: {_place(result, stage, file)}")
    write_json(json_file, result if numbers is None else numbers)


def summary(result: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the demo's numbers from the reports of the stages.

    None if overrides took a stage of the table away, or the success of one.
    """
    stages = {stage["stage"]: stage for stage in result["stages"]}
    measured = all("success" in stages.get(k, {"numbers": ()})["numbers"] for k in _MEASURED)
    if not measured or "export" not in stages:
        return None
    export = stages["export"]
    return {
        "bc": _success(stages["bc"]),
        "rl": _success(stages["online"]),
        "one_step": _success(stages["distill"]),
        "env_steps": stages["online"]["numbers"]["env_steps"],
        "minutes": sum(stage["seconds"] for stage in stages.values()) / 60,
        "latency_us": _latency(export["numbers"]["latency_us"]),
        "bundle": _place(result, export, export["artifacts"]["bundle"]),
        "report": str(Path(result["directory"]) / "report.html"),
    }


def _latency(timed: Mapping[str, float]) -> dict[str, float]:
    """Return ``k_step_p50`` and so on, in µs."""
    return {
        f"{ours}_{level}": timed[f"{theirs}_{level}"]
        for ours, theirs in _TIMED.items()
        for level in ("p50", "p99")
    }


def _success(stage: Mapping[str, Any]) -> dict[str, Any]:
    measured = stage["numbers"]["success"]
    return {
        "success": measured["value"],
        "low": measured["low"],
        "high": measured["high"],
        "episodes": measured["n"],
    }


def _place(result: Mapping[str, Any], stage: Mapping[str, Any], file: str) -> str:
    return str(Path(result["directory"]) / stage["directory"] / file)


def _table(numbers: Mapping[str, Any]) -> str:
    rows = [(label, *_rate(numbers[key])) for key, label in _ROWS.items()]
    success = format_table(rows, ("policy", "success", "95 % interval", "episodes"))
    times = numbers["latency_us"]
    latency = format_table(
        [
            (label, *(f"{times[f'{name}_{level}']:.0f} µs" for level in ("p50", "p99")))
            for name, label in _QUERIES.items()
        ],
        ("one query on one thread", "p50", "p99"),
    )
    facts = {
        "env steps": f"{numbers['env_steps']:,}",
        "minutes": f"{numbers['minutes']:.1f}",
        "bundle": numbers["bundle"],
        "report": numbers["report"],
    }
    return f"{success}\n\n{latency}\n\n{format_table(facts.items())}"


def _rate(measured: Mapping[str, Any]) -> tuple[str, str, str]:
    interval = f"[{100 * measured['low']:.1f}, {100 * measured['high']:.1f}]"
    return f"{100 * measured['success']:.1f} %", interval, str(measured["episodes"])
