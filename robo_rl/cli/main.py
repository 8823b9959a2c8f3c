"""The command line: verbs by name, imported only when they are used.

A verb's module has a function ``run`` (a command) or a ``typer.Typer`` called ``app`` (a group);
the verbs that run an experiment up to a stage share one. The verbs of deployment are registered as
entry points, and so are those of plugins.
"""

from __future__ import annotations

import inspect
import os
import select
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any, Protocol

import typer

from robo_rl.core.errors import ConfigError, LostProcessError, Notice, PluginError, RoboRlError
from robo_rl.core.suggestions import did_you_mean
from robo_rl.train.checkpoint.interrupt import Interrupted, raising_interrupted

VERBS = {
    "demo": "Run all stages on one task, and write a table, a report and videos.",
    "run": "Run an experiment's stages with their gates; run it again to resume.",
    "collect": "Run an experiment up to its demonstrations.",
    "train": "Run an experiment up to its fine-tuned policy.",
    "distill": "Run an experiment up to its one-step policy.",
    "export": "Run an experiment up to its verified export bundle.",
    "eval": "Evaluate a stage's checkpoint or an export bundle.",
    "bench": "Run a suite of tasks × methods × seeds, and print its tables.",
    "deploy": "Run an export bundle on a robot.",
    "deploy check": "Compare a bundle with a robot as it is, before anything moves.",
    "deploy latency": "Estimate a robot's latency from a recording, as settings for training.",
    "sim-robot": "Simulate a robot behind the real one's topics, in real time.",
    "env": "Create Python environments for simulators that conflict with robo-rl.",
    "serve-env": "Serve such a simulator over a Unix socket, for training in another process.",
    "list": "List tasks, robots, policies and other components, and the configs.",
    "data": "Show, verify and repair datasets; convert recordings to datasets.",
    "lerobot-policy": "Print the settings of a policy with the networks of a LeRobot folder.",
    "config": "Print a composed experiment with the origin of each value.",
    "doctor": "Check this machine: versions, rendering, disk, plugins.",
}
UP_TO = {"collect": "collect", "train": "online", "distill": "distill", "export": "export"}
"""Verb → last stage of its run."""
RESUMABLE = ("demo", "run", *UP_TO, "bench")
"""Verbs that resume from their saved state."""
ON_ROBOTS = ("deploy", "deploy check", "deploy latency", "sim-robot")
_as_it_was = warnings.formatwarning
ClickError: Any = typer.BadParameter.__mro__[2]
"""Base of typer's errors for a wrong command line, which no module of typer exports."""
_HELP = "From demonstrations to a verified one-step robot policy."


