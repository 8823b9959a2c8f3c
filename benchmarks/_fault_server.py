"""Malformed frames to ``robo-rl serve-env``: each must be refused without side effects."""

from __future__ import annotations

import json
import struct
import sys
import threading

import numpy as np
from _fault_table import TrialCounts

from robo_rl.bundle.bundle import Bundle
from robo_rl.env.remote.server_process import RemoteServer
from robo_rl.env.remote.worker import RemoteWorker, WorkerTimeouts
from robo_rl.env.workers.awake_watch import AwakeWatch

REQUEST = {"adapter": "point_mass", "kwargs": {}, "num_envs": 3, "index": 0}
PATIENCE = WorkerTimeouts(start_s=30.0, step_s=30.0, heartbeat_timeout_s=30.0)
KINDS = ("make", "memory", "reset", "step", "demonstrate", "hello", "beat", "__init__", "close", 7)
NAMES = ("protocol", "adapter", "kwargs", "num_envs", "index", "seeds", "size")
VALUES = (None, True, -1, 1 << 70, 0.5, "", "x" * 99, [], [[]], {}, "step", [1, 2, 3])


def frames(bundle: Bundle, first: int, number: int) -> TrialCounts:
    """Send frames; a violation is a frame that is not refused, or a changed world."""
    del bundle
    rng, host = np.random.default_rng(first), RemoteServer(python=sys.executable)
    try:
        worker = RemoteWorker(host, REQUEST, PATIENCE)
        worker.join(AwakeWatch())
        sent = [_frame(rng) for _ in range(number)]
        refused = _refusals(worker, sent)
        goes_on = _resets(worker)
        worker.close()
    finally:
        host.close()
    return TrialCounts(number, number - refused + (not goes_on), {})


def _refusals(worker: RemoteWorker, sent: list[bytes]) -> int:
    def send() -> None:
        for frame in sent:
            worker.line._sock.sendall(struct.pack("!I", len(frame)) + frame)

    sender = threading.Thread(target=send)
    sender.start()
    heard = refused = 0
    while heard < len(sent):
        message, _ = worker.line.receive()
        heard += message["kind"] != "beat"
        refused += message["kind"] == "error"
    sender.join()
    return refused


def _resets(worker: RemoteWorker) -> bool:
    worker.line.send({"kind": "reset", "seq": 1, "seeds": [1, 2, 3]})
    return worker.receive(1, AwakeWatch()) is None


def _frame(rng: np.random.Generator) -> bytes:
    """Return random bytes, JSON that is no message, or a message without a valid number."""
    choice = rng.random()
    if choice < 0.3:
        return rng.bytes(int(rng.integers(200)))
    if choice < 0.32:
        return b"[" * int(rng.integers(100_000))
    message = {name: _any(rng, VALUES) for name in rng.permutation(NAMES)[: rng.integers(4)]}
    whole = json.dumps(message | {"kind": _any(rng, KINDS)}).encode()
    return whole if choice < 0.8 else whole[: rng.integers(len(whole))]


def _any(rng: np.random.Generator, values: tuple[object, ...]) -> object:
    return values[int(rng.integers(len(values)))]
