"""Recordings of a policy that reads ids of a tokenizer become datasets, with its bundle's file."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_bags import convert
from small_bundles import make_bundle
from small_flights import ROBOT, Flight

from robo_rl.bundle.bundle import Bundle
from robo_rl.bundle.text import portable
from robo_rl.core.errors import BundleError
from robo_rl.core.spec import ObsSpec
from robo_rl.language.tokenizer_file import TokenizerFile

tokenizers = pytest.importorskip("tokenizers", reason="pip install 'robo-rl[pretrained]'")
pytest.importorskip("rosbags", reason="pip install 'robo-rl[dds]'")

WORDS = ("lift", "the", "red", "cube")


def reader(path: Path) -> Bundle:
    """A policy that was also shown the ids of an instruction."""
    file = path / "words.json"
    vocabulary = {word: number for number, word in enumerate(["?", *WORDS])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="?"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(file))
    encoder = {"name": "tokenizer", "file": str(file), "max_tokens": 6, "suffix": ""}
    settings, files = portable(encoder)
    spec = TokenizerFile(TokenizerFile.Config(file=file, max_tokens=6, suffix="")).spec
    plain = make_bundle(path / "plain", ROBOT)
    agreed = plain.manifest.contract
    obs = ObsSpec(items={**agreed.obs.items, "instruction": spec})
    contract = agreed.model_copy(update={"obs": obs, "text_encoder": settings})
    manifest = plain.manifest.model_copy(update={"contract": contract, "files": {}})
    return Bundle.write(
        path / "bundle", manifest, {"policy.onnx": plain.read("policy.onnx"), **files}
    )


def test_ids_are_those_of_the_bundle_s_tokenizer(tmp_path: Path):
    said = {"msg_type": "std_msgs/msg/String", "text": " ".join(WORDS)}
    flight = Flight(tmp_path, bundle=reader(tmp_path), observe={"instruction": said})
    with flight.recorded():
        flight.run(3)
        flight.node.request("activate")
        flight.run(30)
    recording = tmp_path / "recordings"
    with pytest.raises(BundleError, match="contract_from=BUNDLE"):
        convert(recording, tmp_path / "none.zarr")
    assert not (tmp_path / "none.zarr").exists()
    data = convert(recording, tmp_path / "data.zarr", contract_from=str(flight.bundle.path))
    ids = data.read(["obs.instruction"])["obs.instruction"]
    assert len(ids) > 20
    assert ids.tolist() == [[1, 2, 3, 4, -1, -1]] * len(ids)
