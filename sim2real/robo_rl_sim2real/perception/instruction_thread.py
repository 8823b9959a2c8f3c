"""Encodes instructions in a thread of its own, since that takes long."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from robo_rl.core.errors import SpecError
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Inbox, Reading
from robo_rl_sim2real.messages.text import read_text
from robo_rl_sim2real.perception.latest_worker import LatestWorker


class InstructionWorker:
    """Passes instructions from a transport to an inbox, once they are encoded.

    An instruction that does not fit leaves the last in effect.

    Args:
        topics: Topics of instructions; without topics there is no thread.
        encode: Encodes a text; an error refuses it.
        inbox: Destination of the instructions.
        on_message: Receives each instruction of acceptable length, before it is encoded.
        on_refusal: Receives why an instruction is refused, in any thread.
    """

    def __init__(
        self,
        topics: Iterable[str],
        encode: Callable[[str], None],
        inbox: Inbox,
        on_message: Callable[[str, MsgType, Reading], None],
        on_refusal: Callable[[str], None],
    ) -> None:
        self._encode, self._inbox = encode, inbox
        self._on_message, self._on_refusal = on_message, on_refusal
        works = {topic: partial(self._process, topic) for topic in topics}
        self._worker = LatestWorker(works, lambda _, why: on_refusal(why), "instructions")

    @property
    def is_busy(self) -> bool:
        """Whether an instruction waits or is being encoded."""
        return self._worker.is_busy

    def put(self, topic: str, reading: Reading) -> None:
        """Encode an instruction, in place of one that waits. Does not block."""
        try:
            read_text(reading)
        except SpecError as error:
            self._on_refusal(str(error))
        else:
            self._on_message(topic, MsgType.TEXT, reading)
            self._worker.put(topic, reading)

    def close(self) -> None:
        """Stop the thread after the waiting instructions."""
        self._worker.close()

    def _process(self, topic: str, reading: Reading) -> None:
        self._encode(str(reading.fields["data"]))
        self._inbox.put(topic, reading)
