"""The networks of π0 and π0.5: PaliGemma's prefix, and an expert that shares its attention.

Sources: Black et al. 2024, arXiv 2410.24164 (π0); Physical Intelligence 2025, arXiv 2504.16054
(π0.5). Images and words are the prefix. In π0 the state is the expert's first token, and time is
mixed with the actions. In π0.5 the state is in the words, and time scales the expert's norms.

Shapes: B rows, H horizon, A padded action, S padded state, L words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from robo_rl.nets.vla.layers import AdaRmsNorm, normalize, run_layer, self_attention
from robo_rl.nets.vla.prefix import (
    Prefix,
    Tokens,
    block_mask,
    dense_silu,
    join_tokens,
    make_prefix,
    pad_last,
    resize_with_padding,
    time_features,
)
from robo_rl.nets.vla.sizes import VlaSizes


class PaliGemmaPrefix(nn.Module):
    """PaliGemma's cache of images and words.

    Args:
        sizes: See ``VlaSizes``.
        vlm_config: Config of the PaliGemma.
    """

    def __init__(self, sizes: VlaSizes, vlm_config: Any) -> None:
        super().__init__()
        from transformers import PaliGemmaForConditionalGeneration

        self.sizes = sizes
        self.paligemma: Any = PaliGemmaForConditionalGeneration(vlm_config)
        self.gradient_checkpointing = False

    def forward(
        self, images: Sequence[Tensor], words: Tensor, word_mask: Tensor, state: Tensor
    ) -> Prefix:
        """Encode an observation.

        Args:
            images: A (B, 3, h, w) in [0, 1] for each camera.
            words: (B, L) token ids of the instruction, in π0.5 with those of the state.
            word_mask: (B, L) bool, words that are no padding.
            state: (B, s) with s up to S; the expert reads it.
        """
        text = self.paligemma.model.language_model
        said = F.embedding(words, text.get_input_embeddings().weight)
        if self.sizes.scale_tokens:
            said = said * said.shape[-1] ** 0.5
        parts = [Tokens.of(self._seen(image)) for image in images]
        tokens = join_tokens([*parts, Tokens.of(said, word_mask)])
        padded = pad_last(state, self.sizes.max_state_dim)
        return make_prefix(text, tokens, padded, again=self.gradient_checkpointing)

    def _seen(self, image: Tensor) -> Tensor:
        """Map images (B, 3, h, w) in [0, 1] to tokens."""
        padded = resize_with_padding(image, self.sizes.image_size, centred=True, value=0.0)
        model = self.paligemma.model
        again = self.gradient_checkpointing
        patches = run_layer(model.vision_tower, 2.0 * padded - 1.0, again=again).last_hidden_state
        return model.multi_modal_projector(patches)


class GemmaExpert(nn.Module):
    """The velocity of a noisy chunk, in time that is 1 at noise and 0 at the action.

    A subclass makes the expert's tokens, and the condition of its norms.

    Args:
        sizes: See ``VlaSizes``.
        expert_config: Config of the Gemma.
    """

    def __init__(self, sizes: VlaSizes, expert_config: Any) -> None:
        super().__init__()
        from transformers import GemmaForCausalLM

        width, wide = expert_config.hidden_size, sizes.max_action_dim
        self.sizes = sizes
        self.gemma_expert: Any = GemmaForCausalLM(expert_config)
        self.gemma_expert.model.embed_tokens = None
        self.gradient_checkpointing = False
        self.action_in_proj, self.action_out_proj = nn.Linear(wide, width), nn.Linear(width, wide)

    def forward(self, x: Tensor, t: Tensor, prefix: Prefix) -> Tensor:
        """Map a chunk (B, H, A) at times (B,) to its velocity, noise − action, (B, H, A)."""
        time = time_features(t, self.action_in_proj.out_features, self.sizes.periods)
        tokens, cond = self.tokens(self.action_in_proj(x), time, prefix.state)
        length, rows = tokens.x.shape[1], x.shape[0]
        own = block_mask(tokens.begins, x.device).expand(rows, -1, -1)
        seen = torch.cat([prefix.mask[:, None].expand(-1, length, -1), own], dim=2)
        places = prefix.mask.sum(1, keepdim=True) + torch.arange(length, device=x.device)
        model, h, again = self.gemma_expert.model, tokens.x, self.gradient_checkpointing
        for layer, cache in zip(model.layers, prefix.cache, strict=True):
            h, _ = run_layer(self_attention, layer, h, places, seen, cache, cond, again=again)
        return self.action_out_proj(normalize(model.norm, h, cond)[0][:, -x.shape[1] :])

    def tokens(self, acts: Tensor, time: Tensor, state: Tensor) -> tuple[Tokens, Tensor | None]:
        """Return the expert's tokens and the condition of its norms.

        Args:
            acts: (B, H, C), projected actions.
            time: (B, C), features of the time.
            state: (B, S).
        """
        raise NotImplementedError


class Pi0Expert(GemmaExpert):
    """π0's expert: a token of the state, which sees no action, before those of the actions."""

    def __init__(self, sizes: VlaSizes, expert_config: Any) -> None:
        super().__init__(sizes, expert_config)
        width = expert_config.hidden_size
        self.state_proj = nn.Linear(sizes.max_state_dim, width)
        self.action_time_mlp_in = nn.Linear(2 * width, width)
        self.action_time_mlp_out = nn.Linear(width, width)

    def tokens(self, acts: Tensor, time: Tensor, state: Tensor) -> tuple[Tokens, Tensor | None]:
        """See ``GemmaExpert``."""
        both = torch.cat([acts, time[:, None].expand_as(acts)], dim=-1)
        mixed = dense_silu(self.action_time_mlp_in, self.action_time_mlp_out, both)
        body = Tokens.of(self.state_proj(state)[:, None], begins=True)
        return join_tokens([body, one_block(mixed)]), None


class Pi05Expert(GemmaExpert):
    """π0.5's expert: tokens of actions alone, and norms that time scales."""

    def __init__(self, sizes: VlaSizes, expert_config: Any) -> None:
        super().__init__(sizes, expert_config)
        width = expert_config.hidden_size
        model = self.gemma_expert.model
        for layer in model.layers:
            layer.input_layernorm = AdaRmsNorm(width, width)
            layer.post_attention_layernorm = AdaRmsNorm(width, width)
        model.norm = AdaRmsNorm(width, width)
        self.time_mlp_in, self.time_mlp_out = nn.Linear(width, width), nn.Linear(width, width)

    def tokens(self, acts: Tensor, time: Tensor, state: Tensor) -> tuple[Tokens, Tensor | None]:
        """See ``GemmaExpert``."""
        del state
        return one_block(acts), F.silu(dense_silu(self.time_mlp_in, self.time_mlp_out, time))


def one_block(x: Tensor) -> Tokens:
    """Return tokens (B, T, C) that see each other, in a block of their own."""
    return Tokens.of(x)._replace(begins=(True,) + (False,) * (x.shape[1] - 1))
