"""Pilots of a suite: equally many settings of every method, tried where nothing is reported.

    pilots:
      experiment: {stages: {online: {updates: 40}}}      # what pilots change of the experiment
      tasks: {door: {env: {task: door-open-v3}}}         # label → overrides, as for a suite
      cells: {door: {dppo: {…}}}                         # overrides of one task under one method
      seeds: [100]
      settings: {default: [{}, {gamma: 0.999}], dppo: [{}, {stages: {…}}]}
      select_by: final                                   # or area, of the curve over env steps

Setting i of method NAME is the pilot ``NAME@i``: a method of a suite of its own, in the folder
``pilots`` of the suite. The best setting, by ``select_by``, is that of the reported cells.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import Field, model_validator

from robo_rl.bench.suite.config_layers import empty_layer
from robo_rl.bench.suite.labels import Label, unknown_label
from robo_rl.config.models import ConfigModel
from robo_rl.config.yaml_nodes import YamlNode

FOLDER = "pilots"
"""Folder of the pilots within the results and runs of their suite."""

Nodes = dict[str, YamlNode]

SelectBy = Literal["final", "area"]
"""``final``: final score; ``area``: mean of the learning curve over env steps."""


class PilotsConfig(ConfigModel):
    """Pilots of a suite without their overrides, of which only labels and numbers are kept."""

    experiment: dict[str, Any] = Field(default_factory=dict)
    """Overrides that all pilots share."""
    tasks: dict[Label, Any] = Field(min_length=1)
    """Label → overrides of a pilot's task."""
    cells: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Task → method → overrides of one pilot cell."""
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = Field(min_length=1)
    """Seeds of every pilot."""
    settings: dict[str, tuple[dict[str, Any], ...]]
    """Method → overrides of each setting; every method has equally many."""
    select_by: SelectBy = "final"
    """Score by which a method's setting is chosen, as a mean over tasks and seeds."""

    @model_validator(mode="after")
    def _every_method_is_tried_equally_often(self) -> PilotsConfig:
        numbers = {method: len(found) for method, found in self.settings.items()}
        if len(set(numbers.values())) != 1 or min(numbers.values()) < 2:
            counts = ", ".join(f"{method} {number}" for method, number in numbers.items())
            raise ValueError(f"settings: expected equally many of every method, found {counts}")
        return self

    def unknown(self, methods: Collection[str]) -> Iterator[str]:
        """Yield the problems of labels that do not fit the suite's methods."""
        for method in self.settings:
            yield from unknown_label("pilots.settings", "method", method, methods)
        for method in methods:
            if method not in self.settings:
                yield f"pilots.settings: none of method '{method}'; every method needs as many"
        for task, own in self.cells.items():
            yield from unknown_label("pilots.cells", "task", task, self.tasks)
            for method in own:
                yield from unknown_label(f"pilots.cells.{task}", "method", method, methods)


class PilotOrigin(ConfigModel):
    """Origin of a reported cell's setting: the chosen pilot, of how many, and their digest."""

    pilot: str
    of: int
    digest: str


def pilot_name(method: str, index: int) -> str:
    """Return the method name of a setting, which no method of a suite can have."""
    return f"{method}@{index}"


def method_of(pilot: str) -> str:
    """Return the method of a pilot."""
    return pilot.rpartition("@")[0]


def pilot_settings(nodes: Mapping[str, YamlNode]) -> Nodes:
    """Return pilot → overrides, of all methods; nodes are those of the key ``pilots``."""
    lists = cast("Nodes", nodes["settings"].value).items()
    return {
        pilot_name(method, i): item
        for method, node in lists
        for i, item in enumerate(cast("list[YamlNode]", node.value))
    }


def pilot_overlays(nodes: Mapping[str, YamlNode], methods: Nodes) -> dict[str, Nodes]:
    """Return the overlays of the suite of pilots; see ``SuitePlan.overlays``."""
    names = pilot_settings(nodes)
    cells: Nodes = {}
    for task, node in cast("Nodes", nodes.get("cells", empty_layer()).value).items():
        own = cast("Nodes", node.value)
        mine = {name: own[method_of(name)] for name in names if method_of(name) in own}
        cells[task] = YamlNode(mine, node.origin)
    return {
        "tasks": cast("Nodes", nodes["tasks"].value),
        "methods": {name: methods[method_of(name)] for name in names},
        "cells": cells,
        "pilots": {},
    }


def blank_settings(node: YamlNode) -> YamlNode:
    """Return the settings of pilots without their overrides; a wrong type stays for validation."""
    if not isinstance(node.value, dict):
        return node
    lists = cast("Nodes", node.value)
    blank = {
        method: YamlNode([YamlNode({}, each.origin) for each in own.value], own.origin)
        if isinstance(own.value, list)
        else own
        for method, own in lists.items()
    }
    return YamlNode(blank, node.origin)
