"""The managed ROS 2 node: its transitions are requests, and it follows the policy's state.

Only imported with rclpy.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.node import Node

from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.core.ros2_states import Primary, Transition, primary, transitions_between
from robo_rl_sim2real.transport.base import Ask, ServiceResponse

_FOLLOW_S = 0.05


class PolicyNode(LifecycleNode):
    """A node with the lifecycle of a policy.

    Args:
        name: Name of the node.
        context: Context of the node.
        namespace: Namespace of the node.
    """

    def __init__(self, name: str, context: Any, namespace: str) -> None:
        self._ask: Ask = _no_policy
        self._follows = False
        super().__init__(name, context=context, namespace=namespace)

    def create_plain_publisher(self, *args: Any, **kwargs: Any) -> Any:
        """Return a publisher for every state, because braking continues after deactivation."""
        return Node.create_publisher(self, *args, **kwargs)

    def attach_lifecycle(self, ask: Ask, state: Callable[[], State]) -> None:
        """See ``LifecycleTransport``.

        The timer is in the callback group of the lifecycle services, so it never runs during a
        requested transition.
        """
        self._ask = ask
        steady = Clock(clock_type=ClockType.STEADY_TIME)  # simulated time may stand still
        self.create_timer(_FOLLOW_S, lambda: self._follow(primary(state())), clock=steady)

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """See ``LifecycleNode``; submits the request ``configure``."""
        return self._grant(Transition.CONFIGURE)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Submit the request ``cleanup``; the bundle stays loaded."""
        return self._grant(Transition.CLEANUP)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Submit the request ``activate``; a refusal is logged."""
        return self._grant(Transition.ACTIVATE)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Submit the request ``deactivate``; the robot comes to rest."""
        return self._grant(Transition.DEACTIVATE)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Submit the request ``shutdown``; the robot comes to rest and the process ends."""
        return self._grant(Transition.SHUTDOWN)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Handle an error in a transition: bring the robot to rest and return to unconfigured."""
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
        """Repeat the transitions that the policy made itself, such as after a fault."""
        at = Primary(self._state_machine.current_state[1])
        self._follows = True
        try:
            for transition in transitions_between(at, wanted):
                getattr(self, f"trigger_{transition.value}")()
        finally:
            self._follows = False


def _no_policy(what: str) -> ServiceResponse:
    return ServiceResponse(False, f"cannot {what}: no policy is there yet")
