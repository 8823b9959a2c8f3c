"""Renamed keys: the error of an old key gives the new key, where the new key is a field."""

from __future__ import annotations

import pytest

from robo_rl.config.models import ConfigModel, ConfigTree, validate
from robo_rl.config.renamed_keys import RENAMED_KEYS, new_key
from robo_rl.core.errors import ConfigError


class Ppo(ConfigModel):
    reference_coef: float = 0.0


class Sac(ConfigModel):
    lr: float = 0.0


class Stage(ConfigModel):
    algo: Ppo | None = None


class OffPolicyStage(ConfigModel):
    algo: Sac | None = None


def refusal(model: type[ConfigModel], values: dict[str, object]) -> str:
    with pytest.raises(ConfigError) as raised:
        validate(ConfigTree(values, {}), model)
    return str(raised.value)


def test_an_old_key_is_refused_with_its_new_name() -> None:
    assert "renamed to reference_coef" in refusal(Stage, {"algo": {"base": 1.0}})


def test_a_model_without_the_new_key_gets_no_such_hint() -> None:
    assert "renamed" not in refusal(OffPolicyStage, {"algo": {"base": 1.0}})


@pytest.mark.parametrize(
    ("path", "new"),
    [
        (("record", "seconds"), "ring_s"),
        (("observe", "my_record", "seconds"), None),
        (("stages", "improve", "improver"), "algo"),
        (("stages", "improve", "algo"), None),
        (("start",), "start_pose"),
        (("task", "start"), "start_joint_pos"),
    ],
)
def test_the_section_decides_and_matches_whole_keys(path: tuple[str, ...], new: str | None) -> None:
    assert new_key(path) == new


def test_no_key_is_renamed_to_itself_or_twice_in_one_section() -> None:
    pairs = [(each.section, each.old) for each in RENAMED_KEYS]
    assert len(pairs) == len(set(pairs))
    assert all(each.old != each.new for each in RENAMED_KEYS)
