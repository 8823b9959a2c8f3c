"""The policy of action tokens: an autoregressive chain of categorical kernels.

A chunk has H·A elements, and step k of a chain draws the next H·A/K of them, given those that are
drawn. K = H·A is a token at a time (RT-2, arXiv 2307.15818; OpenVLA, arXiv 2406.09246), K = H a
control step at a time, and K = 1 the whole chunk at once (OpenVLA-OFT, arXiv 2502.19645). The
log-probability of a chunk is the sum over its steps, so PPO with ratio ``joint`` is PPO on whole
chunks, and with ``per_step`` PPO on tokens, as in VLA-RL (Lu et al. 2025, arXiv 2505.18719).

Shapes: B rows, H horizon, A act_dim, K steps, G = H·A/K elements of a step, V bins.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn.functional import one_hot

from robo_rl.config.component import Component, component, default
from robo_rl.core.errors import SpecError
from robo_rl.core.spec import ActSpec, ObsSpec
from robo_rl.data.normalize import Normalizer
from robo_rl.nets.base import ChunkNet
from robo_rl.nets.embedding import Embedding
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.chain import Prediction, Sampler
from robo_rl.policy.correlation import Correlation
from robo_rl.policy.kernels.base import Kernel
from robo_rl.policy.kernels.categorical import CategoricalKernel, bin_of, bin_values, soft_bins
from robo_rl.policy.schedule import Positive, Scheduled, start_value

_TIE = 1e-3
"""Difference of logits, in nats, that rounding may decide."""


class Categorical:
    """Draws the tokens of each step from the network's odds, in order of time.

    Args:
        cfg: See Config.
        num_steps: K, which divides H·A.
    """

    class Config(Scheduled):
        """The temperature of exploration; evaluation takes the most likely token."""

        temperature: Positive = 1.0
        """Divisor of the logits."""

    learns_noise = False
    expected_prediction = "logits"

    def __init__(self, cfg: Config, num_steps: int) -> None:
        self.cfg, self.num_steps = cfg, num_steps
        self.times = torch.arange(num_steps, dtype=torch.float64) / num_steps
        self.stochastic = torch.ones(num_steps, dtype=torch.bool)

    def start(self, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        """Return zeros of the given shape, which no network sees."""
        return torch.zeros(shape, device=None if generator is None else generator.device)

    def kernel(self, k: Tensor, x: Tensor, prediction: Prediction) -> Kernel:
        """Return the kernel of the tokens of steps k (B,); ``prediction.out`` is (B, H, A, V)."""
        logits, place = self.drawn(k, x, prediction)
        return CategoricalKernel.of(logits / start_value(self.cfg.temperature), place, x)

    def drawn(self, k: Tensor, x: Tensor, prediction: Prediction) -> tuple[Tensor, Tensor]:
        """Return the logits (B, G, V) and places (B, G) of the elements of steps k (B,)."""
        size = x[0].numel() // self.num_steps
        place = k[:, None] * size + torch.arange(size, device=x.device)
        logits = prediction.out.flatten(1, 2)
        return logits.gather(1, place[..., None].expand(-1, -1, logits.shape[-1])), place


class Greedy(Categorical):
    """Takes the most likely token of each element."""

    def __init__(self, cfg: Categorical.Config, num_steps: int) -> None:
        super().__init__(cfg, num_steps)
        self.stochastic = torch.zeros(num_steps, dtype=torch.bool)

    def kernel(self, k: Tensor, x: Tensor, prediction: Prediction) -> Kernel:
        """Return the deterministic kernel."""
        return CategoricalKernel.greedy(*self.drawn(k, x, prediction), x)


class TokenPolicy(DenoisingPolicy):
    """A network that sees the drawn tokens as one-hot vectors and returns logits of all tokens.

    The network is any ``ChunkNet`` for H steps of A·V numbers, and its time is k/K. A token of an
    element that is not drawn yet is a vector of zeros.

    Raises:
        SpecError: K does not divide H·A.
    """

    reparameterized: ClassVar[bool] = False
    maps_noise: ClassVar[bool] = False
    depends_on_actions: ClassVar[bool] = True

    class Config(DenoisingPolicy.Config):
        """``num_steps`` is K, the number of autoregressive steps of a chunk."""

        expected_prediction: ClassVar[str] = "logits"
        chain_settings: ClassVar[tuple[str, ...]] = (
            *DenoisingPolicy.Config.chain_settings,
            "bins",
        )
        sampler: Annotated[Component[Sampler], component("samplers")] = default("categorical")
        """Sampler of exploration."""
        bins: int = Field(default=64, ge=2)
        """V, tokens of an element: equal parts of its normalised range."""
        label_width: float = Field(default=0.75, ge=0.0)
        """Std of the labels of cloning around the action, in bins; 0 labels one bin."""

        @model_validator(mode="after")
        def _has_no_noise(self) -> Self:
            if self.correlation != Correlation():
                raise ValueError("correlation: tokens have no noise to correlate")
            return self

    cfg: Config

    def __init__(
        self, cfg: Config, obs_spec: ObsSpec, act_spec: ActSpec, normalizer: Normalizer
    ) -> None:
        elements = cfg.horizon * act_spec.size
        if elements % cfg.num_steps:
            raise SpecError(
                "a chunk has no equal parts for the steps of the chain",
                where="policy.num_steps",
                expected=f"a divisor of {cfg.horizon} actions · {act_spec.size} = {elements}",
                found=cfg.num_steps,
                hint=f"{cfg.horizon} draws an action at a time, {elements} a token at a time",
            )
        super().__init__(cfg, obs_spec, act_spec, normalizer)

    @property
    def learns_spread(self) -> bool:
        """See ``DenoisingPolicy``: the logits decide."""
        return True

    @property
    def trainable_steps(self) -> Tensor:
        """See ``DenoisingPolicy``: of the steps that draw executed elements."""
        first = torch.arange(self.num_steps) * (self.horizon * self.act_spec.size // self.num_steps)
        return super().trainable_steps & (first < self.exec_horizon * self.act_spec.size)

    def make_net(self, features: int) -> ChunkNet:
        """Return a network over the one-hot vectors of a chunk."""
        return self.cfg.net.build(self.cfg.horizon, self.act_spec.size * self.cfg.bins, features)

    def make_eval_sampler(self, num_steps: int) -> Sampler:
        """Return the greedy sampler."""
        return Greedy(Categorical.Config(), num_steps)

    def loss(self, obs: dict[str, Tensor], act: Tensor, generator: torch.Generator) -> Tensor:
        """Cross-entropy in nats a token, at one drawn step of each row; (B,).

        Neighbouring bins share a label, because they are neighbouring actions.
        """
        act = self.from_env(obs, act)
        k = torch.randint(
            self.num_steps, (len(act),), generator=generator, device=generator.device
        ).to(act.device)
        prediction = self._denoiser.predict(self.eval_sampler, self.encode(obs), k, act)
        logits, place = Categorical(Categorical.Config(), self.num_steps).drawn(k, act, prediction)
        target = act.flatten(1).gather(1, place)
        return -(self._labels(target) * logits.log_softmax(dim=-1)).sum(dim=-1).mean(dim=-1)

    def _labels(self, act: Tensor) -> Tensor:
        """Return the odds (B, G, V) that cloning learns for elements (B, G)."""
        bins, width = self.cfg.bins, self.cfg.label_width
        if width:
            return soft_bins(act, bins, width)
        return one_hot(bin_of(act, bins), bins).to(act.dtype)

    @torch.no_grad()
    def settle_ties(self, obs: dict[str, Tensor], act: Tensor, other: Tensor) -> Tensor:
        """See ``DenoisingPolicy``: a tie has tokens whose logits are within ``_TIE`` of the best.

        Tokens are compared given those before them in ``other``. A tie counts as this policy's own
        decoding of its tokens, so that an error within a bin stays visible.
        """
        drawn = self.from_env(obs, other)
        tied = self._lost_odds(obs, drawn) <= _TIE
        decoded = self.to_env(obs, bin_values(self.cfg.bins, drawn)[bin_of(drawn, self.cfg.bins)])
        return torch.where(tied.view(-1, 1, 1), decoded.to(act), act)

    def _lost_odds(self, obs: dict[str, Tensor], act: Tensor) -> Tensor:
        """Return (B,) the largest gap in nats between the best token and that of act (B, H, A)."""
        draws, lost = Categorical(Categorical.Config(), self.num_steps), []
        embedding = self.encode(obs)
        for step in range(self.num_steps):
            k = torch.full((len(act),), step, device=act.device)
            prediction = self._denoiser.predict(self.eval_sampler, embedding, k, act)
            logits, place = draws.drawn(k, act, prediction)
            taken = bin_of(act.flatten(1).gather(1, place), self.cfg.bins)[..., None]
            lost.append(logits.amax(dim=-1) - logits.gather(-1, taken).squeeze(-1))
        return torch.cat(lost, dim=-1).amax(dim=-1)

    def denoise(
        self, net: ChunkNet, k: Tensor, x: Tensor, t: Tensor, embedding: Embedding
    ) -> Tensor:
        """Return the logits (B, H, A, V); the network sees the elements drawn before step k."""
        bins, chunk = self.cfg.bins, x.flatten(1)
        known = torch.arange(chunk.shape[1], device=x.device) < (
            k[:, None] * (chunk.shape[1] // self.num_steps)
        )
        token = bin_of(chunk, bins)[..., None] == torch.arange(bins, device=x.device)
        seen = (token & known[..., None]).to(x.dtype).view(*x.shape[:2], -1)
        return net(seen, t, embedding).to(x).view(*x.shape, bins)
