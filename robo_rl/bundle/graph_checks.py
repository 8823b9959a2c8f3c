"""Opens the graphs of a bundle, and checks them and their inputs against its contract.

Shapes: B rows, To observation history, H horizon, A act_dim.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from robo_rl.bundle.external_data import external_tensors
from robo_rl.bundle.manifest import Contract
from robo_rl.core.errors import BundleError, DeviceError, SpecError

NOISE, ACT = "noise", "act"
PLANNED, WEIGHT = "planned", "weight"
Shaped = tuple[tuple[int, ...], np.dtype[Any]]
"""Shape of a row, and type."""

_ONNX_TYPES = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(bool)": "bool"}


class InputChecks:
    """Checks of what a query is given.

    Args:
        contract: Inputs of the policy.
        file: Name of the graph, for errors.
    """

    def __init__(self, contract: Contract, file: str) -> None:
        self._contract, self._file = contract, file
        self.items: dict[str, Shaped] = {
            name: ((contract.obs_horizon, *spec.shape), np.dtype(spec.dtype))
            for name, spec in contract.obs.items.items()
        }

    def num_rows(self, obs: Mapping[str, np.ndarray]) -> int:
        """Return B of observations.

        Raises:
            SpecError: An observation does not fit the contract.
        """
        first = next(iter(obs.values()), None)
        rows = 0 if first is None or not first.ndim else first.shape[0]
        fits = obs.keys() == self.items.keys() and all(
            obs[name].shape == (rows, *shape) and obs[name].dtype == dtype
            for name, (shape, dtype) in self.items.items()
        )
        return rows if fits else self._refuse(obs, rows)

    def noise(self, noise: np.ndarray | np.random.Generator, rows: int) -> np.ndarray:
        """Return noise (B, H, A) float32, drawn if a generator is given.

        Raises:
            SpecError: It has another shape or type.
        """
        shape = (rows, *self._contract.chunk_shape)
        if isinstance(noise, np.random.Generator):
            return noise.standard_normal(shape, np.float32)
        if noise.shape != shape or noise.dtype != np.float32:
            found = f"{noise.shape} {noise.dtype}"
            raise SpecError("'noise' does not fit", expected=f"{shape} float32", found=found)
        return noise

    def _refuse(self, obs: Mapping[str, np.ndarray], rows: int) -> int:
        """Raise the error for unfit observations; a separate function keeps valid queries fast."""
        self._contract.obs.validate_obs(obs, batch_axes=2)
        expected = (rows, self._contract.obs_horizon)
        for name, array in obs.items():
            if array.shape[:2] != expected:
                raise SpecError(
                    f"obs '{name}': rows and history", expected=expected, found=array.shape[:2]
                )
        raise SpecError("observations do not fit", where=self._file)


def node_shape(node: Any) -> tuple[tuple[Any, ...], str]:
    """Return shape without rows, and type, of an input or output of a graph."""
    kind = str(node.type)
    return tuple(node.shape[1:]), _ONNX_TYPES.get(kind, kind[7:-1])


def check_node(file: str, node: Any, expected: Shaped | None) -> None:
    """Check an input or output of a graph; None expects nothing of its name.

    Raises:
        BundleError: It has another shape or type.
    """
    found = node_shape(node)
    wanted = "nothing of that name" if expected is None else (expected[0], expected[1].name)
    if found != wanted:
        where = f"{file}: {node.name}"
        raise BundleError("does not fit the contract", where=where, expected=wanted, found=found)


def demand_act(file: str, graph: Any, chunk: Shaped) -> None:
    """Check that a graph returns chunks of actions.

    Raises:
        BundleError: It does not.
    """
    outputs = {node.name: node for node in graph.get_outputs()}
    if ACT not in outputs:
        raise BundleError("has no such output", where=f"{file}: {ACT}", found=list(outputs))
    check_node(file, outputs[ACT], chunk)


def demand_whole(model: bytes, where: object) -> None:
    """Check that a graph holds the values of all its tensors.

    Args:
        model: The graph.
        where: Its file, for the error.

    Raises:
        BundleError: Values are outside the graph, so that no hash covers them; or it is no graph.
    """
    try:
        outside = external_tensors(model)
    except ValueError as error:
        raise BundleError(f"does not load (no ONNX graph: {error})", where=where) from None
    if outside:
        raise BundleError(
            "has weights in another file, which the manifest does not cover",
            where=f"{where}: {outside[0]}",
            expected="the values of all tensors in the graph",
            found=f"{len(outside)} tensors with external data",
            hint="export the policy again; a graph in one file has at most 2 GB",
        )


def open_graph(model: bytes, threads: int, file: str) -> Any:
    """Return ONNX Runtime's session of a graph.

    Raises:
        BundleError: The graph does not load, or has weights in another file.
        DeviceError: ONNX Runtime is not installed.
    """
    demand_whole(model, file)
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
