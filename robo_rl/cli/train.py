"""``robo-rl train``: an experiment up to its stage ``online``."""

from __future__ import annotations

from robo_rl.cli.json_file import Json
from robo_rl.cli.stages import RUNS, Name, Out, Overrides, execute


def run(
    experiment: Name, overrides: Overrides = None, out: Out = RUNS, json_file: Json = None
) -> None:
    """Run an experiment up to its fine-tuned policy; what is done already is not done again."""
    execute(experiment, overrides, out, json_file, until="online")
