"""Finds command topics that no node receives, and actions whose goals are refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from robo_rl_sim2real.control.commands.topic import CommandTopic
from robo_rl_sim2real.transport.base import (
    NEWEST,
    AnsweredPublisher,
    Endpoint,
    GoalCounts,
    Transport,
    qos_incompatibility,
)

REMEDY = "start the controller, or set command.topic and command.kind to what it subscribes to"

REFUSAL_REMEDY = "activate the controller, or see in its log why it refuses goals"


class RefusedGoals:
    """Watches the answers to goals. An inactive controller refuses them all.

    Args:
        publishers: Action → publisher of its goals.
    """

    def __init__(self, publishers: Mapping[str, AnsweredPublisher]) -> None:
        self._publishers = publishers
        self._before = {action: GoalCounts(0, 0) for action in publishers}

    def poll(self) -> str:
        """Return the actions that refused at least half of their goals since the last call."""
        found = list[str]()
        for action, publisher in self._publishers.items():
            now, before = publisher.count_goals(), self._before[action]
            sent, refused = now.sent - before.sent, now.refused - before.refused
            if sent and refused and 2 * refused >= sent:
                found.append(f"{action}: {refused} of {sent} goals were refused")
            self._before[action] = now
        return "; ".join(found)


def missing_receivers(transport: Transport, outlets: Iterable[CommandTopic]) -> list[str]:
    """Return the command topics that no node receives, each with the reason.

    A recorder that subscribes to a command topic counts as a receiver, since the graph does not
    tell it from a controller.
    """
    found = list[str]()
    for outlet in outlets:
        ends = transport.endpoints(outlet.topic, action=outlet.action)
        if why := _unreceived(outlet, [end for end in ends if not end.writes]):
            found.append(f"{outlet.topic}: {why}")
    return found


def _unreceived(outlet: CommandTopic, readers: list[Endpoint]) -> str:
    """Return why none of these subscribers receives the commands; empty if one does."""
    misfits = [_misfit(outlet, end) for end in readers]
    if "" in misfits:
        return ""
    return misfits[0] if misfits else "no node receives the commands"


def _misfit(outlet: CommandTopic, end: Endpoint) -> str:
    name = end.node or "unnamed node"
    if end.type != outlet.interface:
        return f"{name} subscribes to {end.type}, commands are {outlet.interface}"
    why = qos_incompatibility(NEWEST, end.qos)
    return f"{name}: {why}" if why else ""
