"""From readings to what a policy was trained on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_robot import contract

from robo_rl.core.errors import ConfigError, SpecError
from robo_rl.core.rotations import quat_to_rot6d as quat_to_rot6d_tensor
from robo_rl.core.spec import ObsSpec, TensorSpec
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Inbox, Reading, select_by_name
from robo_rl_sim2real.perception.observer import Observer, Source

SPEC = ObsSpec(
    items={
        "arm": TensorSpec(shape=(2,), unit="rad", names=("b", "a")),
        "turn": TensorSpec(shape=(6,)),
        "gap": TensorSpec(shape=(3,), unit="m"),
        "image": TensorSpec(shape=(2, 2, 3), dtype="uint8"),
    }
)
SOURCES = {
    "arm": Source(topic="/joints", field="position"),
    "turn": Source(topic="/hand", msg_type=MsgType.POSE, field="rot6d"),
    "gap": Source(difference=("cube", "hand")),
    "cube": Source(topic="/cube", msg_type=MsgType.POSE, field="position"),
    "hand": Source(topic="/hand", msg_type=MsgType.POSE, field="position"),
    "image": Source(topic="/camera", msg_type=MsgType.IMAGE, field="image"),
}
QUAT = np.array([0.5, 0.5, -0.5, 0.5])


def observer(history: int = 1, **changes: Source) -> Observer:
    agreed = contract(history).model_copy(update={"obs": SPEC})
    return Observer(agreed, {**SOURCES, **changes})


def inbox(stamp_s: float = 1.0) -> Inbox:
    box = Inbox()
    box.put("/joints", Reading({"position": np.array([1.0, 2.0, 3.0])}, ("a", "b", "c"), stamp_s))
    pose = {"position": np.array([0.1, 0.2, 0.3]), "orientation": QUAT}
    box.put("/hand", Reading(pose, (), stamp_s + 1.0))
    box.put("/cube", Reading({"position": np.ones(3)}, (), stamp_s + 2.0))
    image = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    box.put("/camera", Reading({"image": image}, (), stamp_s + 3.0))
    return box


@pytest.mark.parametrize(
    ("said", "own", "refused"),
    [
        ("base", "", False),
        ("", "", False),
        ("camera", "", True),
        ("camera", "camera", False),
        ("base", "camera", True),
    ],
)
def test_poses_are_those_of_the_frame_that_the_policy_knows(said: str, own: str, *, refused: bool):
    cube = SOURCES["cube"].model_copy(update={"frame": own})
    agreed = contract(1).model_copy(update={"obs": SPEC})
    watching = Observer(agreed, {**SOURCES, "cube": cube}, base_frame="base")
    box = inbox()
    fields = {"position": np.ones(3), **({"frame": np.asarray(said)} if said else {})}
    box.put("/cube", Reading(fields, (), 9.0))
    if refused:
        with pytest.raises(SpecError, match=rf"/cube for obs 'cube': frame.*found {said}"):
            watching.read_frame(box)
    else:
        assert watching.read_frame(box) is not None


def test_items_come_by_name_in_the_order_and_type_of_training():
    frame = observer().read_frame(inbox())
    assert frame is not None
    assert frame.items["arm"].tolist() == [2.0, 1.0]
    assert {name: str(v.dtype) for name, v in frame.items.items()} == {
        name: spec.dtype for name, spec in SPEC.items.items()
    }
    np.testing.assert_allclose(frame.items["gap"], [0.9, 0.8, 0.7], rtol=1e-6)
    assert frame.items["image"].max() == 11


def test_a_turn_is_the_one_that_tasks_observe():
    ours = quat_to_rot6d_tensor(torch.from_numpy(QUAT)).numpy()
    reading = Reading({"orientation": QUAT}, (), 0.0)
    np.testing.assert_allclose(select_by_name(reading, "rot6d", (), "/hand"), ours, atol=1e-12)


def test_it_is_as_old_as_its_oldest_reading_and_nothing_before_all_came():
    frame = observer().read_frame(inbox(5.0))
    assert frame is not None
    assert frame.stamp_s == 5.0
    box = Inbox()
    assert observer().read_frame(box) is None
    assert observer().topics.keys() == {"/joints", "/hand", "/cube", "/camera"}


def test_an_older_reading_does_not_replace_a_newer_one():
    box = inbox(5.0)
    box.put("/cube", Reading({"position": np.zeros(3)}, (), 4.0))
    newest = box.get("/cube")
    assert newest is not None
    assert newest.fields["position"].sum() == 3.0


def test_history_is_the_last_frames_the_latest_last():
    maker, box, seen = observer(3), inbox(), []
    for step in range(4):
        names = ("a", "b", "c")
        box.put("/joints", Reading({"position": np.full(3, float(step))}, names, 9.0))
        frame = maker.read_frame(box)
        assert frame is not None
        obs = maker.observation(frame, step)
        assert obs["arm"].shape == (1, 3, 2)
        seen.append(obs["arm"][0, :, 0].tolist())
    assert seen == [[0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 3]]
    frame = maker.read_frame(box)
    assert frame is not None
    assert maker.observation(frame, 5)["arm"][0, :, 0].tolist() == [3, 3, 3]


@pytest.mark.parametrize(
    ("topic", "reading", "message"),
    [
        ("/joints", Reading({"position": np.zeros(2)}, ("a", "c"), 9.0), "no 'b'"),
        ("/joints", Reading({"position": np.zeros(2)}, (), 9.0), "without names"),
        ("/joints", Reading({"position": np.zeros(2)}, ("a", "b", "c"), 9.0), "differ in number"),
        ("/cube", Reading({"position": np.full(3, np.nan)}, (), 9.0), "not finite"),
        ("/joints", Reading({"position": np.zeros(3)}, ("a", "b", "b"), 9.0), "'b' is named twice"),
        (
            "/hand",
            Reading({"position": np.zeros(3), "orientation": np.zeros(4)}, (), 9.0),
            "length 1",
        ),
        ("/cube", Reading({"point": np.zeros(3)}, (), 9.0), "no field 'position'"),
        ("/cube", Reading({"position": np.zeros(1)}, (), 9.0), "'cube' less 'hand'"),
        ("/camera", Reading({"image": np.zeros((4, 4, 3), np.uint8)}, (), 9.0), "obs 'image'"),
    ],
)
def test_what_does_not_fit_is_an_error_that_names_it(topic, reading, message):
    box = inbox()
    box.put(topic, reading)
    with pytest.raises(SpecError, match=message):
        observer().read_frame(box)


def test_every_item_needs_a_source():
    sources = {name: source for name, source in SOURCES.items() if name != "hand"}
    agreed = contract().model_copy(update={"obs": SPEC})
    with pytest.raises(ConfigError, match="no source of 'hand', of which 'gap' is a difference"):
        Observer(agreed, sources)
    with pytest.raises(ConfigError, match="is a difference of itself"):
        observer(hand=Source(difference=("gap", "cube")))
    with pytest.raises(ConfigError, match="'/hand' has another elsewhere"):
        observer(hand=SOURCES["hand"].model_copy(update={"msg_type": MsgType.ARRAY}))
    with pytest.raises(ConfigError, match="a topic, or difference"):
        observer(arm=Source())


def test_settings_may_name_items_that_the_policy_does_not_see():
    """The settings of a robot serve policies that see its cameras, and those that do not."""
    spec = ObsSpec(items={name: SPEC.items[name] for name in ("arm", "gap")})
    own = Observer(contract().model_copy(update={"obs": spec}), SOURCES)
    assert set(own.sources) == {"arm", "gap", "cube", "hand"}
    assert set(own.topics) == {"/joints", "/cube", "/hand"}
    box = inbox()
    frame = own.read_frame(box)
    assert frame is not None
    assert set(frame.items) == {"arm", "gap"}


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("sources", [{"arm": SOURCES["arm"]}, None])
def test_joints_without_names_are_refused_unless_there_is_one(size: int, sources):
    """A message has them in its sender's order, which is not that of training."""
    joints = {name: SOURCES["arm"] for name in ("leader", "follower")}
    sources = sources or {"arm": Source(difference=("leader", "follower")), **joints}
    spec = ObsSpec(items={"arm": TensorSpec(shape=(size,), unit="rad")})
    agreed = contract().model_copy(update={"obs": spec})
    if size == 1:
        Observer(agreed, sources)
    else:
        with pytest.raises(ConfigError, match="joints of 'arm' have no names in the contract"):
            Observer(agreed, sources)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({"topic": "/a", "difference": ("a", "b")}, "topic: is not read for a difference"),
        (
            {"topic": "/a", "frame": "base"},
            "frame: needs msg_type geometry_msgs/msg/Pose",
        ),
    ],
)
def test_a_setting_of_a_source_without_effect_is_refused(source, says):
    with pytest.raises(ValueError, match=says):
        Source.model_validate(source)
