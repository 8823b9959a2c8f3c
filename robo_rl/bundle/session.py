"""Runs a bundle's graphs in ONNX Runtime and checks types and shapes against its contract.

Shapes: B rows, To observation history, H horizon, A act_dim.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from robo_rl.bundle.manifest import INPAINT_FILE, MODEL_FILE, Contract
from robo_rl.core.errors import BundleError, DeviceError, SpecError

NOISE, ACT = "noise", "act"
PLANNED, WEIGHT = "planned", "weight"
_ONNX_TYPES = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(bool)": "bool"}


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
        self._expected = {
            name: ((contract.obs_horizon, *spec.shape), np.dtype(spec.dtype))
            for name, spec in contract.obs.items.items()
        }
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
        rows = self._num_rows(obs)
        if isinstance(noise, np.random.Generator):
            noise = noise.standard_normal((rows, *self.contract.chunk_shape), np.float32)
        elif noise.shape != (rows, *self.contract.chunk_shape) or noise.dtype != np.float32:
            expected = f"{(rows, *self.contract.chunk_shape)} float32"
            found = f"{noise.shape} {noise.dtype}"
            raise SpecError("'noise' does not fit", expected=expected, found=found)
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

    def _num_rows(self, obs: Mapping[str, np.ndarray]) -> int:
        rows = next(iter(obs.values())).shape[0] if obs else 0
        fits = obs.keys() == self._expected.keys() and all(
            obs[name].shape == (rows, *shape) and obs[name].dtype == dtype
            for name, (shape, dtype) in self._expected.items()
        )
        return rows if fits else self._refuse(obs, rows)

    def _refuse(self, obs: Mapping[str, np.ndarray], rows: int) -> int:
        """Raise the error for unfit observations; a separate function keeps valid queries fast."""
        self.contract.obs.validate_obs(obs, batch_axes=2)
        expected = (rows, self.contract.obs_horizon)
        for name, array in obs.items():
            if array.shape[:2] != expected:
                raise SpecError(
                    f"obs '{name}': rows and history", expected=expected, found=array.shape[:2]
                )
        raise SpecError("observations do not fit", where=self._file)

    def _check_graph(self) -> None:
        chunk = self.contract.chunk_shape, np.dtype("float32")
        shapes = {**self._expected, NOISE: chunk}
        if self.inpaints:
            shapes |= {PLANNED: chunk, WEIGHT: (chunk[0][:1], chunk[1])}
        for name, node in self._needs.items():
            self._check_node(node, shapes.get(name))
        outputs = {node.name: node for node in self._runtime.get_outputs()}
        if ACT not in outputs:
            raise BundleError(
                "has no such output", where=f"{self._file}: {ACT}", found=list(outputs)
            )
        self._check_node(outputs[ACT], chunk)

    def _check_node(
        self, node: Any, expected: tuple[tuple[int, ...], np.dtype[Any]] | None
    ) -> None:
        found = tuple(node.shape[1:]), _ONNX_TYPES.get(node.type, node.type[7:-1])
        wanted = "nothing of that name" if expected is None else (expected[0], expected[1].name)
        if found != wanted:
            raise BundleError(
                "does not fit the contract",
                where=f"{self._file}: {node.name}",
                expected=wanted,
                found=found,
            )


def open_graph(model: bytes, threads: int, file: str) -> Any:
    """Return ONNX Runtime's session of a graph.

    Raises:
        BundleError: The graph does not load.
        DeviceError: ONNX Runtime is not installed.
    """
    try:
        import onnxruntime
    except ImportError:
        raise DeviceError(
            "running a bundle needs onnxruntime", hint="pip install 'robo-rl[deploy]'"
        ) from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(
            model, sess_options=options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # onnxruntime's own exceptions share no base
        raise BundleError(f"does not load ({error})", where=file) from None
