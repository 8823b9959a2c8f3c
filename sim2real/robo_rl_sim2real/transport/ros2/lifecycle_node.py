"""The managed node that rclpy sees: transitions are requests, and it follows the policy's state.

Only imported where rclpy is.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.node import Node

from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.core.ros2_states import Primary, Transition, primary, transitions_between
from robo_rl_sim2real.transport.base import Ask, ServiceResponse

_FOLLOW_S = 0.05


class PolicyNode(LifecycleNode):
    """A node whose lifecycle is a policy's.

    Args:
        name: Of the node.
        context: In which it lives.
        namespace: Of the node.
    """

    def __init__(self, name: str, context: Any, namespace: str) -> None:
        self._ask: Ask = _no_policy
        self._follows = False
        super().__init__(name, context=context, namespace=namespace)

    def create_plain_publisher(self, *args: Any, **kwargs: Any) -> Any:
        """One that publishes in every state: the way to rest goes on when the policy does not."""
        return Node.create_publisher(self, *args, **kwargs)

    def attach_lifecycle(self, ask: Ask, state: Callable[[], State]) -> None:
        """See ``Managed``.

        In the group of the lifecycle's services, so that it never meets a change that is asked for.
        """
        self._ask = ask
        self.create_timer(_FOLLOW_S, lambda: self._follow(primary(state())))

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """See ``LifecycleNode``; likewise below."""
        return self._grant(Transition.CONFIGURE)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Nothing is let go but the right to begin: another bundle is another process."""
        return self._grant(Transition.CLEANUP)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Only where the policy may begin; what keeps it is logged."""
        return self._grant(Transition.ACTIVATE)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """The robot is brought to rest."""
        return self._grant(Transition.DEACTIVATE)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """The robot is brought to rest, and the process ends."""
        return self._grant(Transition.SHUTDOWN)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Something above broke: to rest, and to the beginning."""
        self._ask(Transition.DEACTIVATE.value)
        self._ask(Transition.CLEANUP.value)
        return TransitionCallbackReturn.SUCCESS

    def _grant(self, transition: Transition) -> TransitionCallbackReturn:
        if self._follows:
            return TransitionCallbackReturn.SUCCESS
        reply = self._ask(transition.value)
        if reply.success:
            return TransitionCallbackReturn.SUCCESS
        self.get_logger().warning(reply.message)
        return TransitionCallbackReturn.FAILURE

    def _follow(self, wanted: Primary) -> None:
        """Make the changes that the policy made by itself: by a fault, a topic, a long hold."""
        at = Primary(self._state_machine.current_state[1])
        self._follows = True
        try:
            for transition in transitions_between(at, wanted):
                getattr(self, f"trigger_{transition.value}")()
        finally:
            self._follows = False


def _no_policy(what: str) -> ServiceResponse:
    return ServiceResponse(False, f"cannot {what}: no policy is there yet")
