"""Message types of FollowJointTrajectory goals for rosbags, which has no actions.

Source: control_msgs' interface definitions common to Humble, Jazzy and Kilted. Later versions add
an ``effort`` to joint tolerances. The goals sent here have no tolerances, so their bytes are the
same.
"""

from __future__ import annotations

from typing import Any

from rosbags.interfaces import Nodetype
from rosbags.typesys import get_types_from_msg
from rosbags.typesys.store import Typestore

from robo_rl_sim2real.messages.trajectory import FOLLOW

GOAL = f"{FOLLOW}_Goal"
SEND = f"{FOLLOW}_SendGoal"
"""The send-goal service; its request and response are ``…_Request`` and ``…_Response``."""

_JOINT = """string name
float64 position
float64 velocity
float64 acceleration
"""
_COMPONENT = """string joint_name
uint16 component
float64 position
float64 velocity
float64 acceleration
"""
_GOAL = """trajectory_msgs/JointTrajectory trajectory
trajectory_msgs/MultiDOFJointTrajectory multi_dof_trajectory
control_msgs/JointTolerance[] path_tolerance
control_msgs/JointComponentTolerance[] component_path_tolerance
control_msgs/JointTolerance[] goal_tolerance
control_msgs/JointComponentTolerance[] component_goal_tolerance
builtin_interfaces/Duration goal_time_tolerance
"""
_TEXTS = {
    "control_msgs/msg/JointTolerance": _JOINT,
    "control_msgs/msg/JointComponentTolerance": _COMPONENT,
}
_EVENT = "service_msgs/msg/ServiceEventInfo"


def register_action_types(store: Typestore) -> None:
    """Register the action's types in a store of rosbags."""
    if SEND in store.fielddefs:
        return
    found: dict[str, Any] = {}
    for name, text in _TEXTS.items():
        found |= get_types_from_msg(text, name)
    found[GOAL] = next(iter(get_types_from_msg(_GOAL, "control_msgs/msg/Goal").values()))
    request = {"goal_id": _named("unique_identifier_msgs/msg/UUID"), "goal": _named(GOAL)}
    answer = {"accepted": _plain("bool"), "stamp": _named("builtin_interfaces/msg/Time")}
    found |= {f"{SEND}_Request": _struct(request), f"{SEND}_Response": _struct(answer)}
    store.register(found)


def service_hash(store: Typestore) -> str:
    """Return the type hash of the service (REP 2016); empty without hashes, as in Humble.

    A service is hashed as a message of its request, its response and its event.
    """
    if _EVENT not in store.fielddefs:
        return ""
    request, answer, event = (f"{SEND}_{part}" for part in ("Request", "Response", "Event"))
    told = {"info": _named(_EVENT), "request": _one(request), "response": _one(answer)}
    parts = {"request_message": request, "response_message": answer, "event_message": event}
    whole = {name: _named(part) for name, part in parts.items()}
    defined = store.fielddefs | {event: _struct(told), SEND: _struct(whole), _EVENT: _octets(store)}
    return _hashing(defined).hash_rihs01(SEND)


def _hashing(defined: dict[str, Any]) -> Typestore:
    store = Typestore()
    store.fielddefs.update(defined)
    return store


def _octets(store: Typestore) -> Any:
    """Return the event type as ROS 2 hashes it; rosbags has characters for ``client_gid``."""
    constants, fields = store.fielddefs[_EVENT]
    gid = Nodetype.ARRAY, (_plain("uint8"), 16)
    return constants, [(name, gid if name == "client_gid" else node) for name, node in fields]


def _struct(fields: dict[str, Any]) -> Any:
    return [], list(fields.items())


def _named(name: str) -> Any:
    return Nodetype.NAME, name


def _plain(name: str) -> Any:
    return Nodetype.BASE, (name, 0)


def _one(name: str) -> Any:
    """Return a sequence type of at most one element."""
    return Nodetype.SEQUENCE, (_named(name), 1)
