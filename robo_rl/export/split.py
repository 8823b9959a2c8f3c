"""Exports a policy as two ONNX graphs: the prefix of images and words, and the expert that acts.

A robot runs the prefix at a low rate and the expert at the rate of its decisions. The expert reads
the latest vectors, such as joint positions, and a prefix that may be older.

Shapes: B rows, To observation history, H horizon, A act_dim. The prefix maps each observation by
name (B, To, …) to the tensors ``prefix_0``, ``prefix_1``, …. The expert maps the vectors by name,
these tensors, and ``noise`` (B, H, A) to ``act`` (B, H, A), physical units.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from robo_rl.bundle.manifest import EXPERT_FILE, PREFIX_FILE
from robo_rl.bundle.session import ACT, NOISE
from robo_rl.core.errors import GateError
from robo_rl.export.onnx import EXAMPLE_ROWS, Graph, random_inputs, write_graph
from robo_rl.nets.embedding import Embedding, leaves, with_leaves


def export_split(policy: Any, folder: Path) -> dict[str, bytes]:
    """Return file name → graph, for both graphs of a policy.

    Args:
        policy: Policy to export; a copy on the CPU is exported.
        folder: Directory for files on the way.

    Raises:
        GateError: The encoder reads images and vectors together, or a graph cannot be made.
        DeviceError: The packages of the ``export`` extra are not installed.
    """
    check_splits(policy.net.encoder)
    model = copy.deepcopy(policy).cpu().eval()
    prefix = _PrefixGraph(model)
    graphs: dict[str, Graph] = {PREFIX_FILE: prefix, EXPERT_FILE: _ExpertGraph(model, prefix)}
    for name, graph in graphs.items():
        write_graph(graph.eval(), folder / name)
    return {name: (folder / name).read_bytes() for name in graphs}


def check_splits(encoder: Any) -> None:
    """Check that an encoder, or its class, encodes images apart from vectors.

    Raises:
        GateError: It does not.
    """
    if not encoder.splits:
        kind = encoder if isinstance(encoder, type) else type(encoder)
        raise GateError(
            f"{kind.__name__} does not encode images apart from vectors",
            expected="an encoder of images, such as mini_vla, for two graphs",
            hint="set stages.export.split=false",
        )


class _PrefixGraph(Graph):
    """Images, words and vectors to the tensors of a prefix."""

    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.policy = policy
        self.inputs = list(policy.obs_spec.items)
        with torch.no_grad():
            self.tree = self._encode(self.example())
        self.outputs = [f"prefix_{number}" for number in range(len(leaves(self.tree)))]

    def example(self) -> tuple[Tensor, ...]:
        return tuple(random_inputs(self.policy, EXAMPLE_ROWS)[0].values())

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(leaves(self._encode(inputs)))

    def _encode(self, inputs: Sequence[Tensor]) -> Embedding:
        obs = dict(zip(self.inputs, inputs, strict=True))
        return self.policy.net.encoder.encode_prefix(self.policy.features(obs))


class _ExpertGraph(Graph):
    """Vectors, a prefix and noise to actions: ``decode`` of a policy that is given its prefix."""

    def __init__(self, policy: Any, prefix: _PrefixGraph) -> None:
        super().__init__()
        self.tree, self.parts = prefix.tree, prefix.outputs
        self.policy = copy.deepcopy(policy)
        vectors = policy.obs_spec.vector_names
        self.policy.obs_spec = policy.obs_spec.select(vectors, "policy.sees")
        self.given = _GivenPrefix(self.policy.net.encoder)
        self.policy.net.encoder = self.given
        self.names = list(self.policy.obs_spec.items)
        self.inputs, self.outputs = [*self.names, *self.parts, NOISE], [ACT]

    def example(self) -> tuple[Tensor, ...]:
        obs, noise = random_inputs(self.policy, EXAMPLE_ROWS)
        return *obs.values(), *(part.clone() for part in leaves(self.tree)), noise

    def forward(self, *inputs: Tensor) -> Tensor:
        size = len(self.names)
        self.given.prefix = with_leaves(self.tree, inputs[size:-1])
        return self.policy.decode(dict(zip(self.names, inputs, strict=False)), inputs[-1])


class _GivenPrefix(nn.Module):
    """An encoder that joins the vectors to a prefix that it was given."""

    prefix: Embedding

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, features: Any) -> Any:
        return self.encoder.join(self.prefix, features.vectors)
