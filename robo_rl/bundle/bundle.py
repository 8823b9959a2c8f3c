"""The deployable policy: a directory with a manifest and graphs, written atomically and hashed.

The module imports neither torch nor a simulator, so a robot's computer can load it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from robo_rl.bundle.contract import mismatches
from robo_rl.bundle.graph_checks import demand_whole
from robo_rl.bundle.manifest import (
    EXPERT_FILE,
    INPAINT_FILE,
    MANIFEST_FILE,
    MODEL_FILE,
    PREFIX_FILE,
    FileRecord,
    Manifest,
)
from robo_rl.bundle.manifest_file import (
    EXPORT_AGAIN,
    check_names,
    check_split,
    parse_manifest,
    read_manifest,
)
from robo_rl.bundle.session import PolicySession
from robo_rl.bundle.split_session import SplitSession
from robo_rl.bundle.text import BundleFiles, text_encoder_of
from robo_rl.core.atomic_files import find_directory, staged_directory, write_file
from robo_rl.core.checksummed_json import seal
from robo_rl.core.errors import BundleError
from robo_rl.core.spec import ActSpec, ObsSpec
from robo_rl.language.base import TextEncoder


@dataclass(frozen=True)
class Bundle:
    """A verified bundle on disk.

    Args:
        path: Directory of the bundle.
        manifest: Contract, evidence and file hashes.
        digest: SHA-256 of the manifest, which covers every file; it identifies the bundle.
    """

    path: Path
    manifest: Manifest
    digest: str

    @staticmethod
    def write(
        path: str | os.PathLike[str], manifest: Manifest, files: Mapping[str, bytes | Path]
    ) -> Bundle:
        """Write a bundle; the whole directory appears at once and replaces an older bundle.

        Args:
            path: Directory to make.
            manifest: Everything but ``files``, which is filled in here.
            files: File name → its bytes, or the file to copy; ``policy.onnx`` among them.

        Raises:
            BundleError: A file name is not plain, or ``path`` exists and is not a bundle.
            OSError: The bundle cannot be written; the old content of ``path`` remains.
        """
        target = Path(path).absolute()
        check_names(files, target)
        if target.exists() and not (target / MANIFEST_FILE).is_file():
            raise BundleError(
                "is there already and is no bundle", where=target, hint="choose another path"
            )
        with staged_directory(target) as stage:
            _fill(stage, manifest, files)
            Bundle.load(stage)
        return Bundle.load(target)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Bundle:
        """Read a bundle and verify its schema, the hash of every file, and that graphs are whole.

        Raises:
            BundleError: A file is missing, damaged or altered, the schema is newer, a graph has
                weights in another file, or one of two graphs of a split policy is missing.
        """
        directory = find_directory(Path(path).absolute())  # its replacement may have been killed
        file = directory / MANIFEST_FILE
        data = read_manifest(file)
        manifest = parse_manifest(data, file)
        check_names(manifest.files, file)
        bundle = Bundle(directory, manifest, hashlib.sha256(data).hexdigest())
        check_split(manifest.files, file)
        for name in manifest.files:
            content = bundle.read(name)
            if name.endswith(".onnx"):
                demand_whole(content, directory / name)
        return bundle

    def read(self, name: str) -> bytes:
        """Return the verified bytes of a file of the bundle.

        Raises:
            BundleError: The file is missing, not regular, or differs from the manifest.
        """
        file, record = self.path / name, self.manifest.files[name]
        if file.is_symlink() or not file.is_file():
            raise BundleError("is missing or no regular file", where=file, hint=EXPORT_AGAIN)
        size = file.stat().st_size
        if size != record.num_bytes:
            raise BundleError(
                "was cut or altered",
                where=file,
                expected=f"{record.num_bytes} bytes",
                found=f"{size} bytes",
                hint=EXPORT_AGAIN,
            )
        data = file.read_bytes()
        if (found := hashlib.sha256(data).hexdigest()) != record.sha256:
            raise BundleError(
                "was altered",
                where=file,
                expected=f"SHA-256 {record.sha256[:12]}",
                found=found[:12],
                hint=EXPORT_AGAIN,
            )
        return data

    def session(self, *, threads: int = 1, inpaint: bool = False) -> PolicySession:
        """Open a session of the policy, or of its inpainting graph with ``inpaint``.

        Raises:
            BundleError: The bundle has no inpainting graph, or a file is altered.
        """
        file = INPAINT_FILE if inpaint else MODEL_FILE
        if file not in self.manifest.files:
            raise BundleError(
                "this policy cannot go on from what is planned",
                where=self.path / file,
                hint="export it again with stages.export.inpaint=true, or chunks.merge=soft",
            )
        contract = self.manifest.contract
        return PolicySession(self.read(file), contract, threads=threads, inpaint=inpaint)

    def split_session(self, *, threads: int = 1) -> SplitSession:
        """Open a session of the policy in two graphs.

        Raises:
            BundleError: The bundle has no such graphs, or a file is altered.
        """
        if PREFIX_FILE not in self.manifest.files:
            raise BundleError(
                "this policy is in one graph",
                where=self.path / PREFIX_FILE,
                hint="export it again with stages.export.split=true, or leave prefix out",
            )
        graphs = self.read(PREFIX_FILE), self.read(EXPERT_FILE)
        return SplitSession(*graphs, self.manifest.contract, threads=threads)

    def text_encoder(self) -> TextEncoder | None:
        """Return the encoder of instructions; None if the policy reads none.

        Raises:
            BundleError: The encoder needs a file that the bundle lacks or that is altered.
            ConfigError: The encoder cannot be built.
            DeviceError: An extra that it needs is not installed.
        """
        files = BundleFiles(self.path, self.manifest.files.keys(), self.read)
        return text_encoder_of(self.manifest.contract, files)

    def check_contract(
        self,
        obs_spec: ObsSpec,
        act_spec: ActSpec,
        *,
        robot: str | None = None,
        task: str | None = None,
    ) -> None:
        """Compare the contract with the env or robot on which the policy is to run.

        Args:
            obs_spec: Measurements there; further observations are allowed.
            act_spec: Commands there.
            robot: Name of the robot there; None does not compare.
            task: Name of the task there; None does not compare.

        Raises:
            BundleError: They differ; the message lists every mismatch.
        """
        contract = self.manifest.contract
        found = mismatches(contract, obs_spec, act_spec, robot=robot, task=task)
        if found:
            listing = "".join(f"\n  {mismatch}" for mismatch in found)
            raise BundleError(
                f"the contract does not match in {len(found)} places:{listing}",
                where=self.path,
                hint=f"\nrun it on what it was trained for: {contract.robot}, {contract.task}",
            )


def bundles_below(path: Path) -> list[Path]:
    """Return the bundles in the folder of a stage or a run, sorted; hidden ones do not count."""
    found = (file for depth in ("*", "*/*") for file in path.glob(f"{depth}/{MANIFEST_FILE}"))
    parts = ((file.parent, file.relative_to(path).parts) for file in found)
    return sorted(place for place, names in parts if not any(n.startswith(".") for n in names))


def _fill(stage: Path, manifest: Manifest, files: Mapping[str, bytes | Path]) -> None:
    records: dict[str, FileRecord] = {}
    for name, content in files.items():
        data = content if isinstance(content, bytes) else content.read_bytes()
        write_file(stage / name, data)
        records[name] = FileRecord(sha256=hashlib.sha256(data).hexdigest(), num_bytes=len(data))
    tree = manifest.model_copy(update={"files": records}).tree()
    write_file(stage / MANIFEST_FILE, seal(tree, indent=1))
