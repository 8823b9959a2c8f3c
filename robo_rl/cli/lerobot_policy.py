"""``robo-rl lerobot-policy``: prints the settings of a policy with a LeRobot folder's networks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="SmolVLA, π0 or π0.5 of save_pretrained.")
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Config to write; printed if left out.")
    ] = None,
) -> None:
    """Print or write the policy of an experiment whose clone begins with the folder's weights."""
    from robo_rl.config.models import to_yaml
    from robo_rl.core.atomic_files import write_file
    from robo_rl.nets.vla.lerobot.config import read_config
    from robo_rl.nets.vla.lerobot.networks import policy_settings

    text = to_yaml({"policy": policy_settings(folder, read_config(folder).config)})
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_file(out, text.encode())
