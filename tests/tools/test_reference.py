"""The pages that are written from the code are as it writes them, and leave nothing out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import yaml

import robo_rl
import robo_rl.testing
from robo_rl.config.models import ConfigModel
from tools.reference import config_keys
from tools.reference import entry_points as groups
from tools.reference.pages import FOLDER, PAGES

ROOT = Path(__file__).parents[2]

NO_CONFIG = {
    "CellRecord": "what is kept of a finished cell",
    "PilotOrigin": "what is kept of the setting that a pilot chose",
    "PilotChoices": "what is kept of all pilots of a suite",
    "PilotChoice": "what is kept of a method's pilots",
    "PilotTrial": "what is kept of a pilot",
    "StageResult": "what is kept of a stage",
    "NumberRecord": "what is kept of a number",
    "RunConditions": "what is kept of a sitting",
    "Gate": "what a report says of a gate",
    "Calibration": "what a classifier was found to need",
    "WatchdogJob": "what a node tells its watchdog",
    "UnfinishedOutputs": "what a watchdog finishes",
    "SourceConfig": "a part of a deployment's settings, read again",
}
"""Models that nobody writes by hand, and what they are."""


def models(base: type[ConfigModel] = ConfigModel) -> Iterator[type[ConfigModel]]:
    """All loaded config models of robo-rl."""
    for each in base.__subclasses__():
        if each.__module__.split(".")[0] in ("robo_rl", "robo_rl_sim2real"):
            yield each
        yield from models(each)


def sections(page: str) -> dict[str, str]:
    """Heading → text below it."""
    parts = re.split(r"^## (.+)\n", (FOLDER / f"{page}.md").read_text(), flags=re.M)
    titles = parts[1::2]
    assert not [title for title, times in Counter(titles).items() if times > 1]
    return dict(zip(titles, parts[2::2], strict=True))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_the_code_writes_it(name: str):
    assert (FOLDER / f"{name}.md").read_text() == PAGES[name](), "run `make reference`"


def test_every_public_name_is_described_once():
    text = (FOLDER / "api.md").read_text()
    found = re.findall(r"^### (\w+)$", text, re.M)
    assert sorted(found) == sorted([*robo_rl.__all__, *robo_rl.testing.__all__])


def test_every_config_key_is_described_once():
    titles, found = config_keys.titled(), sections("config-keys")
    public = (model for model in models() if not model.__name__.startswith("_"))
    shown = {model for model in public if model.__name__ not in NO_CONFIG}
    assert len(shown) > 100
    missing = {each for each in shown - set(titles) if config_keys.own_keys(each)}
    assert not missing
    for model, title in titles.items():
        rows = re.findall(r"^\| `(\w+)` \|", found[title], re.M)
        assert rows == config_keys.own_keys(model), title


def test_every_group_of_entry_points_is_described():
    named = {each for each in entry_points().groups if each.startswith("robo_rl.")}
    assert {f"robo_rl.{kind}" for kind in groups.GROUPS} <= named
    ours = {
        each.removeprefix("robo_rl.")
        for each in named
        if any(point.dist and point.dist.name == "robo-rl" for point in entry_points(group=each))
    }
    assert ours == set(groups.GROUPS) == set(sections("entry-points"))


def test_the_site_has_every_page():
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    (listed,) = [each["Reference"] for each in site["nav"] if "Reference" in each]
    assert {f"reference/{name}.md" for name in PAGES} <= set(listed)
