"""State of an object by the names of its parts, for checkpoints.

The methods ``state_dict`` and ``load_state_dict`` follow
``torch.distributed.checkpoint.stateful.Stateful``; a class lists its parts once:

    class Learner(Stateful):
        state_parts = ("policy", "optimizer", "updates")
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, cast

from robo_rl.core.errors import CheckpointError

KEPT_CHECKPOINTS = 3
"""Checkpoints of a training run that are kept."""


class Stateful:
    """An object whose state is that of its named parts.

    ``state_parts`` names attributes; a subclass adds its own to those of its bases. A part is an
    object with ``state_dict`` and ``load_state_dict``, a random generator, a dict of such parts,
    None, or a plain value. A plain value (a number, a string, a tensor, a dict of these) is
    replaced by a copy when a state is loaded. A property with a setter can store a part in
    another form. As with torch, copy a state that is not saved or loaded at once.
    """

    state_parts: ClassVar[tuple[str, ...]] = ()

    def state_dict(self) -> dict[str, Any]:
        """Return name → state of every part that is not None."""
        return self.states_of(_parts_of(type(self)))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the parts from ``state_dict``; ignore other keys.

        Raises:
            CheckpointError: See ``load_states_of``.
        """
        self.load_states_of(_parts_of(type(self)), state)
        self._loaded()

    def states_of(self, names: Iterable[str]) -> dict[str, Any]:
        """Return name → state of the named parts that are not None."""
        parts = {name: getattr(self, name) for name in names}
        return {name: _state_of(part) for name, part in parts.items() if part is not None}

    def load_states_of(self, names: Iterable[str], state: Mapping[str, Any]) -> None:
        """Restore the named parts from ``states_of``.

        Raises:
            CheckpointError: The state of a part is missing, or a part that is None has a state.
        """
        for name in names:
            part = getattr(self, name)
            if part is None and name not in state:
                continue
            if name not in state:
                raise CheckpointError(
                    f"state of '{name}' is missing",
                    where=type(self).__name__,
                    expected=", ".join(_parts_of(type(self))),
                    found=", ".join(map(str, state)),
                )
            if part is None and isinstance(state[name], dict):
                raise CheckpointError(
                    f"state of '{name}' has no part to load into",
                    where=type(self).__name__,
                    expected="no state, since the part is None",
                    found=", ".join(map(str, state[name])),
                    hint="load it under the settings that it was saved with",
                )
            if not _load(part, state[name]):
                setattr(self, name, _copied(state[name]))

    def _loaded(self) -> None:
        """Update attributes derived from the parts; called after all parts are loaded."""


def _parts_of(cls: type) -> list[str]:
    """Return the names of the parts of a class and of its bases, each once, bases first."""
    named = [name for base in reversed(cls.__mro__) for name in vars(base).get("state_parts", ())]
    return list(dict.fromkeys(cast("list[str]", named)))


def _state_of(part: Any) -> Any:
    if hasattr(part, "state_dict"):
        return part.state_dict()
    if hasattr(part, "get_state"):
        return part.get_state()
    if not isinstance(part, dict):
        return part
    return {key: _state_of(each) for key, each in cast("dict[Any, Any]", part).items()}


def _load(part: Any, state: Any) -> bool:
    """Load a part in place; return False for a plain value."""
    if hasattr(part, "load_state_dict"):
        part.load_state_dict(state)
    elif hasattr(part, "set_state"):
        part.set_state(state)
    elif _holds_parts(part):
        for key, each in part.items():
            if not _load(each, state[key]):
                part[key] = state[key]
    else:
        return False
    return True


def _copied(value: Any) -> Any:
    """Return a copy of a plain value that shares no memory with it."""
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in cast("dict[Any, Any]", value).items()}
    return value.clone() if hasattr(value, "clone") else value


def _holds_parts(part: Any) -> bool:
    if isinstance(part, dict):
        return any(_holds_parts(each) for each in cast("dict[Any, Any]", part).values())
    return hasattr(part, "load_state_dict") or hasattr(part, "set_state")


class Trainable(Stateful, ABC):
    """An object that is trained by gradient steps and resumed from its state."""

    @abstractmethod
    def step(self) -> dict[str, float]:
        """Take one gradient step; return its metrics."""
