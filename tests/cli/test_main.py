"""The command line: exit statuses, one line an error, and nothing heavy imported for it."""

from __future__ import annotations

import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
import typer

from robo_rl.cli import main as cli
from robo_rl.core.errors import DataError
from robo_rl.train.checkpoint.interrupt import Interrupted

HEAVY = ["torch", "mujoco", "zarr", "pandas", "onnxruntime", "gymnasium", "diffusers", "rich"]


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch):
    """Puts a function in the place of ``robo-rl list``, or of another verb."""

    def put(run: object, name: str = "list") -> None:
        real = cli.import_module
        monkeypatch.setattr(
            cli,
            "import_module",
            lambda module: (
                SimpleNamespace(run=run) if module == f"robo_rl.cli.{name}" else real(module)
            ),
        )

    return put


@pytest.mark.parametrize("words", ["", "'--help'", "'list', '--help'"])
def test_help_imports_nothing_heavy(words: str):
    code = (
        "import sys\nfrom robo_rl.cli.main import main\n"
        f"status = main([{words}])\n"
        f"assert not (found := set({HEAVY}) & set(sys.modules)), found\n"
        "sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Usage: robo-rl" in done.stdout


def test_help_lists_every_verb(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {verb}" in shown for verb in cli.VERBS)


def test_the_module_is_the_command():
    done = subprocess.run([sys.executable, "-m", "robo_rl", "lst"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("robo-rl: unknown verb 'lst'; did you mean 'list'?")
    assert done.stderr.count("\n") == 1


def test_a_verb_on_a_robot_ends_though_a_library_has_threads():
    code = (
        "import sys, threading, time, robo_rl.__main__ as entry\n"
        "sys.argv = ['robo-rl', '--debug', 'deploy', 'check']\n"
        "def main():\n"
        "    threading.Thread(target=time.sleep, args=(60.0,)).start()\n"
        "    print('the last word')\n"
        "    return 3\n"
        "entry.main = main\n"
        "entry.run()"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (3, "the last word\n")


@pytest.mark.parametrize("words", [["list", "--nonsense"], ["list", "a", "b"]])
def test_a_wrong_option_is_the_users_error(words: list[str], capsys: pytest.CaptureFixture[str]):
    assert cli.main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("robo-rl: list: ")
    assert said.endswith("; `robo-rl list -h` shows its arguments and options\n")
    assert said.count("\n") == 1


def test_a_group_without_a_command_shows_its_help(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["data"]) == 0
    assert "Usage: robo-rl data" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("code", "status", "said"), [(None, 0, ""), (3, 3, ""), ("why", 1, "robo-rl: why\n")]
)
def test_a_verb_that_exits_has_the_status_of_python(
    verb, capsys: pytest.CaptureFixture[str], code: int | str | None, status: int, said: str
):
    def run() -> None:
        raise SystemExit(code)

    verb(run)
    assert cli.main(["list"]) == status
    assert capsys.readouterr().err == said


def test_another_broken_pipe_is_a_fault(verb):
    def run() -> None:
        raise BrokenPipeError("of a worker")

    verb(run)
    with pytest.raises(BrokenPipeError, match="of a worker"):
        cli.main(["list"])


def test_a_reader_that_goes_away_is_no_fault():
    code = (
        "import os, sys; from robo_rl.cli import main as cli\n"
        "read, write = os.pipe(); os.close(read); os.dup2(write, 1)\n"
        "sys.stderr.write(str(cli.main(['list', 'tasks'])))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "1")


def test_a_typed_error_is_one_line(verb, capsys: pytest.CaptureFixture[str]):
    def run() -> None:
        raise DataError("chunk 3 is damaged", where="demos.zarr")

    verb(run)
    assert cli.main(["list"]) == 2
    assert capsys.readouterr().err == "robo-rl: demos.zarr: chunk 3 is damaged\n"


def test_debug_shows_the_traceback(verb, capsys: pytest.CaptureFixture[str]):
    def run() -> None:
        raise DataError("chunk 3 is damaged")

    verb(run)
    assert cli.main(["list", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_a_warning_of_ours_is_one_line_and_others_say_where_they_are_from():
    code = (
        "import warnings; from robo_rl.cli import main as cli; cli.main(['--version']);"
        "from robo_rl.core.errors import Notice;"
        "say = lambda kind: warnings.warn_explicit('all failed', kind, '/lib/other.py', 7);"
        "say(Notice); say(UserWarning)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stderr.splitlines() == [
        "robo-rl: warning: all failed",
        "/lib/other.py:7: UserWarning: all failed",
    ]


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (KeyboardInterrupt(), 130, "what was saved before is kept, the same command resumes"),
        (Interrupted(signal.SIGINT, "8 updates"), 130, "8 updates are kept, the same command"),
        (Interrupted(signal.SIGTERM), 143, "what was saved before is kept"),
    ],
)
def test_an_interrupt_says_what_is_kept_and_how_to_resume(
    verb, capsys: pytest.CaptureFixture[str], error: BaseException, status: int, said: str
):
    def run() -> None:
        raise error

    verb(run, "run")
    assert cli.main(["run"]) == status
    assert said in capsys.readouterr().err
    verb(run)
    assert cli.main(["list"]) == status  # of which there is nothing to resume
    assert capsys.readouterr().err.splitlines()[-1] == "robo-rl: interrupted"


def test_a_missing_extra_is_one_line(
    verb, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def run() -> None:
        import onnx  # noqa: F401

    monkeypatch.setitem(sys.modules, "onnx", None)
    verb(run)
    assert cli.main(["list"]) == 2
    expected = "robo-rl: this needs the extra 'export': pip install 'robo-rl[export]'\n"
    assert capsys.readouterr().err == expected


def test_our_own_mistakes_are_not_hidden(verb):
    def run() -> None:
        import no_such_module_of_ours  # pyright: ignore[reportMissingImports] # noqa: F401

    verb(run)
    with pytest.raises(ModuleNotFoundError):
        cli.main(["list"])


def test_every_verb_has_a_command():
    for verb in cli.VERBS:
        assert callable(cli.load_verb(verb)) or isinstance(cli.load_verb(verb), typer.Typer), verb


@pytest.mark.parametrize("group", ["data", "env"])
def test_the_help_of_a_group_cuts_no_line(group: str, capsys: pytest.CaptureFixture[str]):
    assert cli.main([group, "--help"]) == 0
    assert "..." not in capsys.readouterr().out.replace("[ARGS]...", "")
