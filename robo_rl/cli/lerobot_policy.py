"""``robo-rl lerobot-policy``: LeRobot's policies as settings, and policies as LeRobot's folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="SmolVLA, π0 or π0.5 of save_pretrained.")
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Config, or folder, to write.")
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(metavar="POLICY", help="Policy of a run, to write for LeRobot into --out."),
    ] = None,
) -> None:
    """Print or write the policy of an experiment whose clone begins with the folder's weights.

    With --policy, write that policy, whose networks are those of FOLDER, for LeRobot.
    """
    if policy is not None:
        _write_policy(folder, policy, out)
        return
    from robo_rl.config.models import to_yaml
    from robo_rl.core.atomic_files import write_file
    from robo_rl.nets.vla.lerobot.config import read_config
    from robo_rl.nets.vla.lerobot.networks import policy_settings

    text = to_yaml({"policy": policy_settings(folder, read_config(folder).config)})
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_file(out, text.encode())


def _write_policy(folder: Path, policy: Path, out: Path | None) -> None:
    from robo_rl.core.errors import ConfigError
    from robo_rl.export.lerobot_policy import write_lerobot_policy
    from robo_rl.train.checkpoint.policies import load_policy

    if out is None or out.exists():
        found = "none" if out is None else f"{out}, which exists"
        raise ConfigError("--out", expected="a folder to make", found=found)
    write_lerobot_policy(load_policy(policy), folder, out)
    typer.echo(f"written: {out}")
