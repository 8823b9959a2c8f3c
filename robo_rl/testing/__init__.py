"""Conformance suites for built-in and third-party components."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robo_rl.core.on_demand import on_demand

if TYPE_CHECKING:
    from robo_rl.testing.backend import check_backend
    from robo_rl.testing.env import check_branchable, check_vec_env
    from robo_rl.testing.policy import check_policy
    from robo_rl.testing.robot import check_robot
    from robo_rl.testing.task import check_task, demonstrate

# fmt: off
__all__ = [
    "check_backend", "check_branchable", "check_policy", "check_robot", "check_task",
    "check_vec_env", "demonstrate",
]
MODULES: dict[str, tuple[str, ...]] = {
    "robo_rl.testing.backend": ("check_backend",),
    "robo_rl.testing.env": ("check_branchable", "check_vec_env"),
    "robo_rl.testing.policy": ("check_policy",),
    "robo_rl.testing.robot": ("check_robot",),
    "robo_rl.testing.task": ("check_task", "demonstrate"),
}
# fmt: on
"""Module → its public names; they are imported at their first use."""

if not TYPE_CHECKING:  # so that a type checker reports unknown names
    __getattr__, __dir__ = on_demand(__name__, MODULES)
