"""Requests chunks from the policy and schedules those that are still valid.

A restart discards what was requested before it. An instruction that is no longer in effect is
withdrawn: its chunks do not replace those of the present one.
"""

from __future__ import annotations

from typing import NamedTuple

from robo_rl.core.errors import SpecError
from robo_rl_sim2real.control.chunk_scheduler import Chunk, ChunkScheduler, DueAction
from robo_rl_sim2real.control.inference import (
    FailedInference,
    InferenceRequest,
    InferenceRunner,
)
from robo_rl_sim2real.control.prefix import Prefix, PrefixRefresher, Tensors


class PolicyInput(NamedTuple):
    """What the policy sees in one tick.

    Args:
        obs: Observations (1, To, …) by name.
        observed_s: Arrival of the oldest reading, in s.
        instruction: Instruction of the observation; empty for none.
    """

    obs: Tensors
    observed_s: float
    instruction: str = ""


class PolicyQueries:
    """The policy as the control loop uses it; ticks count from the activation.

    Args:
        inference: Runs the policy.
        chunks: Schedules its chunks.
        prefix: Refreshes the prefix of a policy in two graphs; None for one graph.
    """

    def __init__(
        self,
        inference: InferenceRunner,
        chunks: ChunkScheduler,
        prefix: PrefixRefresher | None = None,
    ) -> None:
        self.inference, self.chunks, self.prefix = inference, chunks, prefix
        self.instruction = ""
        """The instruction in effect; empty for none."""
        self._epoch = 0
        self._arrived: Chunk | None = None

    def restart(self) -> None:
        """Discard all chunks, and the answers to earlier requests."""
        self.chunks.clear()
        self._arrived = None
        self._epoch += 1

    def request(self, seen: PolicyInput, tick: int, *, executes: bool, wanted: bool = True) -> None:
        """Request a chunk if one is due; refresh the prefix in any case.

        Args:
            seen: The present observations.
            tick: Tick of the observations.
            executes: Whether the robot executes the planned actions, so that a chunk continues
                them. During a ramp or a hold it does not.
            wanted: Whether a chunk may be requested.
        """
        request = self._make_request(seen, tick)
        if request is None or self._is_withdrawn(request.instruction):
            return
        words = request.instruction
        if wanted and self.inference.idle and self.chunks.wants_query(tick, words):
            plan = self.chunks.plan(tick, words) if executes else None
            self.inference.submit(request._replace(plan=plan))

    def receive(self, tick: int, size: int) -> None:
        """Schedule the chunk that has arrived, if any; its actions have ``size`` values.

        Raises:
            SpecError: The chunk has another shape.
            Exception: The policy raised it in this activation.
        """
        found = self.inference.poll()
        if found is None or found.question.epoch != self._epoch:
            return
        if isinstance(found, FailedInference):
            raise found.error
        if self._is_withdrawn(found.question.instruction):
            return
        asked = found.question
        if found.act.ndim != 2 or found.act.shape[1] != size:
            raise SpecError("action chunk", expected=f"(H, {size})", found=found.act.shape)
        chunk = Chunk(found.act, asked.tick, tick, asked.observed_s, instruction=asked.instruction)
        self.chunks.add(chunk)
        self._arrived = chunk

    def action_at(self, tick: int) -> DueAction | None:
        """Return the action that is due; None if no chunk covers the tick."""
        return self.chunks.action_at(tick)

    def take_arrived(self) -> Chunk | None:
        """Return the chunk that arrived since the last call, once; None for none."""
        found, self._arrived = self._arrived, None
        return found

    def close(self) -> None:
        """Stop the threads."""
        self.inference.close()
        if self.prefix is not None:
            self.prefix.close()

    def _make_request(self, seen: PolicyInput, tick: int) -> InferenceRequest | None:
        """Return the policy's inputs, from the present observations and the latest prefix.

        None before the first prefix of an activation.
        """
        obs, observed_s, words = seen
        if self.prefix is not None:
            prefix = self.prefix.update(Prefix(obs, observed_s, self._epoch, words))
            if prefix is None:
                return None
            obs, words = {**obs, **prefix.tensors}, prefix.instruction
            observed_s = min(observed_s, prefix.observed_s)
        return InferenceRequest(obs, tick, observed_s, self._epoch, instruction=words)

    def _is_withdrawn(self, instruction: str) -> bool:
        """Return whether an instruction is no longer in effect, and the chunks follow the present.

        A chunk of the last instruction is executed until there is one of the present.
        """
        return instruction != self.instruction and self.chunks.follows(self.instruction)
