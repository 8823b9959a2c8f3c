"""Text encoders with files of a few kilobytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SENTENCES = ("lift the red cube", "press the yellow pad")


def tiny_tokenizer() -> Any:
    """A token for each word of the sentences."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = sorted({word for sentence in SENTENCES for word in sentence.split()})
    vocabulary = {word: i for i, word in enumerate(["?", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


def write_sentence_model(folder: Path) -> Path:
    """A sentence encoder of two small layers, as the extra's package holds a larger one."""
    from transformers import BertConfig, BertModel

    tiny_tokenizer().save(str(folder / "tokenizer.json"))
    config = BertConfig(
        vocab_size=16,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
    )
    BertModel(config).save_pretrained(folder)
    return folder
