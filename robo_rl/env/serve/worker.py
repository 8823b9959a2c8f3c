"""The process of one connection: it answers commands and sends heartbeats."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from .connection import PROTOCOL, JsonConnection, RequestError, to_json
from .session import WorldSession

BEAT_S = 0.5
_TRACE_CHARS = 4000


def error_message(error: Exception, doing: str) -> dict[str, Any]:
    """Return any error as a message."""
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    if isinstance(error, RequestError):
        return error.message
    if isinstance(error, ModuleNotFoundError):
        refusal = RequestError(
            "device", f"'{error.name}' is missing there", trace=trace[-_TRACE_CHARS:]
        )
    else:
        problem = f"{doing} raised {type(error).__name__}: {error}"[:_TRACE_CHARS]
        refusal = RequestError("plugin", problem, trace=trace[-_TRACE_CHARS:])
    return refusal.message


def serve_connection(line: JsonConnection) -> None:
    """Answer the commands of one connection until it closes."""
    session, busy = WorldSession(), threading.Event()
    line.send({"kind": "hello", "protocol": PROTOCOL, "pid": os.getpid(), "python": sys.version})
    threading.Thread(target=_beat, args=(line, busy), daemon=True).start()
    with suppress(EOFError, OSError):
        while True:
            try:
                message, fd = line.receive()
            except RequestError as refusal:
                line.send(refusal.message)
                continue
            busy.set()
            answer = _answer(session, message, fd)
            busy.clear()
            line.send(answer)
    session.close()


def _answer(session: WorldSession, message: Mapping[str, Any], fd: int | None) -> dict[str, Any]:
    """Return an answer that can be encoded; every error of the simulator becomes a message."""
    try:
        answer = session.handle(message, fd)
        to_json(answer)
    except Exception as error:
        return {**error_message(error, message["kind"]), "seq": message.get("seq")}
    return answer


def _beat(line: JsonConnection, busy: threading.Event) -> None:
    """Send heartbeats while the other side waits for an answer.

    The other side may read from other workers first, for minutes while these make their worlds.
    Unread heartbeats must not fill the connection, or this thread would block the answer.
    """
    with suppress(OSError):
        while True:
            busy.wait()
            time.sleep(BEAT_S)
            if busy.is_set() and line.has_room():
                line.send({"kind": "beat"})
