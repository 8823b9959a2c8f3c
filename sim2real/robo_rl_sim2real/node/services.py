"""What others may ask of a node by services, where its transport has any."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from robo_rl.core.errors import ConfigError
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.node.requests import Requests
from robo_rl_sim2real.transport.base import Managed, Reply, Transport

ASKED = ("activate", "home", "deactivate", "reset")


def offer(
    transport: Transport, requests: Requests, stop: Callable[[], None], state: Callable[[], State]
) -> str:
    """Serve ``~/activate``, ``~/home``, ``~/deactivate``, ``~/reset`` and ``~/stop``: Trigger.

    Where the transport has a lifecycle of its own, that asks for the same things.

    Args:
        transport: The node's.
        requests: Its requests.
        stop: What stops the robot; called at once and in the transport's thread, for it must work
            where the loop hangs.
        state: Of the policy.

    Returns:
        A line on what is served, or on why nothing is.
    """

    def stopped() -> Reply:
        stop()
        return Reply(True, "stopped; a reset clears it")

    try:
        transport.serve("~/stop", stopped)
        for what in ASKED:
            transport.serve(f"~/{what}", partial(requests.ask, what))
    except ConfigError as error:
        return f"no services here: {error}"
    if isinstance(transport, Managed):
        transport.manage(requests.ask, state)
    return f"services: {', '.join(f'~/{name}' for name in ('stop', *ASKED))}"
