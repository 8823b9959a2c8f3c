"""Runs the policy's inference, inline or in a thread beside the control loop.

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
"""Maps observations (1, To, …) by name, and optional planned actions, to a chunk (1, H, A)."""


class InferenceRequest(NamedTuple):
    """An observation with its tick, the arrival time of its oldest reading, and its activation.

    ``plan`` is the planned actions to inpaint from; None for none. ``instruction`` is that of the
    observation; empty for none.
    """

    obs: Mapping[str, Values]
    tick: int
    observed_s: float
    epoch: int = 0
    plan: PlannedActions | None = None
    instruction: str = ""


class InferenceResult(NamedTuple):
    """The request and its chunk (H, A)."""

    question: InferenceRequest
    act: NDArray[np.float64]


class FailedInference(NamedTuple):
    """The request and the exception that its query raised."""

    question: InferenceRequest
    error: Exception


class InferenceRunner(Protocol):
    """Runs one inference at a time."""

    @property
    def idle(self) -> bool:
        """Whether no inference is pending."""
        ...

    def submit(self, question: InferenceRequest) -> None:
        """Start an inference; allowed only while idle."""
        ...

    def poll(self) -> InferenceResult | FailedInference | None:
        """Return the finished result, once; None if there is none."""
        ...

    def pending_s(self) -> float:
        """Return the time that the present inference has taken so far; 0 while idle."""
        ...

    def close(self) -> None:
        """Stop the runner."""
        ...


class InlineInferenceRunner:
    """Runs the inference within ``submit``, for policies far faster than a control period.

    Args:
        query: The policy.
    """

    def __init__(self, query: Query) -> None:
        self._query = query
        self._answer: InferenceResult | None = None

    @property
    def idle(self) -> bool:
        """True at all times."""
        return True

    def submit(self, question: InferenceRequest) -> None:
        """Run the inference and wait; its duration adds to the age of this tick's readings."""
        self._answer = _asked(self._query, question)

    def poll(self) -> InferenceResult | None:
        """Return the result of the last request, once."""
        found, self._answer = self._answer, None
        return found

    def pending_s(self) -> float:
        """Return 0, because no inference is ever pending."""
        return 0.0

    def close(self) -> None:
        """Do nothing, because there is no thread to stop."""


class ThreadedInferenceRunner:
    """Runs the inference in a thread of its own.

    Args:
        query: The policy.
        now_s: Monotonic clock.
    """

    def __init__(self, query: Query, now_s: Callable[[], float]) -> None:
        self._query, self._now_s = query, now_s
        self._questions: queue.SimpleQueue[InferenceRequest | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[InferenceResult | FailedInference] = queue.SimpleQueue()
        self._since_s: float | None = None
        self._thread = threading.Thread(target=self._work, name="policy", daemon=True)
        self._thread.start()

    @property
    def idle(self) -> bool:
        """Whether the last result has been fetched."""
        return self._since_s is None

    def submit(self, question: InferenceRequest) -> None:
        """Hand the request to the thread."""
        self._since_s = self._now_s()
        self._questions.put(question)

    def poll(self) -> InferenceResult | FailedInference | None:
        """Return the result if it is finished; None otherwise."""
        try:
            found = self._answers.get_nowait()
        except queue.Empty:
            return None
        self._since_s = None
        return found

    def pending_s(self) -> float:
        """Return the time since the request was submitted; 0 while idle."""
        return 0.0 if self._since_s is None else self._now_s() - self._since_s

    def close(self) -> None:
        """Stop the thread after its present inference."""
        self._questions.put(None)
        self._thread.join(timeout=1.0)

    def _work(self) -> None:
        while (question := self._questions.get()) is not None:
            try:
                self._answers.put(_asked(self._query, question))
            except Exception as error:  # the control loop raises it
                self._answers.put(FailedInference(question, error))


def _asked(query: Query, question: InferenceRequest) -> InferenceResult:
    return InferenceResult(question, query(question.obs, question.plan)[0].astype(np.float64))
