"""What an encoder of images costs on one thread: gradient steps, and queries of an exported policy.

A policy of the demo's size reads one image and seven numbers. ``forward`` and ``step`` are times of
a batch, ``step`` with backward pass and optimiser; ``step bf16`` is the same in bfloat16. ``query``
is a query of the exported one-step policy in ONNX Runtime. Encoders take turns within a repeat;
reported are medians, and the p99 of all queries.

    python benchmarks/encoder_cost.py [--json FILE] [--side 64] [--batch 64] [--repeats 5]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from robo_rl.bundle.session import PolicySession
from robo_rl.config.component import component
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.data.normalize import Normalizer
from robo_rl.export.onnx import contract_of, export_policy, random_inputs
from robo_rl.policy.one_step import make_one_step_student

ENCODERS = ("state", "conv", "resnet18", "vit")
QUERIES = 100
ACT = ActSpec(shape=(8,), rate_hz=20.0, low=(-1.0,) * 8, high=(1.0,) * 8)


class Side:
    """A policy with one encoder, its optimiser, and its exported student.

    Args:
        name: Name of the encoder; ``state`` reads the numbers alone.
        side: Side of the image in pixels.
        batch: Rows of a gradient step.
    """

    def __init__(self, name: str, side: int, batch: int) -> None:
        items = {"joint_pos": TensorSpec(shape=(7,))}
        if name != "state":
            items["eye_rgb"] = TensorSpec(shape=(3, side, side), dtype="uint8")
        spec = ObsSpec(items=items)
        torch.manual_seed(0)
        made = component("policies").make({"name": "flow", "encoder": name})
        self.policy = made.build(spec, ACT, Normalizer.identity(spec, ACT))
        self.optim = torch.optim.AdamW(self.policy.parameters(), lr=1e-4)
        self.obs, _ = random_inputs(self.policy, batch)
        self.act = torch.rand(batch, self.policy.horizon, 8)
        self.parameters = sum(each.numel() for each in self.policy.net.encoder.parameters())
        student = make_one_step_student(self.policy).eval()
        contract = contract_of(student, name="flow", robot="", task="")
        with tempfile.TemporaryDirectory() as folder:
            graph = export_policy(student, Path(folder) / "policy.onnx").read_bytes()
        self.session = PolicySession(graph, contract)
        row, noise = random_inputs(student, 1)
        self.row = {key: value.numpy() for key, value in row.items()}
        self.noise = noise.numpy()

    def forward(self) -> None:
        """Encode a batch."""
        with torch.no_grad():
            self.policy.encode(self.obs)

    def step(self) -> None:
        """Take one step of cloning."""
        loss = self.policy.loss(self.obs, self.act, torch.Generator().manual_seed(0)).mean()
        self.optim.zero_grad(set_to_none=True)
        loss.backward()
        self.optim.step()

    def step_bf16(self) -> None:
        """Take one step of cloning in bfloat16."""
        with torch.autocast("cpu", torch.bfloat16):
            loss = self.policy.loss(self.obs, self.act, torch.Generator().manual_seed(0)).mean()
        self.optim.zero_grad(set_to_none=True)
        loss.backward()
        self.optim.step()

    def queries(self) -> list[float]:
        """Return the times of some queries in ms."""
        return [_ms(lambda: self.session.act(self.row, self.noise)) for _ in range(QUERIES)]


def measured(side: int, batch: int, repeats: int) -> dict[str, dict[str, Any]]:
    """Return encoder → times in ms."""
    sides = {name: Side(name, side, batch) for name in ENCODERS}
    found: dict[str, dict[str, list[float]]] = {name: {} for name in sides}
    for repeat in range(repeats + 1):
        for name, each in sides.items():
            turn = {
                "forward_ms": [_ms(each.forward)],
                "step_ms": [_ms(each.step)],
                "step_bf16_ms": [_ms(each.step_bf16)],
                "query_ms": each.queries(),
            }
            if repeat:  # the first one warms up
                for key, times in turn.items():
                    found[name].setdefault(key, []).extend(times)
    return {
        name: {
            "parameters": sides[name].parameters,
            **{key: statistics.median(times) for key, times in rows.items()},
            "query_p99_ms": float(np.percentile(rows["query_ms"], 99)),
        }
        for name, rows in found.items()
    }


def _ms(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - begun)


def main() -> None:
    args = _arguments()
    torch.set_num_threads(1)
    results = measured(args.side, args.batch, args.repeats)
    print(f"{args.side} × {args.side}, batch {args.batch}, one thread; times in ms")
    print(
        f"{'encoder':10}{'parameters':>12}{'forward':>9}{'step':>9}{'bf16':>9}{'query':>8}{'p99':>8}"
    )
    for name, row in results.items():
        times = (row["forward_ms"], row["step_ms"], row["step_bf16_ms"])
        shown = "".join(f"{each:9.1f}" for each in times)
        query = f"{row['query_ms']:8.2f}{row['query_p99_ms']:8.2f}"
        print(f"{name:10}{row['parameters']:12,}{shown}{query}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--side", type=int, default=64)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
