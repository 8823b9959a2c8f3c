"""Sentences as the ids of a tokenizer, as vision-language models read them.

The file is ``tokenizer.json`` of Hugging Face's ``tokenizers``; it holds no code.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray
from pydantic import Field

from robo_rl.config.fingerprint import Fingerprint, versions_of
from robo_rl.config.models import ConfigModel
from robo_rl.config.registry import missing_extra
from robo_rl.core.errors import ConfigError
from robo_rl.language.base import INSTRUCTION, demand_words, padded, text_spec

FILE = "tokenizer.json"
WHERE = "env.text_encoder.file"


class TokenizerFile:
    """Encodes a sentence as the ids of a tokenizer.

    Args:
        cfg: See Config.

    Raises:
        ConfigError: There is no such file, or it is no tokenizer.
        DeviceError: The extra ``pretrained`` is not installed.
    """

    assets: ClassVar = {"file": (FILE,)}

    class Config(ConfigModel):
        """The tokenizer's file, and the length and the end of the item."""

        file: Path
        """``tokenizer.json``, or the folder that holds it."""
        max_tokens: int = Field(default=48, ge=1)
        """L, ids of the longest sentence."""
        suffix: str = "\n"
        """Text behind each sentence; SmolVLA and π0 were trained with a line end."""

    @staticmethod
    def fingerprint(cfg: Config) -> Fingerprint:
        """Return the fingerprint of the file, and of the package that reads it."""
        file = tokenizer_path(cfg.file).absolute()
        return Fingerprint((str(file),), versions_of(["tokenizers"]))

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg
        self.tokenizer = read_tokenizer(cfg.file)
        self.spec = text_spec(cfg.max_tokens, num_text_ids(self.tokenizer, cfg.suffix))

    def encode(self, sentences: Sequence[str]) -> NDArray[Any]:
        """Return ids (n, L) int64; -1 is padding.

        Raises:
            ConfigError: A sentence is empty, has more than L ids, or has a token that stands for
                no text, such as ``<image>``.
        """
        demand_words(sentences)
        texts = [sentence.strip() + self.cfg.suffix for sentence in sentences]
        rows = [list(each.ids) for each in self.tokenizer.encode_batch(texts)]
        for sentence, row in zip(sentences, rows, strict=True):
            if (most := max(row, default=0)) > self.spec.high[0]:
                raise ConfigError(
                    "an instruction has a token that stands for no text",
                    where=INSTRUCTION,
                    expected="words",
                    found=f"{self.tokenizer.id_to_token(most)} in {sentence!r}",
                )
        return padded(rows, self.cfg.max_tokens, sentences)


def num_text_ids(tokenizer: Any, suffix: str = "") -> int:
    """Return a number above all ids of texts.

    Of the special tokens only those count that texts have: at their ends, in the suffix, or for
    unknown words.
    The networks of VLAs need no embedding of the others, such as ``<image>`` of PaliGemma.

    Args:
        tokenizer: A ``tokenizers.Tokenizer``.
        suffix: Text behind each sentence.
    """
    added = tokenizer.get_added_tokens_decoder()
    special = {index for index, token in added.items() if token.special}
    unknown = tokenizer.token_to_id(getattr(tokenizer.model, "unk_token", None) or "")
    ids = {*tokenizer.get_vocab(with_added_tokens=True).values()} - special
    ids |= {*tokenizer.encode(suffix).ids} | ({unknown} - {None})
    return 1 + max(ids, default=0)


def tokenizer_path(file: Path) -> Path:
    """Return the path of a tokenizer that is given by its file or its folder."""
    return file / FILE if file.is_dir() else file


def read_tokenizer(file: Path, where: str = WHERE) -> Any:
    """Return the tokenizer of a file or folder, without its own padding and truncation.

    Args:
        file: The file, or its folder.
        where: Setting that names it, for errors.

    Raises:
        ConfigError: There is no such file, or it is no tokenizer.
        DeviceError: The extra ``pretrained`` is not installed.
    """
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from error
    path = tokenizer_path(file)
    expected = f"a folder with {FILE}"
    if not path.is_file():
        raise ConfigError("no tokenizer", where=where, expected=expected, found=str(file))
    try:
        tokenizer = Tokenizer.from_str(path.read_text())
    except Exception as error:  # tokenizers raises plain Exception
        raise ConfigError(
            "the file is no tokenizer", where=where, expected=expected, found=f"{path}: {error}"
        ) from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer
