"""The watchdog's process; ``Watchdog`` starts it.

    python -m robo_rl_sim2real.watchdog FILE    # an inherited file; the job comes on stdin

Exit status: 0 if the policy process ends by itself without sending commands, 3 after the watchdog
has stopped the robot. The watchdog also finishes the outputs of a killed process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Sequence

from robo_rl.core.errors import RoboRlError
from robo_rl_sim2real.core.clock import boot_clock, freeze_garbage_collector
from robo_rl_sim2real.transport.base import POLICY
from robo_rl_sim2real.watchdog.assessment import WatchdogAction
from robo_rl_sim2real.watchdog.heartbeat import HeartbeatMemory
from robo_rl_sim2real.watchdog.job import WatchdogJob
from robo_rl_sim2real.watchdog.loop import open_stop_publishers, run_watchdog, stop_robot
from robo_rl_sim2real.watchdog.process import ProcessHandle
from robo_rl_sim2real.watchdog.unfinished_outputs import finish_outputs

_STOPPED = 3
_READ_S = 1.0
"""Time limit for a message to the terminal."""


def main(words: Sequence[str]) -> int:
    """Watch the parent process until it ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a signal to the policy must not end its watchdog
    try:
        orders = WatchdogJob.model_validate_json(sys.stdin.read())
        policy = ProcessHandle(orders.pid)
        if os.getppid() != orders.pid:  # it is gone, and its pid may be reused
            return 0
        return _watch(
            orders, policy, HeartbeatMemory.map_file(int(words[0]), len(orders.limits["low"]))
        )
    except RoboRlError as error:
        _saying(str(error)).join(_READ_S)
        return 2


def _watch(orders: WatchdogJob, policy: ProcessHandle, block: HeartbeatMemory) -> int:
    transport, clock, said = orders.transport.build(f"{POLICY}_watchdog"), boot_clock(), ""
    try:
        mouth = open_stop_publishers(orders, transport)
        freeze_garbage_collector()
        found = run_watchdog(block, policy, mouth, orders, clock)
        if not found.reason:
            return 0
        what, stopped = f"the policy process {found.reason}", found.action is WatchdogAction.STOP
        if stopped:
            announcing = _saying(f"{what}; it is ended, and the robot brought to rest")
            what += (
                f"; the robot was brought to rest{stop_robot(block, policy, mouth, orders, clock)}"
            )
            announcing.join(_READ_S)
        said = "; ".join([what, *finish_outputs(orders.unfinished, what, block.policy.read())])
        return _STOPPED if stopped else 0
    finally:
        transport.close()
        if said:
            _saying(said).join(_READ_S)


def _saying(text: str) -> threading.Thread:
    """Print in a thread, because the terminal may be gone or blocked."""

    def say() -> None:
        with contextlib.suppress(OSError):
            os.write(sys.stderr.fileno(), f"robo-rl watchdog: {text}\n".encode())

    saying = threading.Thread(target=say, daemon=True)
    saying.start()
    return saying


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # does not wait for the threads of libraries
