"""Builds the rows of a dataset and cuts them into episodes.

Shapes: L rows of an episode, A act_dim.

A row is a control period: the last readings that arrived before its start, as in the node, and the
command sent in it. An episode is an unbroken sequence of rows. It ends at a missed period, a hold
or a fault, a stale reading, an outcome, or another instruction. The instruction of a row is the one
that its command follows, if the recording has it, and else the last one that was said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np

from robo_rl.core.errors import ConfigError, DataError, SpecError
from robo_rl_sim2real.control.commands.deltas import DeltaActions, delta_actions
from robo_rl_sim2real.convert.bag_reader import BagMessage, BagReader
from robo_rl_sim2real.convert.control_periods import ControlPeriod
from robo_rl_sim2real.convert.conversion_spec import ConversionSpec
from robo_rl_sim2real.convert.outcomes import Outcomes
from robo_rl_sim2real.messages.ee_pose import EePoseAxes
from robo_rl_sim2real.messages.readings import Inbox, Values
from robo_rl_sim2real.perception.cameras import CameraPreprocessor
from robo_rl_sim2real.perception.observer import Frame, Observer


class EpisodeStep(NamedTuple):
    """A control period with the frame observed at its start and its action (A,)."""

    moment: ControlPeriod
    frame: Frame
    act: Values


class EpisodeSegment(NamedTuple):
    """Consecutive rows and the episode's outcome; None if it is unknown."""

    steps: list[EpisodeStep]
    success: bool | None = None


def make_episode_steps(
    bag: BagReader, wanted: ConversionSpec, moments: Sequence[ControlPeriod]
) -> Iterator[EpisodeStep]:
    """Yield all rows of a bag, in order.

    Raises:
        DataError: A topic is missing, or a reading has other joints or is not finite.
    """
    before: ControlPeriod | None = None
    robot = wanted.sources.robot.build()
    deltas = delta_actions(wanted.contract.act, EePoseAxes.of(robot).names[3:])
    for moment, frame in zip(moments, _frames(bag, wanted, moments), strict=True):
        act = _act(deltas, moment, before)
        before = moment
        if act is None or frame is None or not moment.is_usable:
            continue
        if moment.at_s - frame.stamp_s <= wanted.max_age_s + 1e-9:
            yield EpisodeStep(moment, frame, act)


def cut_into_episodes(found: Iterable[EpisodeStep], outcomes: Outcomes) -> Iterator[EpisodeSegment]:
    """Cut rows into episodes; at most two of them are in memory.

    Args:
        found: Rows of one bag, in order.
        outcomes: The bag's outcomes. If it tells no starts, an episode begins right after each
            outcome.
    """
    told = outcomes.told
    pieces = _unbroken(found, [at_s for at_s, _ in told])
    for piece, following in pairwise(chain(pieces, [[]])):
        start_s = piece[0].moment.at_s
        ends_s = following[0].moment.at_s if following else np.inf
        begun = [success for at_s, success in told if at_s <= start_s]
        after = [success for at_s, success in told if start_s < at_s <= ends_s]
        if outcomes.tells_starts and begun and begun[-1] is not None:
            continue  # the episode is over and no new one has begun
        yield EpisodeSegment(piece, next(iter(after), None))  # None: another episode begins first


def to_store_episode(
    run: EpisodeSegment, wanted: ConversionSpec, *, unknown: bool
) -> dict[str, Any]:
    """Return an episode in the format of ``ZarrStore.extend``.

    Args:
        run: The episode.
        wanted: Types of its items.
        unknown: Success value for an unknown outcome.
    """
    act, length = wanted.contract.act, len(run.steps)
    specs, ended = wanted.contract.obs.items, np.arange(length) == length - 1
    success = unknown if run.success is None else run.success
    words = run.steps[0].frame.instruction
    return {
        "obs": {name: np.stack([row.frame.items[name] for row in run.steps]) for name in specs},
        "act": np.stack([row.act for row in run.steps]).astype(act.dtype),
        "rew": np.zeros(length, np.float32),
        "terminated": ended & bool(run.success),
        "truncated": ended & (not run.success),
        "intervention": np.array([row.moment.by_human for row in run.steps]),
        "success": success,
        "meta": {"outcome": _OUTCOME[run.success], **({"tasks": [words]} if words else {})},
    }


