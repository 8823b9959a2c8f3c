"""Families, algorithms and parts of stages on a GPU, beside the same on the processor.

Every scenario of ``_device_scenarios`` runs there as it is, then on both with one stream of random
numbers, drawn on the processor. ``gap`` is the largest difference of any number that comes out,
``waits`` how often the host waits for the GPU. It ends with status 1 where a scenario fails or a
gap is beyond its bound.

    python benchmarks/gpu_audit.py [--json FILE] [--only PART_OF_NAME] [--device cuda]

Without a GPU it ends with status 2; ``--device cpu`` shows that it runs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, cast

import _bare_tree

_bare_tree.use_source_tree()

import torch  # noqa: E402
from _device_scenarios import SCENARIOS, Scenario  # noqa: E402
from _gpu import demanded, waits_counted  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

BOUND, BOUND_BF16 = 1e-3, 3e-2


class HostStreams(TorchDispatchMode):
    """Within it draws of a generator come from its twin on the processor, of the same seed."""

    def __init__(self) -> None:
        super().__init__()
        self._twins: dict[tuple[int, int], tuple[torch.Generator, torch.Generator]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        kwargs = dict(kwargs or {})
        drawn_by = kwargs.get("generator")
        if drawn_by is None:
            return func(*args, **kwargs)
        kwargs["generator"] = self._twin(drawn_by)
        device = kwargs.get("device")
        if device is not None:
            return func(*args, **{**kwargs, "device": torch.device("cpu")}).to(device)
        into: Tensor = args[0]  # drawn in place
        drawn = func(torch.empty(into.shape, dtype=into.dtype), *args[1:], **kwargs)
        return into.copy_(drawn)

    def _twin(self, generator: torch.Generator) -> torch.Generator:
        key = cast(Any, generator)._cdata, generator.initial_seed()
        if key not in self._twins:
            twin = torch.Generator().manual_seed(generator.initial_seed())
            self._twins[key] = generator, twin  # held, so that its address is nobody else's
        return self._twins[key][1]


def main() -> None:
    args = _arguments()
    device = demanded(args.device)
    torch.backends.cudnn.allow_tf32 = False
    results: dict[str, Any] = {"versions": _bare_tree.versions(), "rows": []}
    print(" ".join(f"{name}={value}" for name, value in results["versions"].items()))
    for name, scenario in SCENARIOS.items():
        if args.only in name:
            results["rows"].append(row := audited(name, scenario, device))
            print(
                f"{name:24}" + "  ".join(f"{k} {v}" for k, v in row.items() if k != "name"),
                flush=True,
            )
            if args.json:
                args.json.write_text(json.dumps(results, indent=2) + "\n")
    bad = [row["name"] for row in results["rows"] if not row["passed"]]
    print(f"{len(results['rows']) - len(bad)} of {len(results['rows'])} passed", *bad)
    sys.exit(bool(bad))


def audited(name: str, scenario: Scenario, device: torch.device) -> dict[str, Any]:
    """One scenario: whether it runs there, its gap to the processor, its waits."""
    bound = BOUND_BF16 if "bf16" in name else BOUND
    start = time.perf_counter()
    try:
        with waits_counted(device) as waits:
            scenario(device)  # by the device's own random numbers
        seconds = time.perf_counter() - start
        found = _numbers(scenario, device)
    except Exception as error:  # whatever a device refuses is what is asked for
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        return {"name": name, "passed": False, "error": said[:300]}
    wanted = _numbers(scenario, torch.device("cpu"))
    gap = max(_gap(a, b) for a, b in zip(found, wanted, strict=True))
    return {
        "name": name,
        "passed": gap <= bound,
        "gap": gap,
        "bound": bound,
        "waits": sum(waits.values()),
        "seconds": round(seconds, 2),
    }


def _numbers(scenario: Scenario, device: torch.device) -> list[Tensor]:
    with HostStreams():
        return [tensor.detach().cpu().double() for tensor in scenario(device)]


def _gap(one: Tensor, other: Tensor) -> float:
    """The largest difference; infinite where shapes, or what is finite, differ."""
    if one.shape != other.shape or not torch.equal(one.isfinite(), other.isfinite()):
        return float("inf")
    gaps = (one - other).nan_to_num(posinf=0.0, neginf=0.0).abs()
    return float(gaps.max()) if gaps.numel() else 0.0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file, row by row")
    parser.add_argument("--only", default="", help="scenarios whose name holds this")
    parser.add_argument("--device", default="auto", help="auto, cuda, cuda:1 or cpu")
    return parser.parse_args()


if __name__ == "__main__":
    main()
