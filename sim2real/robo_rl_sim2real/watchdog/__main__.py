"""The watchdog's process; ``Watchdog`` starts it.

    python -m robo_rl_sim2real.watchdog FILE    # an inherited file; its orders come on stdin

It ends with 0 when the policy process has ended by itself while it sent no command, with 3 after it
has stopped the robot. What a process that was killed leaves unfinished, it finishes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Sequence

from robo_rl.core.errors import RoboRlError
from robo_rl_sim2real.core.clock import Clock, settle
from robo_rl_sim2real.transport.base import POLICY
from robo_rl_sim2real.watchdog.block import Block
from robo_rl_sim2real.watchdog.estate import settled
from robo_rl_sim2real.watchdog.judge import Verdict
from robo_rl_sim2real.watchdog.orders import Orders
from robo_rl_sim2real.watchdog.process import Process
from robo_rl_sim2real.watchdog.watch import open_mouth, stop, watch

_STOPPED = 3
_READ_S = 1.0
"""How long what is said is waited for."""


def main(words: Sequence[str]) -> int:
    """Watch until the end of who started it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # what is to end the policy must not end its guard
    try:
        orders = Orders.model_validate_json(sys.stdin.read())
        policy = Process(orders.pid)
        if os.getppid() != orders.pid:  # it has gone, and its number may be another's by now
            return 0
        return _watch(orders, policy, Block.on(int(words[0]), len(orders.limits["low"])))
    except RoboRlError as error:
        _saying(str(error)).join(_READ_S)
        return 2


def _watch(orders: Orders, policy: Process, block: Block) -> int:
    transport, clock, said = orders.transport.build(f"{POLICY}_watchdog"), Clock(), ""
    try:
        mouth = open_mouth(orders, transport)
        settle()
        found = watch(block, policy, mouth, orders, clock)
        if not found.why:
            return 0
        what, stopped = f"the policy process {found.why}", found.verdict is Verdict.STOP
        if stopped:
            announcing = _saying(f"{what}; it is ended, and the robot brought to rest")
            what += f"; the robot was brought to rest{stop(block, policy, mouth, orders, clock)}"
            announcing.join(_READ_S)
        said = "; ".join([what, *settled(orders.estate, what, block.policy.read())])
        return _STOPPED if stopped else 0
    finally:
        transport.close()
        if said:
            _saying(said).join(_READ_S)


def _saying(text: str) -> threading.Thread:
    """Say it on a terminal that may be gone, or that nobody reads: nothing waits for that long."""

    def say() -> None:
        with contextlib.suppress(OSError):
            os.write(sys.stderr.fileno(), f"robo-rl watchdog: {text}\n".encode())

    saying = threading.Thread(target=say, daemon=True)
    saying.start()
    return saying


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # threads of a library do not keep it: nothing is left to do
