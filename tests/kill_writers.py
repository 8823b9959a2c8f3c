"""Writers that are killed while they write; run as a program, the server that forks them.

It imports once, then reads lines ``<writer> <directory>`` and forks one writer for each. The writer
says its process id, and then every step that it holds to be saved.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

_SERVER = [sys.executable, __file__]


class Killer:
    """Starts writers and kills each at a random moment."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        pipe = subprocess.PIPE
        self._server = subprocess.Popen(_SERVER, stdin=pipe, stdout=pipe, text=True, bufsize=1)

    def __enter__(self) -> Killer:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server.stdin
        self._server.stdin.close()
        self._server.wait(timeout=60)

    def run(self, writer: str, directory: Path, longest_s: float) -> list[int]:
        """Kill a writer up to ``longest_s`` after it started, or after its first or second save.

        Returns:
            The steps that it said were saved.
        """
        assert self._server.stdin
        assert self._server.stdout
        print(writer, directory, file=self._server.stdin, flush=True)
        pid = int(self._server.stdout.readline())
        saved = [int(self._server.stdout.readline()) for _ in range(self._random.randrange(3))]
        time.sleep(self._random.uniform(0, longest_s))
        os.kill(pid, signal.SIGKILL)
        saved += map(int, iter(self._server.stdout.readline, "killed\n"))
        assert saved == sorted(saved)
        return saved


def _say(what: object) -> None:
    os.write(1, f"{what}\n".encode())


def _store(directory: Path) -> None:
    from small_stores import make_episode, make_store

    from robo_rl.data.store.zarr_store import ZarrStore

    path = directory / "data.zarr"
    store = ZarrStore.open(path) if path.exists() else make_store(path)
    while True:
        done = len(store.episodes)
        store.extend(make_episode(done + more) for more in range(1 + done % 3))
        _say(len(store.episodes) - 1)


def _plain_zarr(directory: Path) -> None:
    """The control: what appending to Zarr arrays does by itself."""
    import numpy as np
    import zarr

    path, keys = directory / "plain.zarr", ("a", "b", "c", "d")
    shape = {"shape": (0, 16), "chunks": (8, 16), "dtype": "float32"}
    arrays = [zarr.create_array(path / key, **shape) for key in keys]
    for step in range(10**9):
        for array in arrays:
            array.append(np.full((32, 16), step + 1, np.float32))
        _say(step)


def _checkpoints(directory: Path) -> None:
    import torch

    from robo_rl.train.checkpoint.series import CheckpointSeries

    series = CheckpointSeries(directory / "ckpt")
    state = series.load_latest()
    step = 0 if state is None else state["step"]
    while True:
        step += 1
        series.save(step, {"step": step, "weights": [torch.full((50_000,), float(step))] * 2})
        _say(step)


def _replaced_checkpoint(directory: Path) -> None:
    import torch

    from robo_rl.train.checkpoint import files as checkpoint

    path = directory / "best"
    step = checkpoint.load(path).meta["step"] if any(directory.iterdir()) else 0
    while True:
        step += 1
        checkpoint.save(path, {"weights": torch.full((50_000,), float(step))}, {"step": step})
        _say(step)


def _in_place(directory: Path) -> None:
    """The control: a checkpoint that is written over where it lies."""
    import safetensors.torch
    import torch

    tensors = [{"weights": torch.full((1_000_000,), value)} for value in (1.0, 2.0)]
    contents = [safetensors.torch.save(each) for each in tensors]
    for step in range(10**9):
        (directory / "model.safetensors").write_bytes(contents[step % 2])
        _say(step)


WRITERS = {
    "store": _store,
    "plain_zarr": _plain_zarr,
    "checkpoints": _checkpoints,
    "replaced_checkpoint": _replaced_checkpoint,
    "in_place": _in_place,
}


def _serve() -> None:
    import safetensors.torch
    import small_stores
    import torch
    import zarr

    import robo_rl.train.checkpoint.files

    del safetensors, small_stores, torch, zarr, robo_rl
    for line in sys.stdin:
        writer, directory = line.split(maxsplit=1)
        if not (pid := os.fork()):
            _say(os.getpid())
            WRITERS[writer](Path(directory.strip()))
        os.waitpid(pid, 0)
        _say("killed")


if __name__ == "__main__":
    _serve()
