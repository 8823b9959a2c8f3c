"""What of an experiment's stages cannot work, known from their settings before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from robo_rl.errors import ConfigError
from robo_rl.registry import Component
from robo_rl.train.stage_class import Checked, Traits, traits


class Obstacle(NamedTuple):
    """A stage, and why it would fail."""

    stage: str
    problem: str


def obstacles(stages: Mapping[str, Component], policy: Component) -> Iterator[Obstacle]:
    """All that can be told.

    Args:
        stages: Label → stage, in order.
        policy: The experiment's.
    """
    made: set[str] | None = set()  # None as soon as anything may be there
    current: Component | None = policy
    for label, stage in stages.items():
        said = traits(stage.cls)
        yield from (Obstacle(label, problem) for problem in _missing(said, made))
        if said.begins_policy:
            current = getattr(stage.cfg, "policy", None) or policy
        if current is not None and isinstance(stage.cls, Checked):
            try:
                stage.cls.check(stage.cfg, current)
            except ConfigError as error:
                yield Obstacle(label, str(error))
        if said.changes_policy:
            current = None  # nobody knows it before it is made
        made = None if made is None or said.makes is None else made | set(said.makes)


def _missing(said: Traits, made: set[str] | None) -> Iterator[str]:
    for kind in said.needs:
        if made is not None and kind not in made:
            yield f"no earlier stage makes a {kind}; put one before this stage"
