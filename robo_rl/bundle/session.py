"""Runs a bundle's graphs in ONNX Runtime and checks types and shapes against its contract.

Shapes: B rows, To observation history, H horizon, A act_dim.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from robo_rl.bundle.graph_checks import (
    ACT,
    NOISE,
    PLANNED,
    WEIGHT,
    InputChecks,
    check_node,
    demand_act,
    open_graph,
)
from robo_rl.bundle.manifest import INPAINT_FILE, MODEL_FILE, Contract
from robo_rl.core.errors import SpecError


class PlannedActions(NamedTuple):
    """Planned actions for the control steps of a chunk.

    Args:
        act: (B, H, A) float32, in physical units.
        weight: (B, H) float32 in [0, 1]: 1 keeps the planned action, 0 means no plan.
    """

    act: np.ndarray
    weight: np.ndarray


class PolicySession:
    """The policy as a function from observations to a chunk of actions in physical units.

    Args:
        model: The graph, as bytes.
        contract: Its inputs and outputs.
        threads: Threads that one query may use.
        inpaint: Whether the graph inpaints.

    Raises:
        BundleError: The graph does not load or does not fit the contract.
        DeviceError: ONNX Runtime is not installed.
    """

    def __init__(
        self, model: bytes, contract: Contract, *, threads: int = 1, inpaint: bool = False
    ) -> None:
        self.contract, self.inpaints = contract, inpaint
        self._file = INPAINT_FILE if inpaint else MODEL_FILE
        self._runtime = open_graph(model, threads, self._file)
        self._needs = {node.name: node for node in self._runtime.get_inputs()}
        self._checks = InputChecks(contract, self._file)
        self._check_graph()

    def act(
        self,
        obs: Mapping[str, np.ndarray],
        noise: np.ndarray | np.random.Generator,
        plan: PlannedActions | None = None,
    ) -> np.ndarray:
        """Query the policy once.

        Args:
            obs: Name → (B, To, …), in physical units; names beyond the contract's are an error.
            noise: (B, H, A) float32, the standard normal start of the chain; or a generator that
                draws it.
            plan: Planned actions, only for a graph that inpaints; None for no plan.

        Returns:
            (B, H, A) float32.

        Raises:
            SpecError: An observation, the noise or the plan does not fit the contract.
        """
        rows = self._checks.num_rows(obs)
        noise = self._checks.noise(noise, rows)
        given = {**obs, NOISE: noise, **self._planned(plan, rows)}
        # The graph lacks inputs that the network ignores.
        feed = {key: value for key, value in given.items() if key in self._needs}
        return self._runtime.run([ACT], feed)[0]

    def _planned(self, plan: PlannedActions | None, rows: int) -> dict[str, np.ndarray]:
        shape = (rows, *self.contract.chunk_shape)
        if plan is None:
            if not self.inpaints:
                return {}
            plan = PlannedActions(np.zeros(shape, np.float32), np.zeros(shape[:2], np.float32))
        found = [(each.shape, each.dtype.name) for each in plan]
        expected = [(shape, "float32"), (shape[:2], "float32")] if self.inpaints else "no plan"
        if found != expected:
            raise SpecError("the plan does not fit", expected=expected, found=found)
        return {PLANNED: plan.act, WEIGHT: plan.weight}

    def _check_graph(self) -> None:
        chunk = self.contract.chunk_shape, np.dtype("float32")
        shapes = {**self._checks.items, NOISE: chunk}
        if self.inpaints:
            shapes |= {PLANNED: chunk, WEIGHT: (chunk[0][:1], chunk[1])}
        for name, node in self._needs.items():
            check_node(self._file, node, shapes.get(name))
        demand_act(self._file, self._runtime, chunk)
