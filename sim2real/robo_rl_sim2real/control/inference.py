"""Asking the policy: at once, or in a thread of its own while the control loop goes on.

Shapes: H actions of a chunk, A act_dim; observations (1, To, …).
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from robo_rl.bundle.session import PlannedActions
from robo_rl_sim2real.messages.readings import Values

Query = Callable[[Mapping[str, Values], PlannedActions | None], NDArray[np.float32]]
"""Observation name → (1, To, …), and what is planned already if it is to go on from that, to a
chunk (1, H, A)."""


class InferenceRequest(NamedTuple):
    """An observation, its tick, when the oldest reading in it arrived, and which activation's.

    ``plan`` is what the answer is to go on from, None for nothing.
    """

    obs: Mapping[str, Values]
    tick: int
    observed_s: float
    epoch: int = 0
    plan: PlannedActions | None = None


class InferenceResult(NamedTuple):
    """The question, and the chunk (H, A) for it."""

    question: InferenceRequest
    act: NDArray[np.float64]


class InferenceRunner(Protocol):
    """At most one question at a time."""

    @property
    def idle(self) -> bool:
        """Whether no question is open."""
        ...

    def submit(self, question: InferenceRequest) -> None:
        """Begin; only while idle."""
        ...

    def poll(self) -> InferenceResult | None:
        """What has come of it; each answer is given once.

        Raises:
            Exception: What the query raised.
        """
        ...

    def pending_s(self) -> float:
        """For how long the present question has been open; 0 while idle."""
        ...

    def close(self) -> None:
        """Stop."""
        ...


class InlineInferenceRunner:
    """Answers before ``submit`` returns: for policies that are far faster than a control period.

    Args:
        query: The policy.
    """

    def __init__(self, query: Query) -> None:
        self._query = query
        self._answer: InferenceResult | None = None

    @property
    def idle(self) -> bool:
        """Always."""
        return True

    def submit(self, question: InferenceRequest) -> None:
        """Ask and wait; the time that it takes makes the readings of this tick older."""
        self._answer = _asked(self._query, question)

    def poll(self) -> InferenceResult | None:
        """The answer to the last question, once."""
        found, self._answer = self._answer, None
        return found

    def pending_s(self) -> float:
        """Never."""
        return 0.0

    def close(self) -> None:
        """Nothing to stop."""


class ThreadedInferenceRunner:
    """Answers when it is done, in one thread.

    Args:
        query: The policy.
        now_s: Monotonic clock.
    """

    def __init__(self, query: Query, now_s: Callable[[], float]) -> None:
        self._query, self._now_s = query, now_s
        self._questions: queue.SimpleQueue[InferenceRequest | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[InferenceResult | Exception] = queue.SimpleQueue()
        self._since_s: float | None = None
        self._thread = threading.Thread(target=self._work, name="policy", daemon=True)
        self._thread.start()

    @property
    def idle(self) -> bool:
        """Whether the last answer was fetched."""
        return self._since_s is None

    def submit(self, question: InferenceRequest) -> None:
        """Hand it over."""
        self._since_s = self._now_s()
        self._questions.put(question)

    def poll(self) -> InferenceResult | None:
        """The answer, once it is there."""
        try:
            found = self._answers.get_nowait()
        except queue.Empty:
            return None
        self._since_s = None
        if isinstance(found, Exception):
            raise found
        return found

    def pending_s(self) -> float:
        """Since the question was handed over."""
        return 0.0 if self._since_s is None else self._now_s() - self._since_s

    def close(self) -> None:
        """Let the thread end after what it is at."""
        self._questions.put(None)
        self._thread.join(timeout=1.0)

    def _work(self) -> None:
        while (question := self._questions.get()) is not None:
            try:
                self._answers.put(_asked(self._query, question))
            except Exception as error:  # whatever it is belongs to the thread that asked
                self._answers.put(error)


def _asked(query: Query, question: InferenceRequest) -> InferenceResult:
    return InferenceResult(question, query(question.obs, question.plan)[0].astype(np.float64))
