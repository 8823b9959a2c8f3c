"""Services of a node, on transports that have services."""

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

    A transport with a ROS 2 lifecycle submits the same requests.

    Args:
        transport: Transport of the node.
        requests: Requests of the node.
        stop: Stops the robot. The transport's thread calls it immediately, so it works even if the
            loop hangs.
        state: Returns the state of the policy.

    Returns:
        A line on the services, or on why there are none.
    """

    def stopped() -> ServiceResponse:
        stop()
        return ServiceResponse(True, "stopped; a reset clears it")

    try:
        transport.create_service("~/stop", stopped)
        for what in ASKED:
            transport.create_service(f"~/{what}", partial(requests.submit_and_wait, what))
    except ConfigError as error:
        return f"runs without services, which is no failure: {error.problem}"
    if isinstance(transport, LifecycleTransport):
        transport.attach_lifecycle(requests.submit_and_wait, state)
    return f"services: {', '.join(f'~/{name}' for name in ('stop', *ASKED))}"
