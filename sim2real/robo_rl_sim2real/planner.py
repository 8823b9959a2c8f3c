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

from robo_rl_sim2real.readings import Values

Query = Callable[[Mapping[str, Values]], NDArray[np.float32]]
"""Observation name → (1, To, …) to a chunk (1, H, A)."""


class Question(NamedTuple):
    """An observation, the tick at which it was made, and when it was measured."""

    obs: Mapping[str, Values]
    tick: int
    observed_s: float


class Answer(NamedTuple):
    """The question, and the chunk (H, A) for it."""

    question: Question
    act: NDArray[np.float64]


class Planner(Protocol):
    """At most one question at a time."""

    def ask(self, question: Question, now_s: float) -> None:
        """Begin; only while idle."""
        ...

    def answer(self) -> Answer | None:
        """What has come of it; each answer is given once.

        Raises:
            Exception: What the query raised.
        """
        ...

    def thinking_s(self, now_s: float) -> float:
        """For how long the present question has been open; 0 while idle."""
        ...

    def close(self) -> None:
        """Stop."""
        ...


class InlinePlanner:
    """Answers before ``ask`` returns: for policies that are far faster than a control period.

    Args:
        query: The policy.
    """

    def __init__(self, query: Query) -> None:
        self._query = query
        self._answer: Answer | None = None

    def ask(self, question: Question, now_s: float) -> None:
        """Ask and wait."""
        del now_s
        self._answer = _asked(self._query, question)

    def answer(self) -> Answer | None:
        """The answer to the last question, once."""
        found, self._answer = self._answer, None
        return found

    def thinking_s(self, now_s: float) -> float:
        """Never."""
        del now_s
        return 0.0

    def close(self) -> None:
        """Nothing to stop."""


class ThreadPlanner:
    """Answers when it is done, in one thread.

    Args:
        query: The policy.
    """

    def __init__(self, query: Query) -> None:
        self._query = query
        self._questions: queue.SimpleQueue[Question | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Answer | Exception] = queue.SimpleQueue()
        self._since_s: float | None = None
        self._thread = threading.Thread(target=self._work, name="policy", daemon=True)
        self._thread.start()

    def ask(self, question: Question, now_s: float) -> None:
        """Hand it over."""
        self._since_s = now_s
        self._questions.put(question)

    def answer(self) -> Answer | None:
        """The answer, once it is there."""
        try:
            found = self._answers.get_nowait()
        except queue.Empty:
            return None
        self._since_s = None
        if isinstance(found, Exception):
            raise found
        return found

    def thinking_s(self, now_s: float) -> float:
        """Since the question was handed over."""
        return 0.0 if self._since_s is None else now_s - self._since_s

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


def _asked(query: Query, question: Question) -> Answer:
    return Answer(question, query(question.obs)[0].astype(np.float64))