class Verb(Protocol):
    """An entry point of the kind ``verbs``: a command's function, or a group."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the verb."""
        ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line.

    Args:
        argv: Arguments after the program's name; those of this process if not given.

    Returns:
        Exit status: 0, 1 for a failed check, 2 for a user error, 4 if another process of the run
        ended, 130 if interrupted by SIGINT, 143 by SIGTERM, 129 by SIGHUP; 1 too if the output's
        reader is gone.
    """
    # OpenMP reads it when torch is loaded. Threads that spin while they wait make small networks
    # tens of times slower as soon as another program uses the cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    warnings.formatwarning = _as_it_was if debug else _line
    words = _joined([word for word in words if word != "--debug"])
    runs = bool(words) and words[0] in RESUMABLE
    try:
        with raising_interrupted() if runs else nullcontext():
            return _run(words)
    except KeyboardInterrupt as error:
        return _interrupted(error, runs=runs)
    except Exception as error:
        told = _told(error)
        if told is None:
            raise  # an internal error, not a user error
        return _report(error, told, debug)


def _line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: Any = None
) -> str:
    """Format a ``Notice`` as one line for the user; other warnings keep their format."""
    if issubclass(category, Notice):
        return f"robo-rl: warning: {message}\n"
    return _as_it_was(message, category, filename, lineno, line)


def _joined(words: list[str]) -> list[str]:
    """Join a verb of two words: ``deploy check``. A bundle of that name is ``./check``."""
    both = " ".join(words[:2])
    return [both, *words[2:]] if both in VERBS else words


def _run(words: list[str]) -> int:
    verb = words[0] if words and not words[0].startswith("-") else None
    if verb is not None and verb not in VERBS and verb not in (known := _plugin_verbs()):
        hint = did_you_mean(verb, [*VERBS, *known])
        raise ConfigError(f"unknown verb '{verb}'", hint=hint)
    command: Any = typer.main.get_command(_app(verb))
    if not words or (len(words) == 1 and hasattr(command.commands.get(verb), "commands")):
        words = [*words, "--help"]  # also for a group without a command
    try:
        with command.make_context("robo-rl", words) as context:
            command.invoke(context)
    except ClickError as error:
        raise _command_line_error(error) from error
    except typer.Exit as end:
        return end.exit_code
    except typer.Abort:
        return 1
    except SystemExit as end:
        return _exit_status(end)
    except BrokenPipeError:
        if not _reader_is_gone():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is buffered has no reader either
        return 1
    return 0


def _reader_is_gone() -> bool:
    """Whether no process reads the standard output, as in ``robo-rl list | head -1``."""
    output = select.poll()
    output.register(1, 0)
    return bool(output.poll(0))


def _exit_status(end: SystemExit) -> int:
    """Return the status of an exit, after printing its text, as Python does."""
    if isinstance(end.code, str):
        typer.echo(f"robo-rl: {end.code}", err=True)
    return end.code if isinstance(end.code, int) else 0 if end.code is None else 1


def _command_line_error(error: Any) -> ConfigError:
    """Return the error of one line for a command line that typer refuses."""
    said = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    line = context.command_path if context else "robo-rl"
    hint = f"`{line} -h` shows its arguments and options"
    where = line.removeprefix("robo-rl").strip() or None
    return ConfigError(said[:1].lower() + said[1:], where=where, hint=hint)


def _app(verb: str | None) -> typer.Typer:
    """Return the app with the help lines of all verbs and the code of the requested one."""
    app = typer.Typer(
        help=_HELP,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="Any verb: --debug shows the traceback of an error. `robo-rl list verbs` names those"
        " of plug-ins too.",
    )
    app.callback()(_root)
    lines: dict[str, str | None] = dict(VERBS)
    if verb is not None:
        lines.setdefault(verb, None)  # of a plugin: it has a help of its own
    for name, line in lines.items():
        code = load_verb(name) if name == verb else _nothing
        if isinstance(code, typer.Typer):
            helped: dict[str, Any] = {} if line is None else {"help": line}
            _show_whole_lines(code)
            app.add_typer(code, name=name, **helped)
        else:
            app.command(name, help=line, short_help=line)(code)
    return app


def _show_whole_lines(group: typer.Typer) -> None:
    """Give each command of a group a help line that is wrapped and not cut."""
    for each in group.registered_commands:
        summary = (inspect.getdoc(each.callback) or "").partition("\n\n")[0]
        each.short_help = each.short_help or " ".join(summary.split())


def _plugin_verbs() -> list[str]:
    """Return the verbs that plugins register."""
    from robo_rl.config.registry import names

    ours = {verb.replace(" ", "-") for verb in ON_ROBOTS}
    return [name for name in names("verbs") if name not in ours]


def load_verb(verb: str) -> Any:
    """Return the function or the group of commands of a verb."""
    if verb in ON_ROBOTS or verb not in VERBS:
        from robo_rl.config.component import demand_interface
        from robo_rl.config.registry import load

        name = verb.replace(" ", "-")
        code = load("verbs", name)
        demand_interface("verbs", name, code, Verb)
        return code
    if verb in UP_TO:
        from robo_rl.cli.run import up_to

        return up_to(UP_TO[verb])
    module: Any = import_module(f"robo_rl.cli.{verb.replace('-', '_')}")
    return getattr(module, "app", None) or module.run


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version("robo-rl"))
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    del version  # the option's callback prints it


def _nothing() -> None:
    """Placeholder for a verb that is not requested."""


def _told(error: Exception) -> RoboRlError | None:
    """Return the error for the user; None for an internal error."""
    from robo_rl.config.registry import missing_extra

    return error if isinstance(error, RoboRlError) else missing_extra(error) or _by_plugin(error)


def _by_plugin(error: Exception) -> PluginError | None:
    """Return the error for an exception in a plugin's code; None if no plugin is involved."""
    from robo_rl.config.plugin_fault import fault_of
    from robo_rl.config.registry import plugin_packages

    packages = plugin_packages()
    if (fault := fault_of(error, packages)) is None:
        return None
    return PluginError(
        f"raises {fault.error} at {fault.place}",
        where=f"{fault.method} of the distribution '{packages[fault.package]}'",
        hint="--debug shows the traceback",
    )


def _report(error: Exception, told: RoboRlError, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    # The launcher reads what the others wrote, and says it once.
    pulled_along = isinstance(error, LostProcessError) and "ROBO_RL_LAUNCHER" in os.environ
    if not (pulled_along and os.environ.get("RANK") == "0"):
        typer.echo(f"robo-rl: {told}", err=True)
    return told.status


def _interrupted(error: KeyboardInterrupt, *, runs: bool) -> int:
    """Print what is saved and how to resume; return the exit status."""
    ended = error if isinstance(error, Interrupted) else Interrupted(signal.SIGINT)
    kept = f"{ended.kept} are kept" if ended.kept else "what was saved before is kept"
    said = f"; {kept}, the same command resumes there" if runs else ""
    with suppress(OSError):  # the terminal may be gone
        typer.echo(f"robo-rl: interrupted{said}", err=True)
    return ended.status
