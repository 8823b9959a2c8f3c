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

from robo_rl.bundle.graph_checks import ACT, NOISE
from robo_rl.bundle.manifest import EXPERT_FILE, PREFIX_FILE
from robo_rl.bundle.split_session import SplitSession
from robo_rl.core.errors import ConfigError
from robo_rl.export.onnx import (
    EXAMPLE_ROWS,
    Graph,
    contract_of,
    random_inputs,
    try_batches,
    write_graph,
)
from robo_rl.nets.base import ChunkNet
from robo_rl.nets.embedding import Embedding, leaves, with_leaves
from robo_rl.nets.encoders.base import ObsEncoder
from robo_rl.nets.lora import merge_adapters


def export_split(policy: Any, folder: Path) -> dict[str, bytes]:
    """Return file name → graph, for both graphs of a policy, after trying several batch sizes.

    Args:
        policy: Policy to export; a copy on the CPU is exported.
        folder: Directory for files on the way.

    Raises:
        ConfigError: The policy reads images and vectors together.
        GateError: A graph cannot be made, or both together differ from the policy at some batch
            size.
        DeviceError: The packages of the ``export`` extra are not installed.
    """
    check_splits(type(policy.net.encoder), type(policy.net))
    check_one_network(policy)
    model = copy.deepcopy(policy).cpu().eval()
    merge_adapters(model)
    prefix = _PrefixGraph(model)
    write_graph(prefix.eval(), folder / PREFIX_FILE)
    write_graph(_ExpertGraph(model, prefix).eval(), folder / EXPERT_FILE)
    files = {name: (folder / name).read_bytes() for name in (PREFIX_FILE, EXPERT_FILE)}
    contract = contract_of(policy, name="", robot="", task="")
    try_batches(policy, lambda: SplitSession(files[PREFIX_FILE], files[EXPERT_FILE], contract))
    return files


def check_splits(encoder: type[ObsEncoder], net: type[ChunkNet]) -> None:
    """Check that a policy encodes images apart from vectors, which its network reads.

    Raises:
        ConfigError: It does not.
    """
    if encoder.splits and net.reads_vectors:
        return
    kind, why = (
        (net, "reads the state among the words")
        if encoder.splits
        else (encoder, "does not encode images apart from vectors")
    )
    raise ConfigError(
        f"{kind.__name__} {why}",
        where="stages.export.split",
        expected="an encoder of images, such as mini_vla, for two graphs",
        hint="set stages.export.split=false",
    )


def check_one_network(policy: Any) -> None:
    """Check that all steps of a chain run on one network, whose encoder the prefix is.

    Raises:
        ConfigError: The first steps run on the network as it was cloned.
    """
    if policy.reference_net is not None and policy.num_trained < policy.num_steps:
        raise ConfigError(
            "the first denoising steps run on another network, with an encoder of its own",
            where="stages.export.split",
            expected="finetune_steps: 0, or a student of stage distill",
            found=f"{policy.num_trained} of {policy.num_steps} steps are trained",
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
    """Vectors, a prefix and noise to actions: ``decode`` of a policy that is given its prefix.

    The policy loses its encoder to this graph, so the graph of the prefix is written before.
    """

    def __init__(self, policy: Any, prefix: _PrefixGraph) -> None:
        super().__init__()
        self.tree, self.policy = prefix.tree, policy
        policy.obs_spec = policy.obs_spec.select(policy.obs_spec.vector_names, "policy.sees")
        policy.net.encoder = self.given = _GivenPrefix(policy.net.encoder)
        self.names = list(policy.obs_spec.items)
        self.inputs, self.outputs = [*self.names, *prefix.outputs, NOISE], [ACT]

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
