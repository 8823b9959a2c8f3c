"""The server's side of a connection: malformed frames, strangers, and what it may import."""

from __future__ import annotations

import ast
import json
import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch

from robo_rl.core.errors import PluginError, RoboRlError
from robo_rl.core.suggestions import is_array_name
from robo_rl.env import serve
from robo_rl.env.remote.server_process import RemoteServer, server_command
from robo_rl.env.remote.worker import RemoteWorker, WorkerTimeouts
from robo_rl.env.serve import worker as serving
from robo_rl.env.serve.connection import (
    MAX_FRAME,
    PROTOCOL,
    JsonConnection,
    RequestError,
)
from robo_rl.env.serve.shared_arrays import (
    layout,
    shared_fields,
)
from robo_rl.env.workers.awake_watch import AwakeWatch
from robo_rl.env.workers.shared_memory import allocate

FOLDER = Path(serve.__file__).parent
REQUEST = {"adapter": "point_mass", "kwargs": {}, "num_envs": 3, "index": 0}
PATIENCE = WorkerTimeouts(start_s=30.0, step_s=30.0, heartbeat_timeout_s=30.0)


@pytest.fixture
def host():
    found = RemoteServer(python=sys.executable)
    yield found
    found.close()


@pytest.fixture
def worker(host):
    made = RemoteWorker(host, REQUEST, PATIENCE)
    made.join(AwakeWatch())
    yield made
    made.close()


def heard(line):
    """The next message but for signs of life."""
    while (message := line.receive()[0])["kind"] == "beat":
        pass
    return message


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert node.level <= 1, "above the folder there is nothing of ours there"
            yield "" if node.level else node.module or ""


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_what_runs_elsewhere_imports_numpy_and_the_standard_library_alone(path: Path):
    roots = {name.partition(".")[0] for name in imports(path)}
    assert roots <= {"", "numpy", *sys.stdlib_module_names}


def test_it_starts_without_a_single_package_and_says_that_numpy_is_missing(tmp_path: Path):
    path = tmp_path / "socket"
    command = server_command(sys.executable, str(path), "--private")
    command[1:1] = ["-I", "-S"]  # no site-packages
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    while not path.exists():
        time.sleep(0.01)
    line = RemoteServer(socket=str(path)).connect()
    assert heard(line)["protocol"] == PROTOCOL
    line.send({"kind": "make", "protocol": PROTOCOL, **REQUEST})
    answer = heard(line)
    assert (answer["code"], answer["problem"]) == ("device", "'numpy' is missing there")
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(5) == 0


def command(worker, seq, kind="step", **more):
    worker.send(kind, seq, **more)
    return worker.receive(seq, AwakeWatch())


def random_frame(rng):
    """Bytes of any kind, or JSON that is nearly a message."""
    choice = rng.random()
    if choice < 0.3:
        return rng.randbytes(rng.randrange(200))
    values = [None, True, -1, 0, 1 << 70, 0.5, "", "x" * 99, [], [[]], {}, "step", [1, 2, 3]]
    kinds = ["make", "memory", "reset", "step", "demonstrate", "hello", "beat", "__init__", "close"]
    names = ["seq", "seeds", "protocol", "adapter", "kwargs", "num_envs", "index"]
    message = {name: rng.choice(values) for name in rng.sample(names, rng.randrange(4))}
    message["kind"] = rng.choice(kinds) if rng.random() < 0.8 else rng.choice(values)
    if choice < 0.35:
        return b"[" * rng.randrange(100_000)
    return json.dumps(message if choice < 0.9 else rng.choice(values)).encode()


def test_ten_thousand_malformed_frames_crash_nothing(worker):
    """Every frame is answered, and the world behind is as it was."""
    rng, sock = random.Random(0), worker.line._sock
    assert command(worker, 1, "reset", seeds=[1, 2, 3]) is None
    before = worker.arrays["obs.state"].copy()
    frames = [frame for frame in (random_frame(rng) for _ in range(10_000)) if not harmless(frame)]
    assert len(frames) > 9_000

    def send():
        for frame in frames:
            sock.sendall(struct.pack("!I", len(frame)) + frame)

    sender = threading.Thread(target=send)
    sender.start()
    answers = []
    while len(answers) < len(frames):
        message, _ = worker.line.receive()
        answers += [message] if message["kind"] != "beat" else []
    sender.join()
    assert {answer["kind"] for answer in answers} == {"error"}
    assert command(worker, 2) is None
    assert np.array_equal(worker.arrays["next_obs.state"][:, 4:], before[:, 4:])


def harmless(frame):
    """Whether a random frame is a command that may be obeyed."""
    try:
        message = json.loads(frame)
        good = isinstance(message["seq"], int) and 0 <= message["seq"] < 1 << 62
        return good and message["kind"] in ("reset", "step", "demonstrate")
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def test_terms_of_a_group_get_names_that_can_name_arrays():
    state, term = torch.zeros(2, 3), torch.ones(2, 1)
    found = serve.flatten_obs({"state": state, "policy": {"joint_pos": term}})
    assert set(found) == {"state", "policy_joint_pos"}
    assert all(map(is_array_name, found))


