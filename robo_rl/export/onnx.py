"""Exports a policy as one ONNX graph: normaliser, network, all denoising steps, denormaliser.

``robo_rl.export.split`` exports it as two.

Shapes: B rows, To observation history, H horizon, A act_dim. Inputs: each observation by name
(B, To, …) and ``noise`` (B, H, A), physical units; output ``act`` (B, H, A), physical units. The
inpainting graph also takes ``planned`` (B, H, A), physical units, and ``weight`` (B, H); see
``robo_rl.policy.inpaint``.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import warnings
from collections.abc import Callable, Generator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from robo_rl.bundle.graph_checks import ACT, NOISE, PLANNED, WEIGHT
from robo_rl.bundle.manifest import Contract
from robo_rl.bundle.session import PolicySession
from robo_rl.bundle.split_session import SplitSession
from robo_rl.core.errors import BundleError, DeviceError, GateError
from robo_rl.core.spec import ActSpec, ObsSpec
from robo_rl.export.derivatives import with_explicit_derivatives
from robo_rl.export.parity import paired_actions
from robo_rl.nets.lora import merge_adapters

EXAMPLE_ROWS = 2
"""Rows of an example; one row would freeze the batch size at 1."""
_TRIED_ROWS = (1, 2, 7)


class Exportable(Protocol):
    """Interface of an exportable policy, which is also an ``nn.Module``."""

    obs_spec: ObsSpec
    act_spec: ActSpec
    obs_horizon: int
    horizon: int
    exec_horizon: int
    num_steps: int

    def decode(self, obs: dict[str, Tensor], noise: Tensor) -> Tensor:
        """Map noise (B, H, A) to the chunk (B, H, A) in physical units, deterministically."""
        ...

    def act(self, obs: dict[str, Tensor], generator: torch.Generator) -> Tensor:
        """Return ``decode`` of standard normal noise; evaluation calls this method."""
        ...

    def settle_ties(self, obs: dict[str, Tensor], act: Tensor, other: Tensor) -> Tensor:
        """Return act (B, H, A), or what it decodes to by the choices of ``other``, if as good."""
        ...


def contract_of(policy: Exportable, *, name: str, robot: str, task: str) -> Contract:
    """Return the contract for a bundle of this policy."""
    return Contract(
        policy=name,
        robot=robot,
        task=task,
        obs=policy.obs_spec,
        obs_horizon=policy.obs_horizon,
        act=policy.act_spec,
        horizon=policy.horizon,
        exec_horizon=policy.exec_horizon,
        num_steps=policy.num_steps,
    )


def export_policy(
    policy: Exportable, path: str | os.PathLike[str], *, inpaint: bool = False
) -> Path:
    """Write the policy's graph and check it on several batch sizes.

    Args:
        policy: Policy to export. A copy on the CPU is exported.
        path: File to write, completely or not at all.
        inpaint: Whether to export ``policy.inpaint`` instead of ``policy.decode``.

    Raises:
        GateError: The graph cannot be made, or it differs from the policy at some batch size; or
            the policy has no ``inpaint``.
        DeviceError: The packages of the ``export`` extra are not installed.
    """
    target = Path(path)
    model = cast(Any, copy.deepcopy(policy)).cpu().eval()
    merge_adapters(model)
    scratch = target.with_name(f".{target.name}.tmp")
    try:
        write_graph(_Graph(model, inpaint=inpaint).eval(), scratch)
        graph, contract = scratch.read_bytes(), contract_of(model, name="", robot="", task="")
        try_batches(model, lambda: PolicySession(graph, contract, inpaint=inpaint), inpaint=inpaint)
        scratch.replace(target)
    finally:
        for file in (scratch, scratch.with_name(f"{scratch.name}.data")):
            file.unlink(missing_ok=True)
    return target


def random_inputs(policy: Exportable, rows: int, seed: int = 0) -> tuple[dict[str, Tensor], Tensor]:
    """Return random obs and noise of the right shapes and types, to test a graph.

    ``random_plan`` draws the plan.
    """
    generator = torch.Generator().manual_seed(seed)
    obs: dict[str, Tensor] = {}
    for name, spec in policy.obs_spec.items.items():
        values = torch.rand(rows, policy.obs_horizon, *spec.shape, generator=generator)
        scale = 255.0 if spec.dtype == "uint8" else 1.0
        obs[name] = (values * scale).to(getattr(torch, spec.dtype))
    shape = (rows, policy.horizon, policy.act_spec.shape[-1])
    return obs, torch.randn(shape, generator=generator)


def random_plan(policy: Exportable, rows: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return a random plan to test a graph: act (rows, H, A) and weight (rows, H)."""
    generator = torch.Generator().manual_seed(seed)
    act = torch.randn(rows, policy.horizon, policy.act_spec.shape[-1], generator=generator)
    return act, torch.rand(rows, policy.horizon, generator=generator)


