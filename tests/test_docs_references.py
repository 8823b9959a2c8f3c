"""What README and docs name exists: links, files, commands, config keys, entry points."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, cast, get_args

import pytest
import typer
import yaml
from pydantic import BaseModel
from shown_docs import GENERATED, PAGES, ROOT, anchors, commands, named, on_tick

from robo_rl.cli import main
from robo_rl.config import registry
from robo_rl.config.component import component
from robo_rl.config.models import compose, validate
from robo_rl.config.renamed_keys import RENAMED_KEYS, new_key
from robo_rl.core.errors import DeviceError
from tools.reference import config_keys

SHIPPED = {path.stem for path in (ROOT / "configs" / "experiment").glob("*.yaml")}
PLUGINS = ("task=raise_hand", "task=acme-tasks:lift_cube")
"""Of packages that a page tells how to write."""

every_page = pytest.mark.parametrize("page", PAGES, ids=named)


@every_page
def test_links_resolve(page: Path):
    links = re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text())
    targets = [((page.parent / link).resolve() if link else page, mark) for link, mark in links]
    inside = ROOT / "docs" if (ROOT / "docs") in page.parents else ROOT
    assert [path for path, _ in targets if not path.is_relative_to(inside)] == []
    found = [(path, mark) for path, mark in targets if path not in GENERATED or path.exists()]
    assert [path for path, _ in found if not path.exists()] == []
    assert [mark for path, mark in found if mark and mark not in anchors(path)] == []


def test_every_page_is_in_the_index():
    index = ROOT / "docs" / "index.md"
    linked = {index.parent / link for link in re.findall(r"\]\(([\w/.-]+\.md)", index.read_text())}
    pages = {page for page in PAGES if index.parent in page.parents}
    assert (pages | GENERATED) - linked - {index} == set()


@every_page
def test_files_exist(page: Path):
    folders = r"(?:robo_rl|tests|benchmarks|configs|robots|tasks|sim2real|tools|docs)"
    files = [ROOT / name for name in on_tick(page) if re.fullmatch(rf"{folders}/[\w/.-]+", name)]
    assert [file for file in files if not file.exists()] == []


@every_page
def test_commands_parse(page: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    for line in commands(page):
        words = shlex.split(line, comments=True)[1:]
        if words[0] not in ("--help", "--version"):
            check_overrides(parsed(words))


def parsed(words: list[str]) -> Any:
    """The context of a command line, None for a verb alone; nothing runs."""
    verb, *rest = main._joined(words)
    assert verb in main.VERBS, words
    if not rest:
        return None  # the verb alone is its name
    code = main.load_verb(verb)
    app = code if isinstance(code, typer.Typer) else typer.Typer(add_completion=False)
    if app is not code:
        app.command(name=verb)(code)
    command: Any = typer.main.get_command(app)
    context = command.make_context(verb, rest)
    while hasattr(command, "resolve_command"):
        left = [*context._protected_args, *context.args]
        _, found, rest = command.resolve_command(context, left)
        assert found is not None
        if not rest:
            return None
        command, context = found, found.make_context(found.name, rest, parent=context)
    return context


def check_overrides(context: Any) -> None:
    """Those of a shipped experiment, of the node and of the simulated robot fit their models."""
    if context is None:
        return
    from robo_rl.train.pipeline.experiment import Experiment
    from robo_rl_sim2real.node.settings import DeploySettings
    from robo_rl_sim2real.simulated.robot import SimRobot

    values = context.params
    given = [word for word in values.get("overrides") or () if word not in PLUGINS]
    given = [word for word in given if not word.isupper() and "=N" not in word]
    if context.info_name == "deploy":
        validate(compose("deploy/panda_lift_cube", given), DeploySettings)
    elif context.info_name == "sim-robot":
        validate(compose("deploy/sim_robot", given), SimRobot.Config)
    elif (name := values.get("experiment", context.info_name)) in SHIPPED and given:
        with suppress(DeviceError):  # an extra that is not installed here
            validate(compose(name, given), Experiment)


@every_page
def test_config_keys_exist(page: Path):
    keys = [re.split(r"[=:\s]", text)[0] for text in on_tick(page)]
    dotted = [key for key in keys if re.fullmatch(r"(?!robo_rl)[a-z_]+(\.[a-z_]+)+", key)]
    known = fields()
    wrong = [
        key
        for key in dotted
        if not key.endswith((".py", ".json", ".jsonl", ".md", ".yaml", ".onnx", ".zarr"))
        for above, below in zip(key.split("."), key.split(".")[1:], strict=False)
        if above in known and known[above] and below not in known[above] | {"name"}
    ]
    assert wrong == []


@cache
def fields() -> dict[str, set[str]]:
    """Field or stage → the fields below it, over all configs of experiments and of the node."""
    from robo_rl.train.pipeline.experiment import Experiment
    from robo_rl_sim2real.node.settings import DeploySettings
    from robo_rl_sim2real.simulated.robot import SimRobot

    known: dict[str, set[str]] = {}
    seen: set[type[BaseModel]] = set()
    stages = {name: config("stages", name) for name in registry.names("stages")}
    for name, model in stages.items():
        known.setdefault(name, set()).update(model.model_fields)
    todo: list[type[BaseModel]] = [Experiment, DeploySettings, SimRobot.Config, *stages.values()]
    while todo:
        if (model := todo.pop()) in seen:
            continue
        seen.add(model)
        for name, field in model.model_fields.items():
            below = list(models(field.annotation, field.metadata))
            todo += below
            known.setdefault(name, set()).update(key for each in below for key in each.model_fields)
    known["stages"] |= set(stages)
    return known


def models(annotation: Any, metadata: Any = ()) -> Iterator[type[BaseModel]]:
    """The models within an annotation, of every component of a kind where it names one."""
    for mark in metadata:
        if isinstance(mark, component):
            yield from (config(mark.kind, name) for name in registry.names(mark.kind))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models(part, getattr(part, "__metadata__", ()))


def config(kind: str, name: str) -> type[BaseModel]:
    """A component's ``Config``; an empty one where it has none."""
    return cast("type[BaseModel]", getattr(registry.load(kind, name), "Config", BaseModel))


