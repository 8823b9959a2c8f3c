"""``robo-rl doctor``: checks the machine, with one line on how to fix each problem."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from robo_rl.cli.output import format_table
from robo_rl.core.errors import ConfigError, DeviceError, Notice, RoboRlError
from robo_rl.core.suggestions import did_you_mean


class MachineCheck(NamedTuple):
    """One line of the report; ``status`` is ok, note or FAIL."""

    status: str
    text: str
    remedy: str = ""


def run(
    checks: Annotated[
        list[str] | None, typer.Argument(help="Checks to run; all if left out.")
    ] = None,
) -> None:
    """Check this machine; exit status 1 if anything fails."""
    for name in checks or []:
        if name not in CHECKS:
            raise ConfigError(f"unknown check '{name}'", hint=did_you_mean(name, CHECKS))
    found = [(name, finding) for name in checks or CHECKS for finding in _checked(CHECKS[name])]
    typer.echo(format_table([(f.status, name, f.text) for name, f in found]))
    for name, finding in found:
        if finding.remedy:
            typer.echo(f"{name}: {finding.remedy}")
    raise typer.Exit(int(any(finding.status == "FAIL" for _, finding in found)))


def _checked(check: Callable[[], Iterator[MachineCheck]]) -> list[MachineCheck]:
    try:
        return list(check())
    except ModuleNotFoundError as error:
        return [_missing(error)]
    except Exception as error:  # such as a library that does not load; other checks go on
        from robo_rl.config.plugin_fault import format_exception_line

        return [MachineCheck("FAIL", format_exception_line(error), "install it again")]


def _missing(error: ModuleNotFoundError) -> MachineCheck:
    from robo_rl.config.registry import missing_extra

    return MachineCheck("note", f"{error.name} is not installed", str(missing_extra(error) or ""))


def _python() -> Iterator[MachineCheck]:
    text = f"{platform.python_version()} ({sys.executable})"
    old = sys.version_info < (3, 11)
    yield MachineCheck(
        "note" if old else "ok", text, "training needs Python 3.11 or later" if old else ""
    )


def _packages() -> Iterator[MachineCheck]:
    """Compare versions with the tested ones."""
    tested = dict(_constraints())
    installed = {name: found for name in tested if (found := _installed(name))}
    differ = [
        f"{name} {found} (tested: {tested[name]})"
        for name, found in installed.items()
        if found.partition("+")[0] != tested[name]
    ]
    remedy = "pip install -c constraints.txt 'robo-rl[all]' installs the tested set"
    if differ:
        yield MachineCheck("note", "other versions than tested: " + ", ".join(differ), remedy)
    else:
        yield MachineCheck(
            "ok", f"{len(installed)} of {len(tested)} tested packages, at their versions"
        )


def _constraints() -> Iterator[tuple[str, str]]:
    here = Path(__file__).resolve().parents[1]
    for path in (here / "constraints.txt", here.parent / "constraints.txt"):
        if path.is_file():
            yield from re.findall(r"^([\w.-]+)==([^\s;]+)", path.read_text(), re.M)
            return


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _torch() -> Iterator[MachineCheck]:
    import torch

    device = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no GPU"
    yield MachineCheck("ok", f"{torch.__version__}, {torch.get_num_threads()} threads, {device}")


def _rendering() -> Iterator[MachineCheck]:
    """Check rendering in a separate process, since a broken GL driver can abort it."""
    if (mujoco := _installed("mujoco")) is None:
        raise ModuleNotFoundError(name="mujoco")
    from robo_rl.env.rendering.offscreen import install_hint, try_opengl

    gl = os.environ.get("MUJOCO_GL", "egl")
    works, said = try_opengl(gl)
    if works:
        yield MachineCheck("ok", f"mujoco {mujoco}, MUJOCO_GL={gl}, {said}")
    else:
        remedy = f"{install_hint(gl)}, or go on without pictures"
        yield MachineCheck("FAIL", f"MUJOCO_GL={gl}: {said}", remedy)


def _onnxruntime() -> Iterator[MachineCheck]:
    import onnxruntime

    providers = ", ".join(onnxruntime.get_available_providers())
    yield MachineCheck("ok", f"{onnxruntime.__version__}: {providers}")


def _ffmpeg() -> Iterator[MachineCheck]:
    path = shutil.which("ffmpeg")
    if path is None:
        import imageio_ffmpeg  # pyright: ignore[reportMissingTypeStubs]

        path = str(imageio_ffmpeg.get_ffmpeg_exe())
    yield MachineCheck("ok", path)


def _machine() -> Iterator[MachineCheck]:
    from robo_rl.config.provenance import machine_info

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    free = shutil.disk_usage(".").free / 2**30
    yield MachineCheck("ok", f"{cores} cores, {machine_info()['processor']}")
    low = "" if memory >= 4 else "use fewer envs (stages.online.num_envs, eval.num_envs)"
    yield MachineCheck("note" if low else "ok", f"{memory:.1f} GiB of memory", low)
    full = "" if free >= 2 else "free some space, or choose another folder with --out"
    yield MachineCheck("FAIL" if full else "ok", f"{free:.1f} GiB free in {Path.cwd()}", full)


def _plugins() -> Iterator[MachineCheck]:
    """Load every registered component."""
    from robo_rl.config.registry import ambiguous_names, kinds, names
    from robo_rl.config.search_path import plugin_configs

    named = [(kind, name) for kind in kinds() for name in names(kind)]
    failed: dict[tuple[str, str], list[str]] = {}
    for kind, name in named:
        if problem := _load_problem(kind, name):
            failed.setdefault(problem, []).append(f"{kind}.{name}")
    for (mark, text), who in failed.items():
        yield MachineCheck(mark, f"{', '.join(who)}: {text}")
    for kind in kinds():
        for bare, meant in sorted(ambiguous_names(kind).items()):
            yield MachineCheck(
                "note", f"{kind}.{bare} is of several distributions: {', '.join(meant)}"
            )
    for each in plugin_configs():
        if each.folder is None or not any(each.folder.rglob("*.yaml")):
            problem = (
                f"configs of {each.distribution}: '{each.package}' is no package of YAML files"
            )
            yield MachineCheck("FAIL", problem)
    count = len(named) - sum(map(len, failed.values()))
    remedy = "" if named else "pip install -e . (or of the wheel) registers them"
    yield MachineCheck("ok" if named else "FAIL", f"{count} of {len(named)} load", remedy)


def _load_problem(kind: str, name: str) -> tuple[str, str] | None:
    from robo_rl.config.registry import load

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Notice)  # another check reports name clashes
            load(kind, name)
    except RoboRlError as error:
        return "note" if isinstance(error, DeviceError) else "FAIL", str(error)
    return None


CHECKS: dict[str, Callable[[], Iterator[MachineCheck]]] = {
    "python": _python,
    "packages": _packages,
    "torch": _torch,
    "rendering": _rendering,
    "onnxruntime": _onnxruntime,
    "ffmpeg": _ffmpeg,
    "machine": _machine,
    "plugins": _plugins,
}
