"""The watchdog's process; ``Watchdog`` starts it.

    python -m robo_rl_sim2real.watchdog FILE    # an inherited file; its orders come on stdin

It ends with 0 when the policy process has ended in order, with 3 after it has stopped the robot.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Sequence

from robo_rl.errors import RoboRlError
from robo_rl_sim2real.ticks import Clock, settle
from robo_rl_sim2real.transport.base import POLICY
from robo_rl_sim2real.watchdog.block import Block
from robo_rl_sim2real.watchdog.judge import Verdict
from robo_rl_sim2real.watchdog.orders import Orders
from robo_rl_sim2real.watchdog.process import Process
from robo_rl_sim2real.watchdog.watch import open_mouth, stop, watch

_STOPPED = 3


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
        _say(str(error))
        return 2


def _watch(orders: Orders, policy: Process, block: Block) -> int:
    transport, clock, said = orders.transport.build(f"{POLICY}_watchdog"), Clock(), ""
    try:
        mouth = open_mouth(orders, transport)
        settle()
        found = watch(block, policy, orders.dt_s + orders.grace_s, clock)
        if found.verdict is Verdict.LEAVE:
            return 0
        problem = stop(block, policy, mouth, orders, clock)
        said = f"the policy process {found.why}; the robot was brought to rest{problem}"
        return _STOPPED
    finally:
        transport.close()
        if said:
            _say(said)


def _say(text: str) -> None:
    """On a terminal that may be gone, or that nobody reads: this process ends all the same."""

    def say() -> None:
        with contextlib.suppress(OSError):
            os.write(sys.stderr.fileno(), f"robo-rl watchdog: {text}\n".encode())

    saying = threading.Thread(target=say, daemon=True)
    saying.start()
    saying.join(1.0)


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # threads of a library do not keep it: nothing is left to do
