"""Query time of an exported policy by denoising steps: one, and ``--steps`` of them.

Queries have one observation, run on one thread and follow each other, so that caches are warm;
``deploy_inference`` measures the same on a robot. Policies are untrained, which does not affect the
time: an MLP and U-Nets, the largest as wide as Diffusion Policy's (Chi et al. 2023), on states or
also on a 128×128 image. The variants alternate; ``ratio`` is that of the medians.

    python benchmarks/query_time.py [--json FILE] [--steps 10] [--calls 300]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from _paced_panda import panda_at_rate
from _untrained_bundles import still_bundle

from robo_rl.bundle.bundle import Bundle

NETS: dict[str, Any] = {
    "MLP, 256 wide": "mlp",
    "U-Net, 64 and 128 channels": "unet1d",
    "U-Net, 256, 512 and 1024 channels": {"name": "unet1d", "channels": [256, 512, 1024]},
}
TURN = 10


def main() -> None:
    args = _arguments()
    results: dict[str, Any] = {}
    print("| network | sees | one step, ms | K steps, ms | ratio |\n|---|---|---|---|---|")
    for label, net in NETS.items():
        for picture in (False, True):
            found = sides(net, (1, args.steps), args.calls, picture=picture)
            results[f"{label}, {'picture' if picture else 'state'}"] = found
            print(row(label, found, picture=picture), flush=True)
    if args.json:
        args.json.write_text(json.dumps({"steps": args.steps, **results}, indent=2) + "\n")


def sides(net: Any, steps: tuple[int, int], calls: int, *, picture: bool) -> dict[str, Any]:
    """Return medians and 99th percentiles of both variants, in ms."""
    with tempfile.TemporaryDirectory() as folder:
        queries = [_query(Path(folder), net, k, picture=picture) for k in steps]
        spent: list[list[float]] = [[], []]
        for _ in range(-(-calls // TURN)):
            for query, times in zip(queries, spent, strict=True):
                times += [_timed(query) for _ in range(TURN)]
    one, many = ([float(x) for x in np.percentile(1e3 * np.array(t), [50, 99])] for t in spent)
    return {"one_ms": one, "many_ms": many, "ratio": many[0] / one[0]}


def row(label: str, found: dict[str, Any], *, picture: bool) -> str:
    """Return a row of the table."""
    one, many = (" / ".join(f"{ms:.2f}" for ms in found[k]) for k in ("one_ms", "many_ms"))
    return (
        f"| {label} | {'picture' if picture else 'state'} | {one} | {many} | {found['ratio']:.1f} |"
    )


def _query(folder: Path, net: Any, num_steps: int, *, picture: bool) -> Any:
    bundle: Bundle = still_bundle(
        folder / f"{num_steps}", panda_at_rate(50.0), net, num_steps, picture=picture
    )
    session, rng = bundle.session(), np.random.default_rng(0)
    contract = bundle.manifest.contract
    obs = {
        name: rng.integers(0, 255, (1, 1, *spec.shape)).astype(spec.dtype)
        for name, spec in contract.obs.items.items()
    }
    noise = rng.standard_normal((1, contract.horizon, contract.act.size)).astype(np.float32)
    for _ in range(TURN):
        session.act(obs, noise)
    return lambda: session.act(obs, noise)


def _timed(query: Any) -> float:
    began_s = time.perf_counter()
    query()
    return time.perf_counter() - began_s


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--steps", type=int, default=10, help="K of the slow ones")
    parser.add_argument("--calls", type=int, default=300)
    return parser.parse_args()


if __name__ == "__main__":
    main()
