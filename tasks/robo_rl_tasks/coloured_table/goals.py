"""What an arm can be told to do on the table: a skill, an object, and a place.

A goal is a row of three indices: skill, cube and pad, where -1 stands for none. Some goals and
some sentences are held out, so that a policy can be evaluated on what it was not trained on. Their
words all occur in training, except those of the last sentence of each skill.
"""

from __future__ import annotations

from itertools import product
from typing import Literal, NamedTuple

Split = Literal["train", "held_out", "all"]
"""Which goals or sentences are drawn."""

SKILLS = ("reach", "lift", "push", "press")
REACH, LIFT, PUSH, PRESS = range(len(SKILLS))
CUBES = {"red": (0.85, 0.15, 0.12), "green": (0.15, 0.65, 0.2), "blue": (0.15, 0.3, 0.85)}
"""Colour of each cube and its red, green and blue."""
PADS = {"yellow": (0.95, 0.85, 0.15), "purple": (0.55, 0.2, 0.7)}
"""Colour of each pad and its red, green and blue."""

GOAL = "goal"
"""Goal of a world, and item of the observation: skill, cube and pad."""

NONE = -1
HELD_OUT_GOALS = frozenset(
    {("reach", "green", ""), ("lift", "blue", ""), ("push", "red", "purple")}
)

SENTENCES = {
    "reach": (
        "reach the {cube} cube",
        "move the hand to the {cube} cube",
        "go over the {cube} cube",
    ),
    "lift": ("lift the {cube} cube", "pick up the {cube} cube", "raise the {cube} cube"),
    "push": (
        "push the {cube} cube to the {pad} pad",
        "slide the {cube} cube to the {pad} pad",
        "bring the {cube} cube to the {pad} pad",
    ),
    "press": ("press the {pad} pad", "touch the {pad} pad", "tap the {pad} pad"),
}
"""Sentences of training by skill."""

HELD_OUT_SENTENCES = {
    "reach": ("move over the {cube} cube", "hover above the {cube} cube"),
    "lift": ("lift up the {cube} cube", "grab the {cube} cube"),
    "push": (
        "slide the {cube} cube over to the {pad} pad",
        "shove the {cube} cube onto the {pad} pad",
    ),
    "press": ("press the hand to the {pad} pad", "poke the {pad} pad"),
}
"""Sentences for evaluation alone; the first of each skill has no new word."""


class Goal(NamedTuple):
    """A skill, and the colours of the cube and the pad that it is about; empty for none."""

    skill: str
    cube: str = ""
    pad: str = ""

    @property
    def indices(self) -> tuple[int, int, int]:
        """Skill, cube and pad as indices; -1 for none."""
        cube = tuple(CUBES).index(self.cube) if self.cube else NONE
        pad = tuple(PADS).index(self.pad) if self.pad else NONE
        return SKILLS.index(self.skill), cube, pad

    def sentences(self, split: Split) -> tuple[str, ...]:
        """Return the instructions for this goal."""
        train, held_out = SENTENCES[self.skill], HELD_OUT_SENTENCES[self.skill]
        chosen = {"train": train, "held_out": held_out, "all": train + held_out}[split]
        return tuple(sentence.format(cube=self.cube, pad=self.pad) for sentence in chosen)


def goals(skills: tuple[str, ...], split: Split) -> list[Goal]:
    """Return the goals of some skills."""
    found = [goal for skill in skills for goal in _goals_of(skill)]
    return [
        goal for goal in found if split == "all" or (goal in HELD_OUT_GOALS) == (split != "train")
    ]


def _goals_of(skill: str) -> list[Goal]:
    cubes = list(CUBES) if skill != "press" else [""]
    pads = list(PADS) if skill in ("push", "press") else [""]
    return [Goal(skill, cube, pad) for cube, pad in product(cubes, pads)]
