"""Recordings that others made, and recordings that are not what they should be."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from small_bundles import contract as contract_of
from small_bundles import make_bundle
from small_flights import HOME, ROBOT, Flight

from robo_rl.bundle.bundle import Bundle
from robo_rl.cli.main import main
from robo_rl.core.errors import ConfigError, DataError
from robo_rl.core.spec import TOKEN, ObsSpec, TensorSpec
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading

pytest.importorskip("rosbags", reason="pip install 'robo-rl[dds]'")

from small_bags import JOINTS, STORE, Said, convert, joints, write

from robo_rl_sim2real.recording import topics
from robo_rl_sim2real.recording.bag_writer import BagWriter
from robo_rl_sim2real.recording.message_encoder import EncodedMessage

COMMAND, WORDS = ROBOT.topics.command, "/words"


def command(at_s: float, pos: np.ndarray) -> Said:
    return at_s, COMMAND, MsgType.ARRAY, Reading({"data": pos}, (), at_s)


def text(at_s: float, topic: str, data: str) -> Said:
    return at_s, topic, MsgType.TEXT, Reading({"data": np.asarray(data)}, (), at_s)


def course(commands: int = 20) -> list[Said]:
    """Joints at 100 Hz, commands at 20 Hz, each a little after a control period began."""
    said = [joints(0.01 * i, HOME + 0.001 * i) for i in range(5 * commands + 5)]
    said += [command(0.052 + 0.05 * i, HOME + 0.01 * i) for i in range(commands)]
    return sorted(said, key=lambda item: item[0])


@pytest.fixture
def known(tmp_path: Path) -> dict[str, str]:
    """What the user has to say of a recording that says nothing of itself."""
    make_bundle(tmp_path / "bundle", ROBOT)
    settings = {"robot": "panda", "observe": {"pos": {"topic": JOINTS, "field": "position"}}}
    (tmp_path / "settings.yaml").write_text(yaml.safe_dump(settings))
    return {"settings": str(tmp_path / "settings.yaml"), "contract_from": str(tmp_path / "bundle")}


def test_commands_are_laid_on_the_grid_and_no_reading_comes_from_the_future(
    tmp_path: Path, known: dict[str, str]
):
    bag = write(tmp_path / "bag", course())
    rows = convert(bag, tmp_path / "data.zarr", **known).read()
    number = np.arange(20)
    expected = HOME + 0.01 * number[:, None]
    np.testing.assert_array_equal(rows["act"], expected.astype(np.float32))
    newest = np.floor((0.052 + 0.05 * number) / 0.01 + 1e-9)
    seen = HOME + 0.001 * newest[:, None]
    np.testing.assert_allclose(rows["obs.pos"], seen, atol=1e-6)


def test_a_dataset_says_what_is_wanted_as_well_as_a_bundle(tmp_path: Path, known: dict[str, str]):
    bag = write(tmp_path / "bag", course())
    first = convert(bag, tmp_path / "a", **known)
    again = convert(bag, tmp_path / "b", **{**known, "contract_from": str(first.path)})
    np.testing.assert_array_equal(first.read()["act"], again.read()["act"])


def test_jitter_of_the_commands_leaves_each_in_its_row_with_what_was_seen_before(
    tmp_path: Path, known: dict[str, str]
):
    late_s = 0.003 * np.random.default_rng(1).standard_normal(40)
    came_s = 0.1525 + 0.05 * np.arange(40) + late_s
    said = [item for item in course(45) if item[1] == JOINTS]
    said += [command(float(at_s), HOME + 0.01 * i) for i, at_s in enumerate(came_s)]
    bag = write(tmp_path / "bag", sorted(said, key=lambda item: item[0]))
    rows = convert(bag, tmp_path / "data.zarr", **known).read()
    expected = HOME + 0.01 * np.arange(40)[:, None]
    np.testing.assert_array_equal(rows["act"], expected.astype(np.float32))
    seen = HOME + 0.001 * np.floor(came_s / 0.01)[:, None]
    np.testing.assert_allclose(rows["obs.pos"], seen, atol=1e-6)


def test_commands_that_cease_end_an_episode(tmp_path: Path, known: dict[str, str]):
    said = [item for item in course(40) if item[1] == JOINTS or not 0.5 < item[0] < 1.2]
    assert (
        len(convert(write(tmp_path / "bag", said), tmp_path / "data.zarr", **known).episodes) == 2
    )


def test_a_command_of_another_epoch_makes_no_endless_grid(tmp_path: Path, known: dict[str, str]):
    """Such as one of simulated time before the first clock."""
    later = [(at_s + 1e6, *rest) for at_s, *rest in course()]
    said: Any = [joints(0.0, HOME), joints(0.01, HOME), command(0.05, HOME), *later]
    store = convert(write(tmp_path / "bag", said), tmp_path / "data.zarr", **known)
    (episode,) = store.episodes  # without rows next to the jump of the clock
    assert 15 <= episode.length <= 20


def test_changes_are_those_of_what_was_sent(tmp_path: Path, known: dict[str, str]):
    delta = {"reference": "delta", "low": (-0.1,) * 8, "high": (0.1,) * 8}
    contract = contract_of(ROBOT, **delta)
    ZarrStore.create(
        tmp_path / "like", contract.obs, contract.act, {"robot": "panda", "task": "made_up"}
    )
    fields = {**known, "contract_from": str(tmp_path / "like")}
    rows = convert(write(tmp_path / "bag", course()), tmp_path / "data.zarr", **fields).read()
    np.testing.assert_allclose(rows["act"], np.full((19, 8), 0.01), atol=1e-6)


def test_every_change_of_faster_commands_counts_once(tmp_path: Path, known: dict[str, str]):
    """At 100 Hz, with jitter: five changes a row, and none twice."""
    delta = {"reference": "delta", "low": (-0.1,) * 8, "high": (0.1,) * 8}
    contract = contract_of(ROBOT, **delta)
    meta = {"robot": "panda", "task": "made_up"}
    ZarrStore.create(tmp_path / "like", contract.obs, contract.act, meta)
    late_s = 0.001 * np.random.default_rng(2).standard_normal(100)
    said = [item for item in course(25) if item[1] == JOINTS]
    said += [command(0.0525 + 0.01 * i + late_s[i], HOME + 0.002 * i) for i in range(100)]
    bag = write(tmp_path / "bag", sorted(said, key=lambda item: item[0]))
    fields = {**known, "contract_from": str(tmp_path / "like")}
    rows = convert(bag, tmp_path / "data.zarr", **fields).read()
    np.testing.assert_allclose(rows["act"], np.full((19, 8), 0.01), atol=1e-6)


def test_commands_outside_the_limits_are_counted_and_the_farthest_is_named(
    tmp_path: Path, known: dict[str, str], capsys: pytest.CaptureFixture[str]
):
    far = HOME + 2000.0 * (np.arange(8) == 0)
    said = [item for item in course() if item[1] == JOINTS]
    said += [command(0.052 + 0.05 * i, far if i == 7 else HOME) for i in range(20)]
    bag, out = write(tmp_path / "bag", sorted(said, key=lambda s: s[0])), tmp_path / "d.zarr"
    words = [f"{key}={value}" for key, value in known.items()]
    assert main(["data", "convert", str(bag), "--out", str(out), *words]) == 0
    assert (
        "actions outside their limits in 1 of 20 rows, the farthest in episode 0, row 7:"
        f" 'panda_joint1' is {2000.0 + HOME[0]:.6g} rad, limit 2.8973 rad"
    ) in capsys.readouterr().out


@pytest.fixture
def told(tmp_path: Path, known: dict[str, str]) -> dict[str, str]:
    """``known`` for a policy that was also shown the bytes of an instruction."""
    plain = Bundle.load(tmp_path / "bundle")
    item = TensorSpec(shape=(16,), dtype="int64", unit=TOKEN)
    agreed = plain.manifest.contract
    obs = ObsSpec(items={**agreed.obs.items, "instruction": item})
    encoder = {"name": "bytes", "max_bytes": 16}
    contract = agreed.model_copy(update={"obs": obs, "text_encoder": encoder})
    manifest = plain.manifest.model_copy(update={"contract": contract, "files": {}})
    Bundle.write(tmp_path / "told", manifest, {"policy.onnx": plain.read("policy.onnx")})
    settings = yaml.safe_load(Path(known["settings"]).read_text())
    settings["observe"]["instruction"] = {"topic": WORDS, "msg_type": MsgType.TEXT.value}
    Path(known["settings"]).write_text(yaml.safe_dump(settings))
    return {**known, "contract_from": str(tmp_path / "told")}


def spoken(*said: tuple[float, str]) -> list[Said]:
    return sorted([*course(), *(text(at_s, WORDS, w) for at_s, w in said)], key=lambda x: x[0])


def test_the_words_of_a_row_are_the_last_that_were_said(tmp_path: Path, told: dict[str, str]):
    bag = write(tmp_path / "bag", spoken((0.0, "lift"), (0.5, "press")))
    store = convert(bag, tmp_path / "data.zarr", **told)
    assert [episode.meta["tasks"] for episode in store.episodes] == [["lift"], ["press"]]


def test_words_that_do_not_fit_are_an_error_where_no_node_refused_them(
    tmp_path: Path, told: dict[str, str]
):
    bag = write(tmp_path / "bag", spoken((0.0, "lift"), (0.5, "press it down as far as it goes")))
    with pytest.raises(DataError, match=r"at 0\.5.* s: .*too long"):
        convert(bag, tmp_path / "data.zarr", **told)
    store = ZarrStore.create(
        tmp_path / "like",
        Bundle.load(Path(told["contract_from"])).manifest.contract.obs,
        contract_of(ROBOT).act,
        {"robot": "panda", "task": "made_up"},
    )
    with pytest.raises(ConfigError, match="no text encoder is named"):
        convert(bag, tmp_path / "data.zarr", **{**told, "contract_from": str(store.path)})


BAD = {
    "a bag that says nothing of itself": (
        course(),
        {"contract_from": ""},
        "say settings=deploy/NAME",
    ),
    "no commands": ([s for s in course() if s[1] == JOINTS], {}, f"nothing came on '{COMMAND}'"),
    "no readings": ([s for s in course() if s[1] != JOINTS], {}, f"nothing came on '{JOINTS}'"),
    "other joints": (
        [*course(), joints(0.5015, HOME, tuple(f"j{i}" for i in range(8)))],
        {},
        "no 'panda_joint1' in what came",
    ),
    "NaN where it was measured": ([*course(), joints(1.001, HOME * np.nan)], {}, "not finite"),
    "NaN in a command": ([*course(), command(1.06, HOME * np.nan)], {}, "expected finite numbers"),
    "too few joints": ([*course(), command(1.06, HOME[:-1])], {}, "expected 8 joints, found 7"),
    "an outcome that is none": (
        [*course(), text(0.5, "/sim/episode", '{"success": 1}')],
        {},
        "no outcome on '/sim/episode'",
    ),
    **{
        f"an outcome that is no boolean, {said}": (
            [*course(), text(0.5, "/sim/episode", said)],
            {},
            f"no outcome on '/sim/episode': {found} is no boolean",
        )
        for said, found in {
            '{"over": true, "success": "false"}': "'false'",
            '{"over": "false", "success": true}': "'false'",
            '{"over": true, "success": NaN}': "nan",
            '{"over": true, "success": [0]}': "[0]",
            '{"over": true, "success": 1}': "1",
            '{"over": null, "success": true}': "None",
        }.items()
    },
    "a command of another interface": (
        [*course(), text(0.5, COMMAND, "go")][-1:] + [s for s in course() if s[1] == JOINTS],
        {},
        "expected std_msgs/msg/Float64MultiArray, found std_msgs/msg/String",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_used_is_one_error_and_no_dataset(
    tmp_path: Path, known: dict[str, str], case: str, capsys: pytest.CaptureFixture[str]
):
    said, fields, problem = BAD[case]
    bag = write(tmp_path / "bag", sorted(said, key=lambda item: item[0]))
    words = [f"{key}={value}" for key, value in {**known, **fields}.items() if value]
    assert main(["data", "convert", str(bag), "--out", str(tmp_path / "d.zarr"), *words]) == 2
    said_of_it = capsys.readouterr().err
    assert problem in said_of_it
    assert str(bag) in said_of_it
    assert "Traceback" not in said_of_it
    assert not (tmp_path / "d.zarr").exists()


def test_what_gives_the_contract_and_is_not_there_is_told_by_its_key(
    tmp_path: Path, known: dict[str, str]
):
    bag = write(tmp_path / "bag", course())
    with pytest.raises(ConfigError, match=r"^contract_from=runs/nope: does not exist; expected a "):
        convert(bag, tmp_path / "data.zarr", **{**known, "contract_from": "runs/nope"})


def recorded(tmp_path: Path) -> Path:
    flight = Flight(tmp_path)
    with flight.recorded() as recorder:
        flight.run(3)
        flight.node.request("activate")
        flight.run(40)
    return recorder.bags[0]


@pytest.mark.parametrize("share", [0.2, 0.7, 0.99])
def test_a_recording_that_was_cut_off_is_told_how_to_mend_it(tmp_path: Path, share: float):
    bag = recorded(tmp_path)
    (file,) = bag.glob("*.mcap")
    file.write_bytes(file.read_bytes()[: int(share * file.stat().st_size)])
    with pytest.raises(DataError, match="was cut off; `robo-rl data recover` writes what is whole"):
        convert(bag, tmp_path / "data.zarr")


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[pytest.mark.slow] * (n > 6)) for n in range(20)]
)
def test_whatever_bytes_are_changed_it_is_the_same_data_or_one_error(tmp_path: Path, seed: int):
    bag, rng = recorded(tmp_path), np.random.default_rng(seed)
    whole = convert(bag, tmp_path / "whole").read()
    (file,) = bag.glob("*.mcap")
    data = bytearray(file.read_bytes())
    for at in rng.integers(0, len(data), 20):
        data[at] = rng.integers(256)
    file.write_bytes(data)
    found: Mapping[str, np.ndarray] | None = None
    with contextlib.suppress(DataError):
        found = convert(bag, tmp_path / "data.zarr").read()
    for key, column in (found or {}).items():
        np.testing.assert_array_equal(column, whole[key])


def test_ticks_out_of_order_are_not_believed(tmp_path: Path):
    bag = recorded(tmp_path)
    from rosbags.highlevel import AnyReader

    said: list[EncodedMessage] = []
    with AnyReader([bag]) as reader:
        for way, time_ns, cdr in reader.messages():
            late = 10_000_000_000 if way.topic == topics.TICK and len(said) < 50 else 0
            said.append(EncodedMessage(way.topic, way.msgtype, time_ns + late, bytes(cdr)))
    made = BagWriter(tmp_path / "shifted", STORE)
    for message in said:
        made.write(message)
    made.close()
    with pytest.raises(DataError, match="ticks out of order"):
        convert(tmp_path / "shifted", tmp_path / "data.zarr")


@pytest.mark.parametrize("name", ["nothing", "empty", "text.mcap", "junk/junk.mcap"])
def test_what_is_no_recording_is_one_error(tmp_path: Path, name: str):
    (tmp_path / "empty").mkdir()
    (tmp_path / "junk").mkdir()
    (tmp_path / "junk" / "metadata.yaml").write_text("a: [")
    for file in ("text.mcap", "junk/junk.mcap"):
        (tmp_path / file).write_text("hello")
    place = (tmp_path / name).parent if "/" in name else tmp_path / name
    with pytest.raises(DataError, match="recording"):
        convert(place, tmp_path / "data.zarr")
