"""Files of a text encoder travel in the bundle, and a bundle reads no files but its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from small_bundles import make_bundle
from small_flights import ROBOT
from small_text import SENTENCES, tiny_tokenizer, write_sentence_model

from robo_rl.bundle.bundle import Bundle
from robo_rl.bundle.text import BundleFiles, portable, text_encoder_of
from robo_rl.core.errors import BundleError
from robo_rl.language import sentence_model
from robo_rl.language.sentence_model import SentenceModel

MODEL = ["config.json", "model.safetensors", "tokenizer.json"]


def with_encoder(path: Path, **settings: str) -> Bundle:
    """A bundle whose policy reads an instruction by this encoder."""
    said, files = portable(settings)
    plain = make_bundle(path / "plain", ROBOT)
    contract = plain.manifest.contract.model_copy(update={"text_encoder": said})
    manifest = plain.manifest.model_copy(update={"contract": contract, "files": {}})
    graph = {"policy.onnx": plain.read("policy.onnx")}
    return Bundle.write(path / "bundle", manifest, {**graph, **files})


def test_a_sentence_model_travels_and_says_the_same(tmp_path: Path):
    folder = tmp_path / "model"
    folder.mkdir()
    own = SentenceModel(SentenceModel.Config(folder=str(write_sentence_model(folder))))
    bundle = with_encoder(tmp_path, name="sentence", folder=str(folder))
    assert sorted(bundle.manifest.files) == sorted([*MODEL, "policy.onnx"])
    for file in folder.iterdir():
        file.unlink()
    found = bundle.text_encoder()
    assert found is not None
    assert np.array_equal(found.encode(SENTENCES), own.encode(SENTENCES))


def test_the_installed_sentence_model_travels_too(tmp_path: Path, monkeypatch):
    """A robot that has another release of it hears the same numbers."""
    first, other = tmp_path / "first", tmp_path / "other"
    for seed, folder in enumerate((first, other)):
        folder.mkdir()
        torch.manual_seed(seed)
        write_sentence_model(folder)
    monkeypatch.setattr(sentence_model, "_installed", lambda: first)
    own = SentenceModel(SentenceModel.Config()).encode(SENTENCES)
    bundle = with_encoder(tmp_path, name="sentence")
    assert set(MODEL) < set(bundle.manifest.files)
    monkeypatch.setattr(sentence_model, "_installed", lambda: other)
    found = bundle.text_encoder()
    assert found is not None
    assert np.array_equal(found.encode(SENTENCES), own)
    assert not np.array_equal(SentenceModel(SentenceModel.Config()).encode(SENTENCES), own)


def test_a_tokenizer_of_any_name_travels_under_its_usual_one(tmp_path: Path):
    file = tmp_path / "my words.json"
    tiny_tokenizer().save(str(file))
    bundle = with_encoder(tmp_path, name="tokenizer", file=str(file))
    assert bundle.manifest.contract.text_encoder["file"] == "tokenizer.json"
    assert bundle.text_encoder() is not None
    with pytest.raises(BundleError, match="contract_from=BUNDLE"):
        text_encoder_of(bundle.manifest.contract)


@pytest.mark.parametrize("said", ["..", "a/..", "/etc", "other.json", "sub/tokenizer.json"])
@pytest.mark.parametrize(("encoder", "field"), [("tokenizer", "file"), ("sentence", "folder")])
def test_files_that_the_manifest_does_not_cover_are_not_read(
    tmp_path: Path, encoder: str, field: str, said: str
):
    """Even where they are there: what one was handed is no way to other files."""
    folder = tmp_path / "bundle"
    (folder / "sub").mkdir(parents=True)
    for place in (folder, folder / "sub", tmp_path):
        write_sentence_model(place)
    tiny_tokenizer().save(str(folder / "other.json"))
    contract = make_bundle(tmp_path / "plain", ROBOT).manifest.contract
    contract = contract.model_copy(update={"text_encoder": {"name": encoder, field: said}})
    with pytest.raises(BundleError, match="not in the bundle"):
        text_encoder_of(contract, BundleFiles(folder, MODEL, str))


def test_a_contract_without_an_encoder_reads_no_instruction(tmp_path: Path):
    assert make_bundle(tmp_path / "plain", ROBOT).text_encoder() is None
    assert portable({}) == ({}, {})
