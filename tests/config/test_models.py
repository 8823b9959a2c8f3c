"""Configs: where values come from, what is refused, every mistake named with its place."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from robo_rl.config.models import (
    ConfigModel,
    ConfigTree,
    compose,
    digest,
    explain,
    to_yaml,
    validate,
)
from robo_rl.config.search_path import available_configs
from robo_rl.config.yaml_nodes import parse
from robo_rl.core.errors import ConfigError


class Algo(ConfigModel):
    name: str = "ppo"
    lr: float = 3e-4
    steps: int = 1
    betas: tuple[float, float] = (0.9, 0.999)
    limit: float = Field(default=1.0, allow_inf_nan=True)


class Task(ConfigModel):
    name: str
    robot: str = "panda"


class Stage(ConfigModel):
    name: str
    steps: int = 1


class Experiment(ConfigModel):
    task: Task
    algo: Algo = Algo()
    stages: tuple[Stage, ...] = ()
    dense: bool = True
    seeds: dict[str, int] = Field(default={})


FILES = {
    "task/lift.yaml": "name: lift\nrobot: so101\n",
    "algo/ppo.yaml": "name: ppo\nlr: 1e-4\n",
    "algo/big.yaml": "base: algo/ppo\nsteps: 1e6\n",
    "experiment/demo.yaml": """\
base: [task/lift, algo/big]
algo:
  betas: [0.5, 0.9]
stages:
  - {name: bc, steps: 10}
  - name: online
    steps: ${algo.steps}
