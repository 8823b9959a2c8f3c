"""``robo-rl data``: look into, verify and repair datasets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from robo_rl.cli.show import table
from robo_rl.errors import DataError

if TYPE_CHECKING:
    from robo_rl.data.verify import Report
    from robo_rl.data.zarr_store import ZarrStore

app = typer.Typer(no_args_is_help=True)

_Store = Annotated[Path, typer.Argument(help="Directory of the dataset, such as data.zarr.")]


@app.command()
def info(path: _Store) -> None:
    """Say what a dataset holds."""
    from robo_rl.data.zarr_store import ZarrStore

    store = ZarrStore.open(path)
    typer.echo(table(_summary(store)))
    typer.echo()
    arrays = store.schema.arrays.items()
    rows = [(key, spec.dtype, spec.shape, spec.unit, ", ".join(spec.names)) for key, spec in arrays]
    typer.echo(table(rows, header=("array", "dtype", "row", "unit", "names")))
    if store.schema.meta:
        typer.echo("\nmeta " + json.dumps(store.schema.meta, indent=2, ensure_ascii=False))


@app.command()
def verify(path: _Store) -> None:
    """Check every committed byte; every damaged file is listed."""
    from robo_rl.data.verify import verify

    report = verify(path)
    typer.echo(
        f"{report.episodes} episodes, {report.rows} rows, {report.chunks} chunks checked"
        f"{_asides(report)}"
    )
    for file, problem, episode in report.damage:
        of = "" if episode is None else f" (episode {episode})"
        typer.echo(f"{file}: {problem}{of}")
    if not report.ok:
        raise DataError(
            "is damaged",
            where=path,
            found=f"{len(report.damage)} problems",
            hint="`robo-rl data repair` keeps what is whole and sets the rest aside",
        )


@app.command()
def repair(path: _Store) -> None:
    """Set damaged episodes aside, so that the rest can be used; says what it did."""
    from robo_rl.data.verify import repair

    done = repair(path)
    for reason in done.quarantined:
        typer.echo(f"quarantined: {reason}")
    for file in done.rewritten:
        typer.echo(f"rewritten from the schema: {file}")
    if done.torn_bytes:
        typer.echo(f"cut off: {done.torn_bytes} bytes of a commit that never finished")
    if not (done.quarantined or done.rewritten or done.torn_bytes):
        typer.echo("nothing to repair")
    typer.echo(f"{done.episodes} episodes remain")


def _summary(store: ZarrStore) -> list[tuple[str, object]]:
    episodes = store.episodes
    good = sum(episode.success for episode in episodes)
    size = sum(file.stat().st_size for file in store.path.rglob("*") if file.is_file())
    lengths = [episode.length for episode in episodes] or [0]
    return [
        ("dataset", store.path),
        ("episodes", f"{len(episodes)} ({good} succeeded)"),
        ("steps", f"{store.num_rows} ({min(lengths)}–{max(lengths)} an episode)"),
        ("size", f"{size / 1e6:.1f} MB, {store.schema.chunk_rows} rows a chunk"),
        ("digest", store.digest()),
    ]


def _asides(report: Report) -> str:
    text = f"; {report.quarantined} in quarantine" if report.quarantined else ""
    if report.torn_bytes:
        text += f"; {report.torn_bytes} bytes of a commit that was cut off, harmless"
    return text