@every_page
def test_python_names_and_groups_exist(page: Path):
    names = [re.split(r"[(:]", text)[0] for text in on_tick(page)]
    dotted = [name for name in names if re.fullmatch(r"robo_rl\w*(\.\w+)+", name)]
    groups = {f"robo_rl.{kind}" for kind in registry.kinds()} | {f"robo_rl.{registry.CONFIGS}"}
    assert [name for name in dotted if name not in groups and not importable(name)] == []


def importable(name: str) -> bool:
    """Whether it is a module, or a member of one, or a member's member."""
    try:
        return bool(import_module(name))
    except ImportError:
        path, _, member = name.rpartition(".")
        return bool(path) and importable(path) and hasattr(found(path), member)


def found(name: str) -> Any:
    """A module, or a member of one."""
    try:
        return import_module(name)
    except ImportError:
        path, _, member = name.rpartition(".")
        return getattr(found(path), member)


def test_the_readme_names_what_is_registered():
    text = (ROOT / "README.md").read_text()
    table = text[text.index("## What is supported") : text.index("## Add a task")]
    listed = set(re.findall(r"`([a-z0-9_]+)`", table))
    kinds = (
        "policies",
        "nets",
        "encoders",
        "samplers",
        "algos",
        "offline_algos",
        "critics",
        "estimators",
        "envs",
    )
    kinds += ("backends", "tasks", "robots", "transports")
    assert listed == {name for kind in kinds for name in registry.names(kind)}


@pytest.mark.parametrize(
    ("page", "kind"),
    [
        ("concepts/offline-rl", "offline_algos"),
        ("concepts/offline-rl", "critics"),
        ("concepts/off-policy-evaluation", "estimators"),
        ("concepts/policy-as-chain", "samplers"),
        ("concepts/stages-gates-evidence", "stages"),
    ],
)
def test_tables_have_a_row_for_every_component(page: str, kind: str):
    text = (ROOT / "docs" / f"{page}.md").read_text()
    assert [name for name in registry.names(kind) if f"\n| `{name}` |" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_no_page_sets_a_key_by_a_name_of_before(page: Path):
    fields = {key for model in config_keys.titled() for key in model.model_fields}
    gone = {each.old for each in RENAMED_KEYS} - fields
    spans = re.findall(r"`(\w+): [^`]*`", page.read_text())
    assert [key for key in spans if key in gone] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_no_page_names_a_nested_key_by_a_name_of_before(page: Path):
    spans = re.findall(r"`([^`\n]+)`", page.read_text())
    dotted = [each.split(".") for each in spans if re.fullmatch(r"[a-z]\w*(\.\w+)+", each)]
    nested = [path for each in spans if ": " in each for path in key_paths(each)]
    assert [".".join(path) for path in dotted + nested if new_key(path)] == []


def key_paths(span: str) -> Iterator[list[str]]:
    """The paths of all keys of a mapping in one line; none if it is something else."""
    with suppress(yaml.YAMLError):
        tree = yaml.safe_load(span if span.startswith("{") else f"{{{span}}}")
        yield from _paths(tree, [])


def _paths(tree: Any, above: list[str]) -> Iterator[list[str]]:
    for key, value in tree.items() if isinstance(tree, dict) else ():
        path = [*above, str(key)]
        yield path
        yield from _paths(value, path)
