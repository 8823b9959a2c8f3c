"""SmolVLA's networks: the prefix of SmolVLM2, and an expert that mostly reads its cache.

Source: Shukor et al. 2025, arXiv 2506.01844. Images, words and state are the prefix. Layers of the
expert see the prefix through its cache; every n-th layer sees the expert's tokens too.

Shapes: B rows, H horizon, A padded action, S padded state, L words.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from robo_rl.nets.vla.layers import cross_attention, run_layer, self_attention
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


class SmolVlaPrefix(nn.Module):
    """SmolVLM2 up to the layer that the expert reads, and the projection of the state.

    Args:
        sizes: See ``VlaSizes``.
        vlm_config: Config of the SmolVLM2.
    """

    def __init__(self, sizes: VlaSizes, vlm_config: Any) -> None:
        super().__init__()
        from transformers import SmolVLMForConditionalGeneration

        used = copy.deepcopy(vlm_config)
        used.text_config.num_hidden_layers = sizes.num_vlm_layers
        self.sizes = sizes
        self.vlm: Any = SmolVLMForConditionalGeneration(used)
        self.state_proj = nn.Linear(sizes.max_state_dim, used.text_config.hidden_size)
        self.gradient_checkpointing = False

    def forward(
        self, images: Sequence[Tensor], words: Tensor, word_mask: Tensor, state: Tensor
    ) -> Prefix:
        """Encode an observation.

        Args:
            images: A (B, 3, h, w) in [0, 1] for each camera.
            words: (B, L) token ids of the instruction.
            word_mask: (B, L) bool, words that are no padding.
            state: (B, s) with s up to S.
        """
        text = self.vlm.model.text_model
        said = text.get_input_embeddings()(words)
        body = self.state_proj(pad_last(state, self.sizes.max_state_dim))[:, None]
        parts = [Tokens.of(self._seen(image)) for image in images]
        parts += [Tokens.of(said * said.shape[-1] ** 0.5, word_mask)]
        tokens = join_tokens([*parts, Tokens.of(body, begins=True)])
        return make_prefix(text, tokens, state[:, :0], again=self.gradient_checkpointing)

    def _seen(self, image: Tensor) -> Tensor:
        """Map images (B, 3, h, w) in [0, 1] to tokens."""
        padded = resize_with_padding(image, self.sizes.image_size, centred=False, value=0.0)
        model = self.vlm.model
        vision, tables = model.vision_model, model.vision_model.embeddings
        grid = tables.patch_embedding(2.0 * padded - 1.0)
        rows, columns = grid.shape[-2:]
        index = patch_places(rows, columns, tables.num_patches_per_side, grid.device)
        places = tables.position_embedding(index)
        patches = grid.flatten(2).transpose(1, 2) + places
        for layer in vision.encoder.layers:
            patches = run_layer(layer, patches, None, again=self.gradient_checkpointing)
        tokens = model.connector(vision.post_layernorm(patches))
        return tokens * tokens.shape[-1] ** 0.5


class SmolVlaExpert(nn.Module):
    """The velocity of a noisy chunk, in SmolVLA's time: 1 is noise, 0 the action.

    Args:
        sizes: See ``VlaSizes``.
        vlm_config: Config of the SmolVLM2.
    """

    def __init__(self, sizes: VlaSizes, vlm_config: Any) -> None:
        super().__init__()
        from transformers import LlamaModel

        text = vlm_config.text_config
        own = expert_config(text, sizes)
        width, wide = own.hidden_size, sizes.max_action_dim
        self.sizes = sizes
        self.lm_expert: Any = LlamaModel(own)
        self.lm_expert.embed_tokens = None
        for index, layer in enumerate(self.lm_expert.layers):
            if index % sizes.self_attn_every_n_layers:
                read, written = (c.num_key_value_heads * c.head_dim for c in (text, own))
                layer.self_attn.k_proj = nn.Linear(read, written, bias=False)
                layer.self_attn.v_proj = nn.Linear(read, written, bias=False)
        self.action_in_proj, self.action_out_proj = nn.Linear(wide, width), nn.Linear(width, wide)
        self.action_time_mlp_in = nn.Linear(2 * width, width)
        self.action_time_mlp_out = nn.Linear(width, width)
        self.gradient_checkpointing = False

    def forward(self, x: Tensor, t: Tensor, prefix: Prefix) -> Tensor:
        """Map a chunk (B, H, A) at times (B,) to its velocity, noise − action, (B, H, A)."""
        x = self._tokens(x, t)
        length, every = x.shape[1], self.sizes.self_attn_every_n_layers
        seen = prefix.mask[:, None].expand(-1, length, -1)
        causal = block_mask((True,) * length, x.device).expand(len(x), -1, -1)
        count = torch.arange(length, device=x.device).expand(len(x), -1)
        places = prefix.mask.sum(1, keepdim=True) + count
        both, again = torch.cat([seen, causal], dim=2), self.gradient_checkpointing
        for index, (layer, cache) in enumerate(
            zip(self.lm_expert.layers, prefix.cache, strict=True)
        ):
            if index % every:
                x = run_layer(cross_attention, layer, x, count, seen, cache, again=again)
            else:
                x, _ = run_layer(self_attention, layer, x, places, both, cache, again=again)
        return self.action_out_proj(self.lm_expert.norm(x))

    def _tokens(self, x: Tensor, t: Tensor) -> Tensor:
        acts = self.action_in_proj(x)
        time = time_features(t, acts.shape[-1], self.sizes.periods)[:, None].expand_as(acts)
        both = torch.cat([acts, time], dim=-1)
        return dense_silu(self.action_time_mlp_in, self.action_time_mlp_out, both)


def patch_places(rows: int, columns: int, side: int, device: torch.device) -> Tensor:
    """Return the places of patches in a table of side × side: (rows · columns,).

    An image with fewer patches has those places whose share of the side is theirs. The model's own
    function asks the CPU for every image which patches are padding.
    """
    down, right = (torch.arange(n, device=device) * side // n for n in (rows, columns))
    return (down[:, None] * side + right).flatten()


def expert_config(text: Any, sizes: VlaSizes) -> Any:
    """Return the config of SmolVLA's expert beside a language model.

    Its MLP has 8/3 of its width, rounded up to a multiple of 256.
    """
    own = copy.deepcopy(text)
    own.hidden_size = int(text.hidden_size * sizes.expert_width_multiplier)
    own.intermediate_size = 256 * -(-4 * int(2 * own.hidden_size / 3) // 256)
    own.num_hidden_layers = sizes.num_vlm_layers
    return own
