"""From an instruction to one vector: a bag of the groups of its ids.

Source: convolutions over characters with the largest response over the sentence, Kim et al. 2016,
"Character-Aware Neural Language Models", arXiv 1508.06615, section 2.2. Sentences that share words
share responses, wherever the words stand.

Shapes: B rows, L ids, S features.
"""

from __future__ import annotations

from torch import Tensor, nn

from robo_rl.core.errors import SpecError
from robo_rl.core.spec import TensorSpec

EMBED = 16
"""Features of an id."""


class TextTower(nn.Module):
    """Maps ids (B, L) int64, where -1 is padding, to features (B, S).

    Args:
        vocabulary: Number of ids.
        width: S.
        reach: Ids on either side that a response depends on.
    """

    def __init__(self, vocabulary: int, width: int, reach: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary + 1, EMBED, padding_idx=0)
        self.groups = nn.Conv1d(EMBED, width, 2 * reach + 1, padding=reach)
        self.out = nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.SiLU())

    def forward(self, ids: Tensor) -> Tensor:
        """Return the features of sentences."""
        there = (ids >= 0).unsqueeze(1)
        x = self.embed(ids + 1).transpose(1, 2)
        x = nn.functional.relu(self.groups(x)) * there
        return self.out(x.amax(dim=2))


def check_vocabulary(text: TensorSpec, vocabulary: int, where: str) -> None:
    """Check that all ids of a text have an embedding.

    Args:
        text: Spec of the ids (L,).
        vocabulary: Number of embeddings.
        where: Setting that states it, for the error.

    Raises:
        SpecError: There are more ids.
    """
    most = max(text.high, default=0.0)
    if most >= vocabulary:
        raise SpecError(
            "the text encoder has more ids than the policy's encoder",
            where=where,
            expected=f"at least {most + 1:g}",
            found=vocabulary,
            hint="env.text_encoder names the encoder of the text",
        )
