"""Cache of evaluations in a run: one policy, one protocol, one set of episodes.

Consecutive stages evaluate the same policy more than once. An evaluation is determined by its
policy and protocol, so its result is stored in the folder of the stage that made it. The code of
the policy counts: that of plug-ins, and that of a checkout with changes. Evaluations outside a run
are not cached.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from robo_rl.config.fingerprint import OURS, is_plugin, source_digest
from robo_rl.config.models import digest
from robo_rl.config.provenance import DIRTY, versions
from robo_rl.core.atomic_files import make_directory, write_file
from robo_rl.policy.archive import policy_meta
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.policies import weights_digest
from robo_rl.train.evaluation.evaluate import EvalProtocol, EvalResult

FOLDER, _DISTRIBUTION = "evaluated", "robo-rl"
_TENSORS = {
    "success": torch.bool,
    "returns": torch.float32,
    "lengths": torch.int64,
}


class EvalCache:
    """Cached evaluations of one policy under one protocol.

    Args:
        folders: Folders of the stage that evaluates, and of the stages before it.
        policy: The policy under evaluation.
        protocol: Episodes and seeds.
        protocol_hash: Hash of all that defines the evaluation.
        device: Device type of the policy; each type draws its own noise.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        policy: DenoisingPolicy,
        protocol: EvalProtocol,
        protocol_hash: str,
        device: str = "cpu",
    ) -> None:
        self._protocol, self._hash = protocol, protocol_hash
        fixed = {
            "policy": policy_meta(policy),
            "weights": weights_digest(policy),
            "protocol": protocol_hash,
            "versions": versions(),
            "sources": _sources(policy),
            **({} if device == "cpu" else {"device": device}),
        }
        self.paths = [folder / FOLDER / f"{digest(fixed)}.json" for folder in folders]

    def read(self) -> EvalResult | None:
        """Return the cached evaluation, or None if it is missing or damaged."""
        return next((found for path in self.paths if (found := self._read(path))), None)

    def write(self, result: EvalResult) -> None:
        """Store an evaluation, unless it lost worlds: a process that died may live next time."""
        if result.num_lost:
            return
        path = self.paths[0]
        body: dict[str, Any] = {name: getattr(result, name).tolist() for name in _TENSORS}
        if result.tasks is not None:
            body |= {"tasks": result.tasks.tolist(), "task_names": result.task_names}
        make_directory(path.parent)
        write_file(path, json.dumps(body).encode())

    def _read(self, path: Path) -> EvalResult | None:
        try:
            found = json.loads(path.read_text())
            tensors = {
                name: torch.tensor(found[name], dtype=kind) for name, kind in _TENSORS.items()
            }
            tasks = torch.tensor(found["tasks"]) if "tasks" in found else None
        except (OSError, ValueError, KeyError, TypeError):
            return None  # a damaged entry only costs a new evaluation
        protocol, measure = self._hash, self._protocol.measure
        return EvalResult(
            **tensors,
            protocol=protocol,
            measure=measure,
            tasks=tasks,
            task_names=tuple(found.get("task_names", ())),
        )


def _sources(policy: DenoisingPolicy) -> dict[str, str]:
    """Return the digests of the code that computes a policy's actions, unless its version does."""
    parts = [policy, *vars(policy).values(), *policy.modules()]
    modules = {base.__module__ for part in parts for base in type(part).__mro__}
    found = {module for module in modules if is_plugin(module)}
    if versions().get(_DISTRIBUTION, "").endswith(DIRTY):
        found.add(OURS)
    return dict(source_digest(module) for module in sorted(found))
