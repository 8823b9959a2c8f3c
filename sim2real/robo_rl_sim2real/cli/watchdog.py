"""Starts the watchdog process of a node, according to its settings."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

from robo_rl_sim2real.node.node import Node
from robo_rl_sim2real.node.settings import DeploySettings
from robo_rl_sim2real.watchdog.guard import Watchdog
from robo_rl_sim2real.watchdog.job import UnfinishedOutputs, WatchdogJob, limits_by_name

NOTHING = UnfinishedOutputs()


@contextmanager
def with_watchdog(
    node: Node, settings: DeploySettings, estate: UnfinishedOutputs = NOTHING
) -> Generator[None]:
    """Run a watchdog inside the context; the robot moves only while the watchdog lives.

    If commands are still sent at the end, the watchdog goes on: it brakes the robot once commands
    cease, and ends after this process.

    Args:
        node: The node.
        settings: Its settings.
        estate: Outputs that the watchdog finishes if this process is killed.

    Raises:
        DeviceError: The watchdog does not start.
    """
    if not settings.watchdog.enabled:
        yield
        return
    watchdog = Watchdog(settings.watchdog, watchdog_job(node, settings, estate))
    node.guard = watchdog
    try:
        yield
    finally:
        if not watchdog.is_armed:
            watchdog.close()


def watchdog_job(
    node: Node, settings: DeploySettings, estate: UnfinishedOutputs = NOTHING
) -> WatchdogJob:
    """Return the job description of the node's watchdog."""
    limits = node.runtime.parts.safety.limits
    return WatchdogJob(
        pid=os.getpid(),
        transport=settings.transport,
        state=settings.state,
        limits=limits_by_name(limits),
        command_timeout_s=settings.watchdog.command_timeout_s,
        hang_timeout_s=settings.watchdog.hang_timeout_s,
        final_hold_s=settings.lifecycle.final_hold_s,
        command_topics=node.wiring.command_topics,
        dt_s=limits.dt_s,
        unfinished=estate,
    )