class Graph(nn.Module):
    """A module with positional inputs, which the exporter names.

    Attributes:
        inputs: Name of each input.
        outputs: Name of each output.
        differentiates: Whether ``forward`` differentiates.
    """

    inputs: list[str]
    outputs: list[str]
    differentiates: bool = False

    def example(self) -> tuple[Tensor, ...]:
        """Return inputs of the right shapes and types, of more than one row."""
        raise NotImplementedError


class _Graph(Graph):
    """``decode`` or ``inpaint`` of a policy."""

    def __init__(self, policy: Any, *, inpaint: bool) -> None:
        super().__init__()
        self.policy = policy
        self.call = _inpaint_of(policy) if inpaint else policy.decode
        self.names = tuple(policy.obs_spec.items)
        self.inputs = [*self.names, NOISE, *([PLANNED, WEIGHT] if inpaint else [])]
        self.outputs, self.differentiates = [ACT], inpaint

    def example(self) -> tuple[Tensor, ...]:
        obs, noise = random_inputs(self.policy, EXAMPLE_ROWS)
        plan = random_plan(self.policy, EXAMPLE_ROWS) if self.differentiates else ()
        return *obs.values(), noise, *plan

    def forward(self, *inputs: Tensor) -> Tensor:
        size = len(self.names)
        return self.call(dict(zip(self.names, inputs[:size], strict=True)), *inputs[size:])


def _inpaint_of(policy: Any) -> Any:
    if not hasattr(policy, "inpaint"):
        raise GateError(
            f"{type(policy).__name__} cannot go on from what is planned",
            expected="inpaint(obs, noise, planned, weight)",
        )
    return policy.inpaint


def demand_exporter() -> None:
    """Check that the packages of the ``export`` extra are installed.

    Raises:
        DeviceError: One is missing.
    """
    absent = [name for name in ("onnx", "onnxscript", "onnxruntime") if find_spec(name) is None]
    if absent:
        needs, hint = f"exporting needs {' and '.join(absent)}", "pip install 'robo-rl[export]'"
        raise DeviceError(needs, hint=hint)


def write_graph(model: Graph, path: Path) -> None:
    """Write a graph.

    Raises:
        GateError: The module does not export.
        DeviceError: The packages of the ``export`` extra are not installed.
    """
    demand_exporter()
    with _quiet():
        try:
            program = _trace(model)
        except Exception as error:  # the exporter's own exceptions share no base
            first_line = str(error).strip().partition("\n")[0]
            raise GateError(
                f"the policy does not export to ONNX: {first_line}",
                hint="decode must not branch on values, and takes the batch size from x.shape[0],"
                " not from len(x)",
            ) from error
        _drop_stack_traces(program)
        program.save(path)


def _trace(model: Graph) -> Any:
    example = model.example()
    rows = torch.export.Dim("rows")
    traced = torch.export.export(
        with_explicit_derivatives(model, example) if model.differentiates else model,
        example,
        dynamic_shapes=(tuple({0: rows} for _ in example),),
        strict=False,
    )
    return torch.onnx.export(
        traced,
        (),
        dynamo=True,
        input_names=model.inputs,
        output_names=model.outputs,
        verbose=False,
    )


def _drop_stack_traces(program: Any) -> None:
    # The exporter stores each node's source line, with absolute paths of the exporting machine.
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()


def try_batches(
    model: Any, opened: Callable[[], PolicySession | SplitSession], *, inpaint: bool = False
) -> None:
    """Check that a graph is its policy at several batch sizes.

    Args:
        model: The policy, on the CPU.
        opened: Opens a session of the graph.
        inpaint: Whether the graph inpaints.

    Raises:
        GateError: It does not fit the policy, fails, or differs.
    """
    try:
        session = opened()
    except BundleError as error:
        raise GateError(f"the exported graph does not fit the policy: {error}") from None
    for rows in _TRIED_ROWS:
        obs, noise = random_inputs(model, rows)
        try:
            plan = random_plan(model, rows) if inpaint else None
            ours, theirs = paired_actions(model, session, obs, noise, plan)
        except Exception as error:  # onnxruntime's own exceptions share no base
            first_line = str(error).partition("\n")[0]
            raise GateError(f"the graph fails on a batch of {rows}: {first_line}") from None
        # Random observations may lie far outside the data, so the bound is relative.
        if not np.allclose(ours, theirs, rtol=1e-3, atol=1e-4):
            gap = float(np.abs(ours - theirs).max())
            raise GateError(f"the graph differs from the policy by {gap:.3g} on a batch of {rows}")


@contextlib.contextmanager
def _quiet() -> Generator[None]:
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
