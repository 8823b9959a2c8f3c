"""``robo-rl distill``: an experiment up to its stage ``distill``."""

from __future__ import annotations

from robo_rl.cli.json_file import Json
from robo_rl.cli.stages import RUNS, Name, Out, Overrides, execute


def run(
    experiment: Name, overrides: Overrides = None, out: Out = RUNS, json_file: Json = None
) -> None:
    """Run an experiment up to its one-step policy; what is done already is not done again."""
    execute(experiment, overrides, out, json_file, until="distill")
