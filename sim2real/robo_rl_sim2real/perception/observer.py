"""Builds the policy's observations from readings: names, order, history and types.

Shapes: To frames of history, the latest last. An observation has one row: (1, To, …).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from pydantic import model_validator

from robo_rl.bundle.manifest import Contract
from robo_rl.bundle.text import text_encoder_of
from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import ConfigError, SpecError
from robo_rl.core.images import Crop
from robo_rl.core.spec import TensorSpec
from robo_rl.core.suggestions import did_you_mean
from robo_rl.language.base import INSTRUCTION, TextEncoder
from robo_rl_sim2real.messages.kinds import IMAGES, MsgType, TopicName
from robo_rl_sim2real.messages.pose import check_frame
from robo_rl_sim2real.messages.readings import Inbox, Values, select_by_name
from robo_rl_sim2real.perception.spoken_text import SpokenText

_FRAMED = (MsgType.POSE, MsgType.TWIST)
"""Interfaces whose values are in a coordinate frame."""


class Source(ConfigModel):
    """Source of an item of the observation: a field of a topic, or the difference of two items.

    Args:
        topic: Name of the topic; empty for a difference.
        msg_type: Interface of its messages.
        field: Field of its messages: ``position``, ``velocity``, ``rot6d``, ``data`` …; unused for
            images.
        difference: (a, b): the item is item a minus item b.
        crop: [top, left, height, width] of the used part of an image; shares of the image if none
            is above 1, else pixels.
        camera_info: Topic of the camera's calibration, sensor_msgs/msg/CameraInfo, which is
            compared with the robot's; empty for no comparison.
        camera: Name of the robot's camera; empty if the topic is the robot's own.
        text: For an instruction: the words that are in effect until the topic gives others.
        frame: Coordinate frame of poses and velocities; empty for that of the robot's base.
    """

    topic: TopicName = ""
    msg_type: MsgType = MsgType.JOINT_STATES
    field: str = "data"
    difference: tuple[str, str] | None = None
    crop: Crop | None = None
    camera_info: TopicName = ""
    """Topic of the ``CameraInfo``; empty for no check of the intrinsics."""
    camera: str = ""
    text: str = ""
    frame: str = ""

    @model_validator(mode="after")
    def _has_no_second_source(self) -> Source:
        if self.difference is not None and self.topic:
            raise ValueError("topic: is not read for a difference")
        if self.frame and self.msg_type not in _FRAMED:
            kinds = " or ".join(kind.value for kind in _FRAMED)
            raise ValueError(f"frame: needs msg_type {kinds}")
        return self

    @model_validator(mode="after")
    def _text_is_text(self) -> Source:
        if self.text and self.msg_type is not MsgType.TEXT:
            raise ValueError(f"text: needs msg_type {MsgType.TEXT.value}")
        return self


class Frame(NamedTuple):
    """The items of the observation at one moment.

    Args:
        items: Name → its array, as in the contract's spec.
        stamp_s: Arrival time of the oldest reading in use.
        instruction: The words in effect; empty for none.
    """

    items: dict[str, Values]
    stamp_s: float
    instruction: str = ""


class Observer:
    """Builds observations from readings.

    Args:
        contract: Contract of the policy.
        sources: Item → its source, for all items of the contract and all operands of differences.
            Others are left out, so that settings of a robot serve policies that see other items.
        encoder: Encoder of instructions; None builds that of the contract.
        base_frame: Frame of poses and velocities whose source names none; empty for any.

    Raises:
        ConfigError: An item has no source, an operand of a difference is missing, several
            joints have no names in the contract, or the text of a source is empty or too long.
    """

    def __init__(
        self,
        contract: Contract,
        sources: Mapping[str, Source],
        encoder: TextEncoder | None = None,
        base_frame: str = "",
    ) -> None:
        self._base_frame = base_frame
        self.specs, self.sources = contract.obs.items, dict[str, Source]()
        self._words = SpokenText(encoder or text_encoder_of(contract))
        self._frames: deque[Frame] = deque(maxlen=contract.obs_horizon)
        self._last = -2
        for name in self.specs:
            self._take(name, sources, "what the policy was trained on")
        self._check_kinds()
        self._check_names()
        for source in self.sources.values():
            if source.text:
                self._words.encode(source.text)

    @property
    def topics(self) -> dict[str, MsgType]:
        """Topics of measurements and their interfaces; they must stay fresh."""
        return {topic: kind for topic, kind in self._heard().items() if kind is not MsgType.TEXT}

    @property
    def text_topics(self) -> dict[str, MsgType]:
        """Topics of instructions, which are said once."""
        return {topic: kind for topic, kind in self._heard().items() if kind is MsgType.TEXT}

    def _heard(self) -> dict[str, MsgType]:
        return {source.topic: source.msg_type for source in self.sources.values() if source.topic}

    def check_words(self, text: str) -> None:
        """Encode an instruction, before it takes effect.

        Raises:
            ConfigError: It is empty or too long.
        """
        self._words.encode(text)

    def missing_instruction(self, inbox: Inbox) -> str:
        """Return why there is no instruction yet; empty if there is one or none is needed."""
        for source in self.sources.values():
            if source.msg_type is MsgType.TEXT and not self._words.said(source, inbox):
                return f"no instruction: publish one on '{source.topic}', or set observe.*.text"
        return ""

    def read_frame(self, inbox: Inbox, instruction: str = "") -> Frame | None:
        """Return the present frame; None if a topic of measurements is silent so far.

        Before the first instruction its item is all padding; see ``missing_instruction``.

        Args:
            inbox: The latest readings.
            instruction: Words in place of those in effect; empty for those in effect.

        Raises:
            SpecError: A reading does not fit.
        """
        if any(inbox.get(topic) is None for topic in self.topics):
            return None
        source = self.sources.get(INSTRUCTION)
        said = "" if source is None else instruction or self._words.said(source, inbox)
        items, stamps = dict[str, Values](), list[float]()
        for name, spec in self.specs.items():
            if name == INSTRUCTION:
                value = self._words.item(said, spec)
            else:
                value = self._value(name, spec, inbox, stamps)
            if value.shape != spec.shape:
                raise SpecError(f"obs '{name}'", expected=spec.shape, found=value.shape)
            items[name] = value.astype(spec.dtype, copy=False)
        return Frame(items, min(stamps), said)

    def observation(self, frame: Frame, tick: int) -> dict[str, Values]:
        """Return name → (1, To, …): the history with this tick's frame as its latest.

        After a gap in ticks or with another instruction the history restarts, as in an episode. The
        policy has never seen a history with gaps, or of two instructions, in training.
        """
        other = self._frames and self._frames[-1].instruction != frame.instruction
        if tick != self._last + 1 or other:
            self.reset_history()
        self._last = tick
        self._frames.append(frame)
        while len(self._frames) < (self._frames.maxlen or 1):
            self._frames.append(frame)
        return {name: np.stack([f.items[name] for f in self._frames])[None] for name in self.specs}

    def reset_history(self) -> None:
        """Restart the history."""
        self._frames.clear()

    def _value(self, name: str, spec: TensorSpec, inbox: Inbox, stamps: list[float]) -> Values:
        source = self.sources[name]
        if source.difference is not None:
            one, other = (self._value(item, spec, inbox, stamps) for item in source.difference)
            if one.shape != other.shape:  # broadcasting would hide it
                what = " less ".join(f"'{item}'" for item in source.difference)
                raise SpecError(f"obs '{name}', {what}", expected=one.shape, found=other.shape)
            return one - other
        reading = inbox.get(source.topic)
        assert reading is not None
        stamps.append(reading.stamp_s)
        where = f"{source.topic} for obs '{name}'"
        if source.msg_type in _FRAMED:
            frame = source.frame or self._base_frame
            hint = f"publish it in '{frame}', or set observe.{name}.frame where both are one"
            if frame:
                check_frame(reading, frame, where, hint)
        if source.msg_type is MsgType.JOINT_STATES and not reading.names:
            raise SpecError("joint states without names", where=where)
        field = name if source.msg_type in IMAGES else source.field
        return select_by_name(reading, field, spec.names, where)

    def _check_kinds(self) -> None:
        kinds = self._heard()
        for name, source in self.sources.items():
            if source.topic and source.msg_type is not kinds[source.topic]:
                raise ConfigError(
                    f"observe.{name}.msg_type: '{source.topic}' has another elsewhere",
                    expected=kinds[source.topic].value,
                    found=source.msg_type.value,
                )
            if (source.msg_type is MsgType.TEXT) != (name == INSTRUCTION):
                raise ConfigError(
                    f"observe.{name}.msg_type",
                    expected=f"{MsgType.TEXT.value} for '{INSTRUCTION}', and for nothing else",
                    found=source.msg_type.value,
                )

    def _check_names(self) -> None:
        """Refuse joints that would be taken in whatever order a message has them."""
        for item, spec in self.specs.items():
            if spec.names or spec.size == 1:
                continue
            for name in self._measured(item):
                if self.sources[name].msg_type is MsgType.JOINT_STATES:
                    raise ConfigError(
                        f"observe.{name}: the joints of '{item}' have no names in the contract",
                        expected=f"{spec.size} names, since the order in a message is its sender's",
                        found="none",
                        hint="name the joints in the spec of the item (names), and export again",
                    )

    def _measured(self, name: str) -> list[str]:
        """Return the items with a topic that an item is computed from."""
        source = self.sources[name]
        if source.difference is None:
            return [name] if source.topic else []
        return [part for item in source.difference for part in self._measured(item)]

    def _take(
        self,
        name: str,
        sources: Mapping[str, Source],
        wanted_by: str,
        above: tuple[str, ...] = (),
    ) -> None:
        """Take the source of an item, and those of the operands of a difference."""
        source = sources.get(name)
        if name in above:
            raise ConfigError(f"observe.{name}: is a difference of itself", found=above)
        if source is None:
            raise ConfigError(
                f"observe: no source of '{name}', {wanted_by}",
                hint=did_you_mean(name, sources),
            )
        if source.difference is None and not source.topic and not source.text:
            raise ConfigError(f"observe.{name}", expected="a topic, or difference", found="neither")
        self.sources[name] = source
        for item in source.difference or ():
            self._take(item, sources, f"of which '{name}' is a difference", (*above, name))