_OUTCOME = {True: "success", False: "failure", None: "unknown"}


def _frames(
    bag: BagReader, wanted: ConversionSpec, moments: Sequence[ControlPeriod]
) -> Iterator[Frame | None]:
    """Yield the frame at the start of each period; None before all topics have arrived."""
    observer, inbox, eyes = wanted.observer(), Inbox(), wanted.preprocessors()
    readings = bag.messages([*observer.topics, *_spoken(bag, wanted, observer, moments)])
    coming = next(readings, None)
    for moment in moments:
        try:
            while coming is not None and coming.reading.stamp_s <= moment.at_s:
                _show(
                    *(inbox, observer, eyes.get(coming.topic), coming),
                    by_node=wanted.is_own_recording,
                )
                coming = next(readings, None)
            told = moment.instruction or not observer.missing_instruction(inbox)
            usable = moment.is_usable and told
            yield observer.read_frame(inbox, moment.instruction) if usable else None
        except (ConfigError, SpecError) as error:
            raise DataError(f"at {moment.at_s:.3f} s: {error}", where=bag.path) from None


def _spoken(
    bag: BagReader, wanted: ConversionSpec, observer: Observer, moments: Sequence[ControlPeriod]
) -> list[str]:
    """Return the topics of instructions to read; none if the control periods have the words.

    Raises:
        DataError: No instruction is known, or a recording may lack what was said before it.
    """
    topics = list(observer.text_topics)
    if any(moment.instruction for moment in moments):
        return []
    if not wanted.is_own_recording:
        topics = [topic for topic in topics if topic in bag.kinds]
    absent = [topic for topic in topics if topic not in bag.kinds]
    missing = observer.missing_instruction(Inbox()) if not topics else ""
    if absent or missing:
        problem = missing or f"no instruction is recorded: nothing came on '{absent[0]}'"
        hint = "if words of the settings were in effect, say settings=… with the text alone"
        raise DataError(problem, where=bag.path, hint=hint)
    return topics


def _show(
    inbox: Inbox,
    observer: Observer,
    eye: CameraPreprocessor | None,
    came: BagMessage,
    *,
    by_node: bool,
) -> None:
    """Put a reading into the inbox, without the images and instructions that the node refused.

    Raises:
        ConfigError: An instruction does not fit, and no node heard it.
    """
    try:
        if came.topic in observer.text_topics:
            observer.check_words(str(came.reading.fields["data"]))
        inbox.put(came.topic, came.reading if eye is None else eye.process(came.reading))
    except ConfigError:
        if not by_node:
            raise
    except SpecError:
        return


def _act(
    deltas: DeltaActions | None, moment: ControlPeriod, before: ControlPeriod | None
) -> Values | None:
    """Return the command as the policy's action, such as a difference for delta actions."""
    if moment.command is None or deltas is None:
        return moment.command
    if before is None or before.command is None or before.number + 1 != moment.number:
        return None
    return deltas.action(before.command, moment.command)


def _unbroken(
    found: Iterable[EpisodeStep], breaks_s: Sequence[float]
) -> Iterator[list[EpisodeStep]]:
    """Yield sequences of rows of consecutive periods and one instruction, without an outcome."""
    rows = iter(found)
    first = next(rows, None)
    if first is None:
        return
    piece = [first]
    for row, following in pairwise(chain([first], rows)):
        told = any(row.moment.at_s < at_s <= following.moment.at_s for at_s in breaks_s)
        other = following.frame.instruction != row.frame.instruction
        if told or other or following.moment.number != row.moment.number + 1:
            yield piece
            piece = []
        piece.append(following)
    yield piece
