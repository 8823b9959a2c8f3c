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
        typer.Option(metavar="POLICY", help="Policy or stage of a run, to write for LeRobot."),
    ] = None,
) -> None:
    """Print or write the policy of an experiment whose clone begins with the folder's weights.

    With --policy, write that policy, whose networks are those of FOLDER, for LeRobot.
    """
    from robo_rl.core.errors import ConfigError

    if out is not None and out.exists():
        raise ConfigError("--out", expected="a path where nothing is", found=out)
    if policy is not None:
        _write_policy(folder, policy, out)
        return
    from robo_rl.config.models import to_yaml
    from robo_rl.nets.vla.lerobot.config import read_config
    from robo_rl.nets.vla.lerobot.networks import policy_settings

    text = to_yaml({"policy": policy_settings(folder, read_config(folder).config)})
    if out is None:
        typer.echo(text, nl=False)
    else:
        _write_settings(out, text)


def _write_settings(out: Path, text: str) -> None:
    from robo_rl.core.atomic_files import make_directory, write_file
    from robo_rl.core.errors import ConfigError

    try:
        make_directory(out.parent)
        write_file(out, text.encode())
    except OSError as error:
        raise ConfigError("--out", expected="a file to write", found=f"{out}: {error}") from error
    typer.echo(f"written: {out}")


def _write_policy(folder: Path, policy: Path, out: Path | None) -> None:
    from robo_rl.core.errors import ConfigError
    from robo_rl.export.lerobot_policy import write_lerobot_policy
    from robo_rl.train.checkpoint.policies import load_policy
    from robo_rl.train.pipeline.stage import find_policy

    if out is None:
        raise ConfigError("--policy needs --out", expected="a folder to make", found="none")
    write_lerobot_policy(load_policy(find_policy(policy)[0]), folder, out)
    typer.echo(f"written: {out}")
