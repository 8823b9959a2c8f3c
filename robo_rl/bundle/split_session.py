"""Runs the two graphs of a bundle, one less often than the other; see ``robo_rl.export.split``.

Shapes: B rows, To observation history, H horizon, A act_dim.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from robo_rl.bundle.manifest import EXPERT_FILE, PREFIX_FILE, Contract
from robo_rl.bundle.session import ACT, NOISE, PlannedActions, open_graph
from robo_rl.core.errors import BundleError, SpecError


class SplitSession:
    """The policy in two graphs: a prefix of images and words, and an expert that reads it.

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
        self._parts = [node.name for node in self._prefix.get_outputs()]
        self._check_graphs()

    def encode(self, obs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the prefix of observations, name → (B, To, …), as name → tensor."""
        return dict(zip(self._parts, self._prefix.run(self._parts, self._fed(obs)), strict=True))

    def act_on(
        self, prefix: Mapping[str, np.ndarray], obs: Mapping[str, np.ndarray], noise: np.ndarray
    ) -> np.ndarray:
        """Query the expert.

        Args:
            prefix: From ``encode``, of these rows at this time or before.
            obs: Name → (B, To, …), in physical units; images and words are not read.
            noise: (B, H, A) float32.

        Returns:
            (B, H, A) float32.
        """
        given = {**obs, **prefix, NOISE: noise}
        needs = [node.name for node in self._expert.get_inputs()]
        return self._expert.run([ACT], {name: given[name] for name in needs})[0]

    def act(
        self,
        obs: Mapping[str, np.ndarray],
        noise: np.ndarray | np.random.Generator,
        plan: PlannedActions | None = None,
    ) -> np.ndarray:
        """Query both graphs with one observation, as ``PolicySession.act``.

        Raises:
            SpecError: There is a plan, which these graphs do not continue.
        """
        if plan is not None:
            raise SpecError("the plan does not fit", expected="no plan", found="a plan")
        rows = next(iter(obs.values())).shape[0]
        if isinstance(noise, np.random.Generator):
            noise = noise.standard_normal((rows, *self.contract.chunk_shape), np.float32)
        return self.act_on(self.encode(obs), obs, noise)

    def _fed(self, obs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {node.name: obs[node.name] for node in self._prefix.get_inputs()}

    def _check_graphs(self) -> None:
        items, said = set(self.contract.obs.items), set(self._parts)
        graphs = (
            (PREFIX_FILE, self._prefix, items),
            (EXPERT_FILE, self._expert, items | said | {NOISE}),
        )
        for file, graph, known in graphs:
            if unknown := [node.name for node in graph.get_inputs() if node.name not in known]:
                raise BundleError(
                    "does not fit the contract", where=file, expected=sorted(known), found=unknown
                )
        act = {node.name: tuple(node.shape[1:]) for node in self._expert.get_outputs()}
        if act.get(ACT) != self.contract.chunk_shape:
            raise BundleError(
                "does not fit the contract",
                where=f"{EXPERT_FILE}: {ACT}",
                expected=self.contract.chunk_shape,
                found=act.get(ACT),
            )
