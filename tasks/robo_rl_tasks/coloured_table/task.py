"""Four skills on a table with coloured cubes and pads, told apart by an instruction alone.

Shapes: B envs, C cubes, P pads. Each world has a goal of its own: a skill, a cube, a pad, and a
sentence that says them. The goal as indices is an item of the observation, for critics and experts;
a policy that is to follow the instruction leaves it out of ``policy.sees``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator

from robo_rl import ConfigError, Reset, TensorSpec
from robo_rl_tasks.coloured_table import skills
from robo_rl_tasks.coloured_table.expert import TableExpert, TableExpertConfig
from robo_rl_tasks.coloured_table.goals import CUBES, GOAL, PADS, SKILLS, Goal, Split, goals
from robo_rl_tasks.coloured_table.layout import build_scene, draw_layout, start_state
from robo_rl_tasks.tabletop_task import TabletopConfig, TabletopTask

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from robo_rl import SimView


class ColouredTableConfig(TabletopConfig):
    """Settings of ``ColouredTable`` besides those of ``TabletopConfig``.

    Args:
        skills: Skills that are asked for.
        goals: Goals that are drawn: those of training, those that are held out, or all.
        sentences: Sentences that are drawn, likewise.
        instruction: ``right``; or ``wrong``: the sentence of another goal, as a control.
        cube_half_m: Half the edge of the cubes.
        expert: Settings of the scripted demonstrator.
    """

    skills: tuple[Literal["reach", "lift", "push", "press"], ...] = SKILLS
    goals: Split = "train"
    sentences: Split = "train"
    instruction: Literal["right", "wrong"] = "right"
    cube_half_m: float = Field(default=0.02, gt=0)
    episode_s: float = Field(default=7.0, gt=0)
    """Time limit."""
    expert: TableExpertConfig = TableExpertConfig()

    @field_validator("skills")
    @classmethod
    def _some_skill_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or len(set(value)) < len(value):
            raise ValueError(f"{list(value)}: expected at least one skill, each once")
        return value


class ColouredTable(TabletopTask[ColouredTableConfig]):
    """The task of doing with coloured objects what an instruction says.

    ``sentences`` are all instructions; the goal ``instruction`` is the index of a world's.
    ``task_names`` are the skills; the goal ``task`` is the index of a world's.

    Args:
        cfg: Settings.

    Raises:
        ConfigError: No goal of these skills is in the split.
    """

    Config = ColouredTableConfig
    weights: ClassVar = {"near": 0.03, "rest": 0.05}

    def __init__(self, cfg: ColouredTableConfig) -> None:
        import torch

        super().__init__(cfg)
        self.goals = goals(cfg.skills, cfg.goals)
        if not self.goals:
            found = f"goals: {cfg.goals} of the skills {', '.join(cfg.skills)}"
            raise ConfigError("no goal to draw", where="task.goals", found=found)
        if cfg.instruction == "wrong" and len(self.goals) < 2:
            expected = "two goals, of which one is told in place of the other"
            raise ConfigError("no other goal to tell", where="task.instruction", expected=expected)
        self.task_names: tuple[str, ...] = tuple(cfg.skills)
        self.sentences = tuple(
            dict.fromkeys(text for goal in self.goals for text in goal.sentences(cfg.sentences))
        )
        self._tellings = _tellings(self.goals, self.sentences, self.task_names, cfg.sentences)
        self.weigh_tasks(torch.ones(len(self.task_names)))

    def weigh_tasks(self, weights: Tensor) -> None:
        """Draw the tasks of new episodes in proportion to weights (number of tasks,)."""
        task = self._tellings[:, 0]
        share = weights.double() / weights.double().sum() / task.bincount(minlength=len(weights))
        self._shares = share[task]

    def scene(self) -> Any:
        """Return the scene: robot, table, three cubes, two pads, and a camera opposite the arm."""
        return build_scene(self.robot, self.cfg.cube_half_m)

    def reset(self, num: int, generator: torch.Generator) -> Reset:
        """Draw the arm about its start, the objects, and for each world a goal and a sentence."""
        import torch

        arm = self._start(num, generator)
        start = start_state(arm, draw_layout(num, self.cfg.cube_half_m, generator))
        drawn = torch.multinomial(self._shares, num, replacement=True, generator=generator)
        task, goal, told = self._tellings[drawn].split([1, 3, 1], dim=1)
        if self.cfg.instruction == "wrong":
            told = self._told_otherwise(goal, generator)
        words = {"task": task.squeeze(1), GOAL: goal, "instruction": told.squeeze(1)}
        return start._replace(goal={**start.goal, **words})

    def success(self, view: SimView) -> Tensor:
        """Return whether each world's goal is reached, (B,) bool."""
        return skills.success(self.look(view), self.cfg.cube_half_m)

    def expert(self, num_envs: int, generator: torch.Generator, noise: float = 0.0) -> TableExpert:
        """Return a scripted demonstrator of num_envs envs, see ``TableExpert``."""
        cfg = self.cfg
        return TableExpert(self, self.look, cfg.expert, cfg.cube_half_m, num_envs, generator, noise)

    def look(self, view: SimView) -> skills.Scene:
        """Return what the goals are about."""
        skill, cube, pad = view.goal[GOAL].to(view.sensordata.device).unbind(1)
        return skills.Scene(
            skill=skill,
            cube=skills.named(skills.cube_positions(view), cube),
            pad=skills.named(skills.pad_positions(view), pad).to(view.sensordata),
            hand=view.sensor("ee_pos"),
            opening=self._gripper_pos(view)[:, 0],
        )

    def _told_otherwise(self, goal: Tensor, generator: torch.Generator) -> Tensor:
        """Return the index (n, 1) of a sentence of another goal than goal (n, 3)."""
        import torch

        others = (self._tellings[None, :, 1:4] != goal[:, None]).any(dim=2).double()
        row = torch.multinomial(others, 1, generator=generator)
        return self._tellings[row.squeeze(1), 4:]

    def _progress(self, view: SimView) -> dict[str, Tensor]:
        holding = self.gripper_pos_for_width(2 * self.cfg.cube_half_m)
        half_m = self.cfg.cube_half_m
        return skills.progress(self.look(view), half_m, self.gripper.open, holding)

    def _task_items(self) -> dict[str, TensorSpec]:
        return {
            "cubes_pos": TensorSpec(shape=(3 * len(CUBES),), unit="m", frame="world"),
            "cubes_heading": TensorSpec(shape=(2 * len(CUBES),)),
            "pads_pos": TensorSpec(shape=(2 * len(PADS),), unit="m", frame="world"),
            GOAL: TensorSpec(shape=(len(SKILLS) + len(CUBES) + len(PADS),)),
            "object_from_ee": TensorSpec(shape=(6,), unit="m", frame="world"),
        }

    def _observe_task(self, view: SimView) -> dict[str, Tensor]:
        import torch

        scene = self.look(view)
        pads = skills.pad_positions(view).to(view.sensordata)
        to_pad = torch.cat([scene.pad - scene.hand[:, :2], -scene.hand[:, 2:]], dim=1)
        return {
            "cubes_pos": skills.cube_positions(view).flatten(1),
            "cubes_heading": skills.cube_headings(view).flatten(1),
            "pads_pos": pads.flatten(1),
            GOAL: _one_hot(view.goal[GOAL].to(view.sensordata.device)).to(view.sensordata),
            "object_from_ee": torch.cat([scene.cube - scene.hand, to_pad], dim=1),
        }


def _tellings(
    chosen: list[Goal], sentences: tuple[str, ...], tasks: tuple[str, ...], split: Split
) -> Tensor:
    """Return a row (task, skill, cube, pad, sentence) of each goal and each of its sentences."""
    import torch

    return torch.tensor(
        [
            [tasks.index(goal.skill), *goal.indices, sentences.index(text)]
            for goal in chosen
            for text in goal.sentences(split)
        ]
    )


def _one_hot(goal: Tensor) -> Tensor:
    """Return skill, cube and pad (B, 3) as one-hot vectors side by side; none is all zeros."""
    import torch
    from torch.nn import functional as F

    sizes = len(SKILLS), len(CUBES), len(PADS)
    parts = [F.one_hot(goal[:, i] + 1, size + 1)[:, 1:] for i, size in enumerate(sizes)]
    return torch.cat(parts, dim=1)
