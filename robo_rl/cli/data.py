"""``robo-rl data``: inspects, verifies and repairs datasets, and converts recordings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from robo_rl.cli.output import format_table
from robo_rl.config.component import Component, component, default
from robo_rl.config.compose import overlay, resolve_tree
from robo_rl.config.models import ConfigModel, validate
from robo_rl.core.errors import ConfigError, DataError
from robo_rl.data.convert import Converter, Exporter

if TYPE_CHECKING:
    from robo_rl.data.store.action_limits import LimitViolations
    from robo_rl.data.store.verify import VerifyReport
    from robo_rl.data.store.zarr_store import ZarrStore

app = typer.Typer(no_args_is_help=True)

_Store = Annotated[Path, typer.Argument(help="Directory of the dataset, such as data.zarr.")]
_Run = Annotated[
    Path,
    typer.Argument(help="A recording or a folder of some, a LeRobot dataset, an HDF5 file."),
]
_Source = Annotated[str, typer.Option("--from", help="Format: rosbag, lerobot or hdf5.")]


class _From(ConfigModel):
    source: Annotated[Component[Converter], component("converters")] = default("rosbag")


class _To(ConfigModel):
    target: Annotated[Component[Exporter], component("exporters")] = default("lerobot")


@app.command()
def info(path: _Store) -> None:
    """Print a summary of a dataset."""
    from robo_rl.config.models import to_yaml
    from robo_rl.data.store.zarr_store import ZarrStore

    store = ZarrStore.open(path)
    typer.echo(format_table(_summary(store)))
    typer.echo()
    arrays = store.schema.arrays.items()
    rows = [
        (
            key,
            spec.dtype,
            "×".join(map(str, spec.shape)) or "1",
            _units(spec.unit),
            _run(spec.names),
        )
        for key, spec in arrays
    ]
    typer.echo(format_table(rows, header=("array", "dtype", "row", "unit", "names")))
    if store.schema.meta:
        typer.echo("\n" + to_yaml({"made by": store.schema.meta}), nl=False)


@app.command()
def verify(path: _Store) -> None:
    """Check every committed byte; list damaged files, and actions outside their limits."""
    from robo_rl.data.store.verify import verify

    report = verify(path)
    typer.echo(
        f"{report.episodes} episodes, {report.rows} rows, {report.chunks} chunks checked"
        f"{_asides(report)}"
    )
    for file, problem, episode in report.damage:
        of = "" if episode is None else f" (episode {episode})"
        typer.echo(f"{file}: {problem}{of}")
    for line in _outside(report.outside):
        typer.echo(line)
    if not report.ok:
        raise DataError(
            "is damaged",
            where=path,
            found=f"{len(report.damage)} problem{'s' if len(report.damage) != 1 else ''}",
            hint="`robo-rl data repair` keeps what is whole and sets the rest aside",
        )


@app.command()
def repair(path: _Store) -> None:
    """Move damaged episodes to quarantine, so that the rest can be used."""
    from robo_rl.data.store.verify import repair

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


@app.command()
def convert(
    run: _Run,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Such as settings=deploy/NAME.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Directory of the dataset, to be made.")] = None,
    source: _Source = "rosbag",
    explain: Annotated[bool, typer.Option(help="Print a draft of the settings alone.")] = False,
) -> None:
    """Convert recordings of a robot, or a dataset of another format, to a dataset."""
    converter = _converter(source, overrides or [])
    if not run.exists():
        raise DataError("does not exist", where=run, expected="recordings, or a dataset")
    if explain:
        typer.echo(converter.explain(run), nl=False)
        return
    if out is None:
        raise ConfigError("--out is needed", expected="the directory of the dataset, to be made")
    done = converter.convert(run, out)
    for note in done.notes:
        typer.echo(note)
    typer.echo(f"{out}: {done.episodes} episodes, {done.rows} steps")


@app.command()
def export(
    path: _Store,
    out: Annotated[Path, typer.Option(help="Directory of the result, to be made.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Such as version=v2.1.")
    ] = None,
    target: Annotated[str, typer.Option("--to", help="Format.")] = "lerobot",
) -> None:
    """Write a dataset in the format of other software."""
    words = [f"target.{word}" for word in (f"name={target}", *(overrides or []))]
    exporter = validate(resolve_tree(overlay(words)), _To).target.build()
    typer.echo(f"{out}: {exporter.export(path, out)} episodes")


@app.command()
def recover(run: _Run, source: _Source = "rosbag") -> None:
    """Recover the intact part of truncated recordings into new recordings beside them."""
    made = _converter(source, []).recover(run)
    for path in made:
        typer.echo(f"written: {path}")
    if not made:
        typer.echo("nothing was cut off")


def _converter(source: str, overrides: list[str]) -> Converter:
    words = [f"source.{word}" for word in (f"name={source}", *overrides)]
    return validate(resolve_tree(overlay(words)), _From).source.build()


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


def _units(unit: str) -> str:
    """Shorten ``rad,rad,m`` to ``2 rad, 1 m``."""
    if "," not in unit:
        return unit
    return ", ".join(f"{len(list(same))} {name}" for name, same in groupby(unit.split(",")))


def _run(names: Sequence[str]) -> str:
    """Join names in order; numbered names become a range ``joint1 … joint7``."""
    found = [list(run) for _, run in groupby(names, key=lambda name: name.rstrip("0123456789"))]
    short = [run if len(run) < 3 else [f"{run[0]} … {run[-1]}"] for run in found]
    return ", ".join(name for run in short for name in run)


def _outside(found: LimitViolations) -> list[str]:
    """Return the number of rows outside the limits and examples, the largest excess first."""
    if not found.rows:
        return []
    listed, rest = found.examples, found.elements - len(found.examples)
    if rest:
        listed = sorted(listed, key=lambda each: -each.excess)
    head = f"actions outside their limits in {found.rows} of {found.total_rows} rows"
    return [head, *map(str, listed), *([f"… and {rest} more, less far"] if rest else [])]


def _asides(report: VerifyReport) -> str:
    text = f"; {report.quarantined} in quarantine" if report.quarantined else ""
    if report.torn_bytes:
        text += f"; {report.torn_bytes} bytes of a commit that was cut off, harmless"
    return text
