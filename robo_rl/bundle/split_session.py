"""Runs the two graphs of a bundle, one less often than the other; see ``robo_rl.export.split``.

Shapes: B rows, To observation history, H horizon, A act_dim.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from robo_rl.bundle.graph_checks import (
    ACT,
    NOISE,
    InputChecks,
    Shaped,
    check_node,
    demand_act,
    node_shape,
    open_graph,
)
from robo_rl.bundle.manifest import EXPERT_FILE, PREFIX_FILE, Contract
from robo_rl.bundle.session import PlannedActions
from robo_rl.core.errors import BundleError, SpecError

Arrays = Mapping[str, np.ndarray]


class SplitSession:
    """The policy in two graphs: a prefix of images and words, and an expert that reads it.

    The expert reads the tensors of a prefix and the vectors of an observation by name, so that both
    may be in one mapping.

    Args:
        prefix: The graph of the prefix, as bytes.
        expert: The graph of the expert.
        contract: Inputs and outputs of both together.
        threads: Threads that one query may use.

    Raises:
        BundleError: A graph does not load, or does not fit the contract or the other graph.
        DeviceError: ONNX Runtime is not installed.
    """

    def __init__(
        self, prefix: bytes, expert: bytes, contract: Contract, *, threads: int = 1
    ) -> None:
        self.contract = contract
        self._prefix = open_graph(prefix, threads, PREFIX_FILE)
        self._expert = open_graph(expert, threads, EXPERT_FILE)
        self._checks = InputChecks(contract, PREFIX_FILE)
        self._parts = [node.name for node in self._prefix.get_outputs()]
        self._reads = [node.name for node in self._expert.get_inputs()]
        self._check_graphs()

    def encode(self, obs: Arrays) -> dict[str, np.ndarray]:
        """Return the prefix of observations, name → (B, To, …), as name → tensor.

        Raises:
            SpecError: An observation does not fit the contract.
        """
        self._checks.num_rows(obs)
        feed = {node.name: obs[node.name] for node in self._prefix.get_inputs()}
        return dict(zip(self._parts, self._prefix.run(self._parts, feed), strict=True))

    def act_on(self, given: Arrays, noise: np.ndarray | np.random.Generator) -> np.ndarray:
        """Query the expert.

        Args:
            given: The tensors of ``encode``, of these rows at this time or before, and the vectors
                of the latest observation; more is ignored.
            noise: (B, H, A) float32, or a generator that draws it.

        Returns:
            (B, H, A) float32.

        Raises:
            SpecError: An input is missing or does not fit.
        """
        rows = next(iter(given.values())).shape[0] if given else 0
        for name in self._reads:
            if name != NOISE and (name not in given or not self._fits(name, given[name], rows)):
                found = given[name].shape if name in given else "none"
                raise SpecError(f"'{name}' does not fit", where=EXPERT_FILE, found=found)
        feed = {**given, NOISE: self._checks.noise(noise, rows)}
        return self._expert.run([ACT], {name: feed[name] for name in self._reads})[0]

    def act(
        self,
        obs: Arrays,
        noise: np.ndarray | np.random.Generator,
        plan: PlannedActions | None = None,
    ) -> np.ndarray:
        """Query both graphs with one observation, as ``PolicySession.act``.

        Raises:
            SpecError: An observation does not fit, or there is a plan, which is not continued.
        """
        if plan is not None:
            raise SpecError("the plan does not fit", expected="no plan", found="a plan")
        return self.act_on({**obs, **self.encode(obs)}, noise)

    def _fits(self, name: str, array: np.ndarray, rows: int) -> bool:
        shape, dtype = self._inputs[name]
        fixed = [(size, wanted) for size, wanted in zip(array.shape[1:], shape, strict=False)
                 if isinstance(wanted, int)]  # fmt: skip
        same = array.ndim == 1 + len(shape) and all(size == wanted for size, wanted in fixed)
        return same and array.shape[0] == rows and array.dtype.name == dtype

    def _check_graphs(self) -> None:
        """Check names, shapes and types of both graphs against the contract and each other."""
        items = self._checks.items
        for node in self._prefix.get_inputs():
            check_node(PREFIX_FILE, node, items.get(node.name))
        if taken := sorted({*self._parts} & {*items, NOISE}):
            problem = "an output has the name of an input"
            raise BundleError(problem, where=f"{PREFIX_FILE}: {taken[0]}")
        chunk: Shaped = self.contract.chunk_shape, np.dtype("float32")
        vectors = {name: items[name] for name in self.contract.obs.vector_names}
        parts = {node.name: node_shape(node) for node in self._prefix.get_outputs()}
        self._inputs = {node.name: node_shape(node) for node in self._expert.get_inputs()}
        for node in self._expert.get_inputs():
            if node.name not in parts:
                check_node(EXPERT_FILE, node, {**vectors, NOISE: chunk}.get(node.name))
            elif not _alike(self._inputs[node.name], parts[node.name]):
                raise BundleError(
                    "does not fit the prefix",
                    where=f"{EXPERT_FILE}: {node.name}",
                    expected=parts[node.name],
                    found=self._inputs[node.name],
                )
        demand_act(EXPERT_FILE, self._expert, chunk)


def _alike(one: tuple[tuple[object, ...], str], other: tuple[tuple[object, ...], str]) -> bool:
    """Return whether shapes, where both are numbers, and types are equal."""
    numbers = [
        (a, b)
        for a, b in zip(one[0], other[0], strict=False)
        if isinstance(a, int) and isinstance(b, int)
    ]
    return len(one[0]) == len(other[0]) and one[1] == other[1] and all(a == b for a, b in numbers)
