"""From an instruction to one vector: a bag of the groups of its ids.

Source: convolutions over characters with the largest response over the sentence, Kim et al. 2016,
"Character-Aware Neural Language Models", arXiv 1508.06615, section 2.2. Sentences that share words
share responses, wherever the words stand.

Shapes: B rows, L ids, S features.
"""

from __future__ import annotations

from torch import Tensor, nn

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
