"""What others may ask of a node by services, where its transport has any."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from robo_rl.core.errors import ConfigError
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.node.requests import Requests
from robo_rl_sim2real.transport.base import LifecycleTransport, ServiceResponse, Transport

ASKED = ("activate", "home", "deactivate", "reset")


def offer_services(
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

    def stopped() -> ServiceResponse:
        stop()
        return ServiceResponse(True, "stopped; a reset clears it")

    try:
        transport.create_service("~/stop", stopped)
        for what in ASKED:
            transport.create_service(f"~/{what}", partial(requests.submit_and_wait, what))
    except ConfigError as error:
        return f"no services here: {error}"
    if isinstance(transport, LifecycleTransport):
        transport.attach_lifecycle(requests.submit_and_wait, state)
    return f"services: {', '.join(f'~/{name}' for name in ('stop', *ASKED))}"
