"""Who runs a node's callbacks: one thread for readings alone, others for all that may wait.

Only imported where rclpy is. rclpy's executor of several threads hands every message over, which
takes some times as long as hearing it; its executor of one is held up by whatever waits. So the
same node has both, and its callback groups say which of the two runs what.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

from typing import Any

from rclpy.executors import MultiThreadedExecutor, SingleThreadedExecutor

_THREADS = 4


class SubscriptionExecutor(SingleThreadedExecutor):
    """Runs what is in a group.

    Args:
        node: Whose; it belongs to the other executor.
        group: Of its subscriptions.
        context: The node's.
    """

    def __init__(self, node: Any, group: Any, context: Any) -> None:
        super().__init__(context=context)
        self._node, self._group = node, group

    def get_nodes(self) -> list[Any]:
        """The one."""
        return [self._node]

    def can_execute(self, entity: Any) -> bool:
        """Whether it is in the group, and its turn."""
        return entity.callback_group is self._group and super().can_execute(entity)


class ServiceExecutor(MultiThreadedExecutor):
    """Runs all but what is in a group: services, ROS 2's lifecycle, parameters.

    Args:
        group: Of the subscriptions.
        context: The node's.
    """

    def __init__(self, group: Any, context: Any) -> None:
        super().__init__(_THREADS, context=context)
        self._group = group

    def can_execute(self, entity: Any) -> bool:
        """Whether it is not in the group, and its turn."""
        return entity.callback_group is not self._group and super().can_execute(entity)