@pytest.mark.parametrize("sent", [b"\xff\xff\xff\xff", struct.pack("!I", MAX_FRAME + 1)])
def test_a_frame_that_is_too_long_ends_the_connection_and_no_other(host, worker, sent):
    line = host.connect()
    line.receive()
    line._sock.sendall(sent)
    assert line.poll(5.0)
    assert heard(line)["kind"] == "died"
    with pytest.raises((EOFError, ConnectionError)):
        heard(line)
    assert command(worker, 1, "reset", seeds=None) is None


def test_memory_of_another_size_is_refused(host):
    line = host.connect()
    line.receive()
    line.send({"kind": "make", "protocol": PROTOCOL, **REQUEST})
    world = heard(line)["world"]
    fd = allocate(layout(shared_fields(world, 3))[1] - 64)
    line.send({"kind": "memory"}, fd)
    answer = heard(line)
    os.close(fd)
    assert (answer["kind"], answer["code"]) == ("error", "spec")
    line.send({"kind": "step", "seq": 1})
    assert "comes before" in heard(line)["problem"]


def test_a_server_refuses_another_protocol(host):
    line = host.connect()
    line.receive()
    line.send({"kind": "make", **REQUEST, "protocol": PROTOCOL + 1})
    answer = heard(line)
    assert answer["problem"] == "protocol mismatch"
    assert (answer["expected"], answer["found"]) == (str(PROTOCOL), str(PROTOCOL + 1))


@pytest.fixture
def stranger(tmp_path_factory):
    """A socket at which somebody answers every connection with the frames given."""
    path = str(tmp_path_factory.mktemp("s") / "socket")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()

    def answer(*frames):
        def run():
            sock, _ = listener.accept()
            with sock:
                for frame in frames:
                    sock.sendall(struct.pack("!I", len(frame)) + frame)
                sock.recv(1 << 16)

        threading.Thread(target=run, daemon=True).start()
        return RemoteServer(socket=path)

    yield answer
    listener.close()


def said(**message):
    return json.dumps(message).encode()


@pytest.mark.parametrize(
    ("frames", "match"),
    [
        ([said(kind="hello", protocol=PROTOCOL + 1)], r"protocol mismatch; expected 1, found 2; "),
        ([said(kind="hello")], "protocol mismatch"),
        ([b"SSH-2.0-OpenSSH_9.6"], "did not start.*not JSON"),
        ([said(kind="made")], "unexpected answer; expected hello, found made"),
        ([said(kind="died", reason="it was killed by SIGBUS")], "killed by SIGBUS"),
        pytest.param([], "did not start", marks=pytest.mark.slow),
        ([said(kind="hello", protocol=PROTOCOL), said(kind="made", world=[])], "cannot be read"),
        (
            [
                said(kind="hello", protocol=PROTOCOL),
                said(
                    kind="made",
                    world={
                        "act": {"shape": [2]},
                        "obs": {"o": {"shape": [-1], "dtype": "object"}},
                        "metrics": [],
                    },
                ),
            ],
            "cannot be read",
        ),
    ],
)
def test_a_stranger_in_place_of_a_server_is_one_clear_error(stranger, frames, match):
    patience = WorkerTimeouts(start_s=2.0, step_s=2.0, heartbeat_timeout_s=2.0)
    with pytest.raises(Exception, match=match) as caught:
        RemoteWorker(stranger(*frames), REQUEST, patience).join(AwakeWatch())
    assert isinstance(caught.value, RoboRlError)


def test_ten_thousand_random_frames_from_a_server_are_messages_or_refusals():
    ours, theirs = socket.socketpair()
    line, rng = JsonConnection(ours), random.Random(1)
    for _ in range(10_000):
        frame = random_frame(rng)
        theirs.sendall(struct.pack("!I", len(frame)) + frame)
        with suppress(RequestError):
            assert isinstance(line.receive()[0]["kind"], str)
    theirs.close()
    with pytest.raises(EOFError):
        line.receive()


def test_signs_of_life_that_nobody_hears_leave_room_for_the_answer(monkeypatch):
    """As where one worker's world is made minutes before that of a worker listened to first."""
    monkeypatch.setattr(serving, "BEAT_S", 0.0)
    ours, theirs = socket.socketpair()
    line, busy = JsonConnection(theirs, timeout_s=None), threading.Event()
    threading.Thread(target=serving._beat, args=(line, busy), daemon=True).start()
    busy.set()
    while line.has_room():
        time.sleep(0.01)
    time.sleep(0.1)
    answer = threading.Thread(target=line.send, args=({"kind": "done"},), daemon=True)
    answer.start()
    answer.join(10.0)
    assert not answer.is_alive(), "it waits for room"
    client = JsonConnection(ours)
    assert heard(client)["kind"] == "done"
    assert client.receive()[0]["kind"] == "beat", "it goes on"
    busy.clear()
    client.close()


def test_nothing_listens_at_a_path_that_is_not_there(tmp_path: Path):
    with pytest.raises(PluginError, match=r"no server to connect to.*No such file.*serve-env"):
        RemoteServer(socket=str(tmp_path / "socket")).connect()
