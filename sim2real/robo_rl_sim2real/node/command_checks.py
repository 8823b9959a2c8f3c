"""Checks that the commands have a receiver that accepts them, and no other publisher."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from robo_rl_sim2real.control.commands.topic import CommandTopic
from robo_rl_sim2real.node.graph_checks import EndpointSource, GraphCheck
from robo_rl_sim2real.transport.base import (
    NEWEST,
    AnsweredPublisher,
    Endpoint,
    GoalCounts,
    qos_incompatibility,
)

_RECEIVER_REMEDY = (
    "start the controller, or set command.topic and command.kind to what it subscribes to"
)

_REFUSAL_REMEDY = "activate the controller, or see in its log why it refuses goals"

_RIVALS_REMEDY = "stop the other, or command.exclusive=false; a killed one is forgotten after 10 s"


def receiver_checks(
    topics: Sequence[CommandTopic], answered: Mapping[str, AnsweredPublisher]
) -> list[GraphCheck]:
    """Return the checks that the commands are received and accepted.

    "No topic is received" and "some topics are not received" are two checks. In the first case
    another node can move the robot, in the second the robot is still commanded.

    Args:
        topics: All topics of the commands.
        answered: Action → publisher of its goals.
    """
    subject = "the commands have no receiver"
    whole, some = (partial(_find_unheard, topics, whole=whole) for whole in (True, False))
    refused = RefusedGoals(answered)
    return [
        GraphCheck(subject, whole, _RECEIVER_REMEDY, "commands"),
        GraphCheck(subject, some, _RECEIVER_REMEDY),
        GraphCheck(
            "the controller refuses the commands", lambda _: refused.poll(), _REFUSAL_REMEDY
        ),
    ]


def exclusive_check(topics: Sequence[CommandTopic], allowed: Callable[[], int]) -> GraphCheck:
    """Return the check that no other node publishes commands.

    Args:
        topics: All topics of the commands.
        allowed: Returns the number of publishers of the watchdog, which may send beside the node.
    """

    def find(graph: EndpointSource) -> str:
        found = list[str]()
        for outlet in topics:
            ends = graph.endpoints(outlet.topic, action=outlet.action)
            others = [end.node or "unnamed node" for end in ends if end.writes]
            if len(others) > allowed():
                found.append(f"{outlet.topic}: published by {', '.join(sorted(others))}")
        return "; ".join(found)

    return GraphCheck("another node publishes the commands", find, _RIVALS_REMEDY)


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


def missing_receivers(graph: EndpointSource, outlets: Sequence[CommandTopic]) -> list[str]:
    """Return the command topics that no node receives, each with the reason.

    A recorder that subscribes to a command topic counts as a receiver, since the graph does not
    tell it from a controller.
    """
    found = list[str]()
    for outlet in outlets:
        ends = graph.endpoints(outlet.topic, action=outlet.action)
        if why := _unreceived(outlet, [end for end in ends if not end.writes]):
            found.append(f"{outlet.topic}: {why}")
    return found


def _find_unheard(topics: Sequence[CommandTopic], graph: EndpointSource, *, whole: bool) -> str:
    """Return the command topics without a receiver, if these are all or only some of them."""
    found = missing_receivers(graph, topics)
    return "; ".join(found) if whole is (len(found) == len(topics)) else ""


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