""",
}


@pytest.fixture
def configs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        path = tmp_path / "configs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "configs"


def write(configs: Path, text: str | bytes, name: str = "experiment/x.yaml") -> None:
    (configs / name).write_bytes(text.encode() if isinstance(text, str) else text)


def problems(tree: ConfigTree) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        validate(tree, Experiment)
    return str(caught.value).splitlines()


def test_group_files_land_under_their_folder_and_the_experiment_at_the_root(configs: Path):
    made = validate(compose("demo"), Experiment)
    assert made.task == Task(name="lift", robot="so101")
    assert made.algo == Algo(lr=1e-4, steps=1_000_000, betas=(0.5, 0.9))
    assert [stage.steps for stage in made.stages] == [10, 1_000_000]


@pytest.mark.parametrize("name", ["demo", "experiment/demo", "configs/experiment/demo.yaml"])
def test_names_and_paths_reach_the_same_file(configs: Path, name: str):
    assert compose(name) == compose("demo")


@pytest.mark.parametrize("name", ["./x.yaml", "../{here}/x.yaml", "./deep/../x.yml"])
def test_a_path_may_begin_with_a_dot_and_is_then_no_name(configs: Path, name: str):
    here = Path.cwd()
    (here / "deep").mkdir()
    for suffix in ("yaml", "yml"):
        (here / f"x.{suffix}").write_text("dense: false\n")
    write(configs, "dense: true\n", "x.yaml")
    assert compose(name.format(here=here.name)).values == {"dense": False}
    with pytest.raises(ConfigError, match=r"no config '\./demo\.yaml'"):
        compose("./demo.yaml")


def test_the_working_folder_wins_over_what_is_shipped(configs: Path, tmp_path: Path):
    shipped = tmp_path / "shipped"
    (shipped / "task").mkdir(parents=True)
    (shipped / "task/lift.yaml").write_text("name: other")
    (shipped / "task/push.yaml").write_text("name: push")
    search = [configs, shipped]
    assert compose("task/lift", search=search).values == {
        "task": {"name": "lift", "robot": "so101"}
    }
    assert compose("task/push", search=search).values == {"task": {"name": "push"}}
    assert set(available_configs(search)) == {
        "task/push",
        *(n.removesuffix(".yaml") for n in FILES),
    }


def test_a_shared_base_is_merged_once_and_does_not_undo_what_lies_over_it(configs: Path):
    write(configs, "base: algo/ppo\nlr: 0.5\n", "algo/fast.yaml")
    write(configs, "base: [algo/fast, algo/big]\n")
    assert compose("x").values["algo"] == {"name": "ppo", "lr": 0.5, "steps": 1e6}


def test_a_base_can_be_put_under_another_key(configs: Path):
    write(configs, "base: [{teacher: algo/ppo}, {student: algo/ppo}]\n")
    assert compose("x").values == {k: {"name": "ppo", "lr": 1e-4} for k in ("teacher", "student")}


def test_the_bases_of_a_base_under_another_key_go_there_too(configs: Path):
    write(configs, "base: algo/ppo\nclip: 0.1\n", "algo/tight.yaml")
    write(configs, "base: [{student: algo/tight}]\n")
    assert compose("x").values == {"student": {"name": "ppo", "lr": 1e-4, "clip": 0.1}}
    write(configs, "base: algo/ppo\nseed: 1\n", "experiment/whole.yaml")
    (configs / "net").mkdir()
    write(configs, "base: algo/tight\nclip: 0.3\n", "net/small.yaml")
    write(configs, "base: net/small\n", "experiment/deep.yaml")
    write(configs, "base: [{first: experiment/deep}]\n")
    tight = {"name": "ppo", "lr": 1e-4, "clip": 0.1}
    assert compose("x").values == {"first": {"algo": tight, "net": {"clip": 0.3}}}
    write(configs, "base: [{first: experiment/whole}]\n")
    assert compose("x").values == {"first": {"algo": {"name": "ppo", "lr": 1e-4}, "seed": 1}}


def test_another_component_drops_the_fields_of_the_one_below(configs: Path):
    assert compose("demo", ["task.name=reach"]).values["task"] == {"name": "reach"}
    assert compose("demo", ["task=reach"]).values["task"] == "reach"
    assert compose("demo", ["task.robot=x", "task.name=reach"]).values["task"] == {
        "name": "reach",
        "robot": "x",
    }


def test_a_bare_component_takes_fields(configs: Path):
    write(configs, "task: lift\n")
    assert compose("x", ["task.robot=panda"]).values["task"] == {"name": "lift", "robot": "panda"}


def test_stages_are_in_the_order_of_the_file_that_names_them(configs: Path):
    (configs / "method").mkdir()
    write(configs, "stages: {online: {clip: 0.2}}\n", "method/tight.yaml")
    write(configs, "base: method/tight\nstages: {policy: {path: p}, online: {updates: 3}}\n")
    assert list(compose("x").values["stages"]) == ["policy", "online"]
    road = ["collect", "bc", "online", "export"]
    write(
        configs,
        f"stages: {{{', '.join(f'{name}: {{}}' for name in road)}}}",
        "experiment/road.yaml",
    )
    write(configs, "base: [road, method/tight]\nstages: {probe: {}, online: {}, last: {}}\n")
    names = ["collect", "bc", "probe", "online", "export", "last"]
    assert list(compose("x").values["stages"]) == names
    said = ["stages.new.name=bc", "stages.collect.episodes=3"]  # overrides are in no order
    assert list(compose("road", said).values["stages"]) == [*road, "new"]


def test_a_stage_can_be_taken_away_and_come_back(configs: Path):
    road = "stages: {collect: {episodes: 3}, bc: {}, online: {}}\n"
    write(configs, road, "experiment/road.yaml")
    write(configs, "base: road\nstages: {collect: false, dataset: {path: d}, bc: {steps: 1}}\n")
    assert compose("x").values["stages"] == {
        "dataset": {"path": "d"},
        "bc": {"steps": 1},
        "online": {},
    }
    assert list(compose("road", ["stages.online=false"]).values["stages"]) == ["collect", "bc"]
    two = ["stages.online=false", "stages.bc=false"]
    assert list(compose("road", two).values["stages"]) == ["collect"]
    assert compose("x", ["stages.collect={}"]).values["stages"]["collect"] == {}
    for null in ("stages.bc=null", "stages={bc: null}"):
        with pytest.raises(ConfigError, match=r"stages\.bc: null over a stage .*false removes"):
            compose("x", [null])
    assert compose("x", ["stages.bc={}"]).values["stages"]["bc"] == {"steps": 1}
    for removal in ("stages.bc=false", "stages.bc=False", "stages={bc: false}"):
        both = [removal, "stages.bc.steps=3"]
        for overrides in (both, both[::-1]):
            with pytest.raises(ConfigError, match=r"steps=3': sets a removed stage; found .*bc"):
                compose("road", overrides)
    unknown = compose("road", ["stages.colect=false"]).values["stages"]
    assert unknown["colect"] is False  # there is none of that name: who validates it says so


@pytest.mark.parametrize("key", ["stages.1.steps", "stages[1].steps", "stages.online.steps"])
def test_overrides_reach_into_lists_by_index_and_by_name(configs: Path, key: str):
    stages = validate(compose("demo", [f"{key}=7"]), Experiment).stages
    assert [stage.steps for stage in stages] == [10, 7]


def test_interpolation_sees_overrides(configs: Path):
    made = validate(compose("demo", ["algo.steps=3"]), Experiment)
    assert made.stages[1].steps == 3


def test_all_problems_are_named_at_once_with_their_places(configs: Path):
    write(configs, "name: ppo\nlrr: 1e-4\n", "algo/ppo.yaml")
    tree = compose("demo", ["stages.bc.steps=many", "dense=1", "algo.betas=[0.5]", "task.robo=x"])
    text = "\n".join(found := problems(tree))
    assert "configs/algo/ppo.yaml:2 algo.lrr: unknown key; did you mean 'lr'?" in text
    assert "override 'stages.bc.steps=many' stages.0.steps: expected a valid integer" in text
    assert "found 'many' (str)" in text
    assert "override 'dense=1' dense: expected a valid boolean, found 1 (int)" in text
    assert "override 'task.robo=x' task.robo: unknown key; did you mean 'robot'?" in text
    assert "override 'algo.betas=[0.5]' algo.betas.1: a value is needed" in text
    assert len(found) == 5


def test_a_missing_value_is_blamed_on_the_mapping_that_lacks_it(configs: Path):
    write(configs, "dense: true\nstages:\n  - {name: a}\n  - steps: 3\ntask: {name: '???'}\n")
    assert problems(compose("x")) == [
        "configs/experiment/x.yaml:5 task.name: a value is needed",
        "configs/experiment/x.yaml:4 stages.1.name: a value is needed",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("base: [experiment/x]", "x.yaml: base is cyclic"),
        ("base: [algo/pppo]", "x.yaml:1: no config 'algo/pppo'; "),
        ("base: [algo/pppo]", "did you mean 'algo/ppo'?"),
        ("base: {a: [1]}", "x.yaml:1: base must list names"),
        ("a: 1\nb: !!python/object/apply:os.system [ls]", "x.yaml:2: YAML tag"),
        ("a: !!binary aGk=", "refused"),
        ("a: 1\nb: 2\na: 3", "x.yaml:3: key 'a' is given twice; first at"),
        ("- 1", "a config must be a mapping"),
        ("a: [1", "x.yaml:1: not valid YAML"),
        ("a: 1\n---\nb: 1", "not valid YAML"),
        ("a: &a [*a]", "nested too deeply"),
        ("[" * 5000, "nested too deeply"),
        ("a: " + "9" * 30, "not a valid int"),
        ('a: "\\uD800"', "not a valid str"),
        ("{a: 1}: 2", "a key must be a name"),
        ("a: ${b}", "x.yaml:1 a: '${b}' names no key of this config"),
        ("a: ${a}", "x.yaml:1 a: '${a}' leads back to itself"),
        ("a: ${", "x.yaml:1 a: a reference that is not one; expected ${dotted.key}"),
        ("a: \x00", "not valid YAML"),
        (b"a: \xff", "not UTF-8"),
        ("a: " + "x" * 1_000_000, "too large"),
    ],
)
def test_what_is_no_config_is_refused_with_its_place(configs: Path, text: str | bytes, said: str):
    write(configs, text)
    with pytest.raises(ConfigError) as caught:
        compose("x")
    assert said in str(caught.value)


def test_aliases_cannot_expand_without_bound(configs: Path):
    lines = ["l0: &l0 [x, x]"]
    lines += [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]" for i in range(1, 9)]
    write(configs, "\n".join(lines))
    with pytest.raises(ConfigError, match="more than"):
        compose("x")


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("algo.lr", "expected dotted.key=value"),
        ("=3", "expected dotted.key=value"),
        ("algo..lr=3", "expected dotted.key=value"),
        ("algo.lr=[", "override 'algo.lr=[': not valid YAML"),
        ("stages.bd.steps=1", "no item of the list named 'bd'; did you mean 'bc'?"),
        ("stages.7.steps=1", "no item of the list named '7'"),
    ],
)
def test_a_bad_override_is_named(configs: Path, override: str, said: str):
    with pytest.raises(ConfigError) as caught:
        compose("demo", [override])
    assert said in str(caught.value)


def test_a_mistyped_name_is_corrected(configs: Path):
    with pytest.raises(ConfigError, match=r"no config 'demmo'.*did you mean 'demo'"):
        compose("demmo")


def test_a_file_that_is_named_without_its_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("from_logs.yaml").write_text("name: x\n")
    with pytest.raises(ConfigError, match=r"no config 'from_logs'; .*whole name: from_logs\.yaml"):
        compose("from_logs")


def test_a_base_beside_its_file_is_asked_for_with_a_dot(tmp_path: Path):
    for name, text in (("mine", "lr: 1"), ("over", "base: [mine]"), ("dotted", "base: [./mine]")):
        (tmp_path / f"{name}.yaml").write_text(f"{text}\n")
    with pytest.raises(ConfigError, match=r"over\.yaml:1: no config 'mine'; .*dot: \./mine\.yaml"):
        compose(tmp_path / "over.yaml")
    assert compose(tmp_path / "dotted.yaml").values == {"lr": 1}


def test_scalars_are_what_they_look_like():
    text = (
        "{a: 1e-4, b: .inf, c: 010, d: yes, e: 2024-01-01, f: ~, g: true, h: '1', i: 1_0, j: 1:30}"
    )
    values = {key: node.value for key, node in parse(text, str).value.items()}
    assert values == {
        "a": 1e-4, "b": math.inf, "c": 10, "d": "yes", "e": "2024-01-01", "f": None, "g": True,
        "h": "1", "i": 10, "j": "1:30",
    }  # fmt: skip


@pytest.mark.parametrize("value", [".nan", ".inf", "1e999", "true", "'1'", "null"])
def test_only_finite_numbers_are_numbers(configs: Path, value: str):
    (problem,) = problems(compose("demo", [f"algo.lr={value}"]))
    assert f"override 'algo.lr={value}' algo.lr: expected" in problem


def test_a_field_may_allow_nan(configs: Path):
    assert math.isnan(validate(compose("demo", ["algo.limit=.nan"]), Experiment).algo.limit)


@pytest.mark.parametrize("value", ["1.5", "1e30"])
def test_an_integer_is_whole(configs: Path, value: str):
    found = problems(compose("demo", [f"algo.steps={value}", "stages=[]"]))
    assert [problem.count("algo.steps: expected a valid integer") for problem in found] == [1]


def test_explain_names_the_place_of_every_leaf(configs: Path):
    tree = compose("demo", ["dense=false"])
    places = {key: place for key, _, place in explain(tree, validate(tree, Experiment))}
    assert places["algo.lr"] == "configs/algo/ppo.yaml:2"
    assert places["algo.steps"] == "configs/algo/big.yaml:2"
    assert places["algo.betas.1"] == "configs/experiment/demo.yaml:3"
    assert places["stages.1.steps"] == "configs/experiment/demo.yaml:7"
    assert places["dense"] == "override 'dense=false'"
    assert places["algo.limit"] == "default"


def test_the_resolved_config_reads_back_equal(configs: Path):
    made = validate(compose("demo"), Experiment)
    (configs.parent / "resolved.yaml").write_text(to_yaml(made))
    assert validate(compose("resolved.yaml"), Experiment) == made


_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])),
    st.sampled_from(["1e-4", "yes", "null", "~", "2024-01-01", "0x1F", "<<", "=", ".nan", "- a"]),
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text("abc-", min_size=1), st.lists(_scalars)))
def test_every_value_survives_yaml(values: dict[str, list[object]]):
    read = parse(to_yaml(values), str)
    assert {k: [item.value for item in node.value] for k, node in read.value.items()} == {
        k: [v.replace("${", "\\${") if isinstance(v, str) else v for v in items]
        for k, items in values.items()
    }


def test_a_component_and_its_field_may_be_given_in_either_order():
    pair = ["policy=diffusion", "policy.horizon=16"]
    found = [compose("demo", order).values["policy"] for order in (pair, pair[::-1])]
    assert found[0] == found[1]
    assert (found[0]["name"], found[0]["horizon"]) == ("diffusion", 16)


def test_the_digest_sees_values_and_not_their_order(configs: Path):
    assert digest({"a": 1, "b": [1.0, 2]}) == digest({"b": [1, 2.0], "a": 1.0})
    assert digest(Algo()) != digest(Algo(lr=1e-5))
    assert len(digest(Algo())) == 12


_PIECES = [
    "!!python/object:os.system x", "&a [*a]", "*a", ".nan", '"\\uD800"', "1e999", "${algo}", "${",
    "???", "9" * 40, "\t", "  ", ": ", "- ", "\n", "{", "}", "[", "]", "'", '"', "|", ">", "#",
    "%", "@", "<<: ", "\x00", "\u2028", "é", "~", "true", "-1", "base: demo\n", "name: 3\n",
    "task: []\n", "? ",
]  # fmt: skip


def mutate(text: str, rng: random.Random) -> str:
    for _ in range(rng.randint(1, 6)):
        start, stop = sorted(rng.randint(0, len(text)) for _ in range(2))
        stop = min(stop, start + 20)
        match rng.randint(0, 3):
            case 0:
                text = text[:start] + text[stop:]
            case 1:
                text = text[:start] + rng.choice(_PIECES) + text[start:]
            case 2:
                text = text[:stop] + text[start:]
            case _:
                text = text[:start] + chr(rng.randint(1, 0x2FF)) + text[stop:]
    return text


def test_2000_mutated_files_give_a_config_or_a_config_error(configs: Path):
    rng, refused = random.Random(0), []
    for _ in range(2000):
        write(configs, mutate(FILES["experiment/demo.yaml"] + "dense: true\nseeds: {a: 1}\n", rng))
        try:
            validate(compose("x", [mutate("algo.lr=1e-4", rng)]), Experiment)
        except ConfigError as error:
            refused.append(str(error))
    assert 1000 < len(refused) < 2000
    assert all(refused)
