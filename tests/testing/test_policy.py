"""All our families conform; each way of breaking one is refused by name."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
from small_plugin import Plugins, plugins
from small_policies import ACT, FAMILY, OBS, SAMPLERS, make_policy
from torch import nn

from robo_rl.config.registry import load
from robo_rl.core.errors import PluginError
from robo_rl.data.normalize import Normalizer
from robo_rl.policy.families.flow import FlowNoise, FlowPolicy
from robo_rl.policy.kernels.gaussian import GaussianKernel
from robo_rl.testing.policy import check_policy

__all__ = ["plugins"]

NETS = {
    "mlp": {"name": "mlp", "width": 32, "depth": 1},
    "unet1d": {"name": "unet1d", "channels": [8, 16], "kernel_size": 3, "groups": 4},
}


@pytest.mark.parametrize(
    ("sampler", "net"),
    [
        pytest.param(
            sampler, net, marks=[pytest.mark.slow] * (net == "unet1d" and sampler != "ddpm")
        )
        for sampler in SAMPLERS
        for net in NETS
    ],
)
def test_our_families_conform(sampler, net):
    def make():
        return make_policy(sampler, 4, net=NETS[net], obs_horizon=2).float()

    check_policy(make, FAMILY.get(sampler, "flow"))


def test_action_tokens_conform():
    check_policy(lambda: make_policy("categorical", 3, net=NETS["mlp"]).float(), "tokens")


class ScoresOnAnotherTimeGrid(FlowPolicy):
    def kernel(self, embedding, k, x):
        return super().kernel(embedding, (k + 1).clamp(max=self.num_steps - 1), x)


class ScoresTwice(FlowPolicy):
    def log_prob(self, obs, k, x, x_next):
        return super().log_prob(obs, (k + 1).clamp(max=self.num_steps - 1), x, x_next)


class AveragesLogProb(FlowPolicy):
    def log_prob(self, obs, k, x, x_next):
        return super().log_prob(obs, k, x, x_next).mean(dim=(1, 2))


class DrawsFromTheGlobalStream(FlowPolicy):
    def sample(self, obs, generator, *, single_step=False):
        return super().sample(
            obs, torch.Generator().manual_seed(torch.seed()), single_step=single_step
        )


class ExploresInEvaluation(FlowPolicy):
    def decode_normalized(self, obs, noise):
        kept, self.eval_sampler = self.eval_sampler, self.sampler
        try:
            return super().decode_normalized(obs, noise)
        finally:
            self.eval_sampler = kept


class ActsFromItsMean(FlowPolicy):
    def act(self, obs, generator):
        return self.decode(obs, torch.zeros(len(obs["pos"]), self.horizon, self.act_spec.size))


class NormalisesTheBatch(FlowPolicy):
    def decode_normalized(self, obs, noise):
        return super().decode_normalized(obs, noise - noise.mean(0))


class GivesOneLoss(FlowPolicy):
    def loss(self, obs, act, generator):
        return super().loss(obs, act, generator).mean()


class LearnsBackwards(FlowPolicy):
    def loss(self, obs, act, generator):
        loss = super().loss(obs, act, generator)
        return loss.detach() * 2 - loss


class DetachesTheObservation(FlowPolicy):
    def encode(self, obs):
        return super().encode(obs).detach()


class KeepsSomethingToItself(FlowPolicy):
    def __init__(self, *args):
        super().__init__(*args)
        self.bias = nn.Linear(1, 1).weight.detach()

    def decode_normalized(self, obs, noise):
        return super().decode_normalized(obs, noise) + self.bias


class _Shaken(FlowNoise):
    def kernel(self, k, x, prediction):
        kernel = super().kernel(k, x, prediction)
        return GaussianKernel(kernel.mean, kernel.std * (1.0 + 0.1 * (len(k) == 24)))


class SpreadsMoreThanItSays(FlowPolicy):
    """Its density depends on what else is in the batch."""

    def __init__(self, *args):
        super().__init__(*args)
        self.sampler = _Shaken(FlowNoise.Config(), self.num_steps)


class TrainsEveryStepOfASingleStepChain(FlowPolicy):
    def sample(self, obs, generator, *, single_step=False):
        chain = super().sample(obs, generator)
        star = torch.zeros(len(chain.x), dtype=torch.int64)
        return dataclasses.replace(chain, k_star=star) if single_step else chain


class IgnoresItsGenerator(FlowPolicy):
    def sample(self, obs, generator, *, single_step=False):
        return super().sample(obs, torch.Generator().manual_seed(0), single_step=single_step)


class ActsByChance(FlowPolicy):
    def decode_normalized(self, obs, noise):
        return super().decode_normalized(obs, noise + 0.1 * torch.randn_like(noise))


class ExploresByItsBirth(FlowPolicy):
    """Its noise is drawn when it is made, and not saved."""

    def __init__(self, *args):
        super().__init__(*args)
        low = 0.05 + 0.05 * float(torch.rand(()))
        self.sampler = FlowNoise(FlowNoise.Config(std_min=low), self.num_steps)


BROKEN = [
    (ExploresByItsBirth, "rebuilt policy explores differently"),
    (TrainsEveryStepOfASingleStepChain, "steps other than k_star"),
    (IgnoresItsGenerator, "another generator gives the same"),
    (ActsByChance, "the same generator gives another action"),
    (ScoresOnAnotherTimeGrid, "ratio of a fresh chain is not 1"),
    (ScoresTwice, r"log_prob\(\) is not that of kernel\(\)"),
    (AveragesLogProb, r"log_prob\(\) shape"),
    (DrawsFromTheGlobalStream, "same generator gives another chain"),
    (ExploresInEvaluation, "decode depends on the exploring sampler"),
    (ActsFromItsMean, "act is not decode"),
    (NormalisesTheBatch, "a row differs in a batch of 1"),
    (GivesOneLoss, r"loss\(\) shape"),
    (LearnsBackwards, "loss of one batch does not fall"),
    (DetachesTheObservation, "no gradient reaches.* net.from_obs"),
    (KeepsSomethingToItself, "rebuilt policy acts differently"),
    (SpreadsMoreThanItSays, "ratio of a fresh chain is not 1"),
]


@pytest.mark.parametrize(("family", "says"), BROKEN, ids=lambda case: getattr(case, "__name__", ""))
def test_a_broken_policy_is_refused_by_name(family, says, plugins: Plugins):
    name, module = family.__name__, family.__module__
    source = f"import sys\n\n{name} = sys.modules[{module!r}].{name}\n"
    plugins.install("acme-policies", {"__init__.py": source}, {"policies": {"broken": name}})
    assert load("policies", "broken") is family
    cfg = make_policy("flow_noise", 4).cfg

    def make():
        torch.manual_seed(0)
        return family(copy.deepcopy(cfg), OBS, ACT, Normalizer.identity(OBS, ACT))

    with pytest.raises(PluginError, match=says):
        check_policy(make, "broken")


def test_a_family_under_another_name_is_refused():
    with pytest.raises(
        PluginError, match=r"another class is registered as 'diffusion'; .*FlowPolicy"
    ):
        check_policy(lambda: make_policy("flow_noise", 4).float(), "diffusion")
    with pytest.raises(PluginError, match="unknown policy 'acme'"):
        check_policy(lambda: make_policy("flow_noise", 4).float(), "acme")


def test_a_family_may_have_several_names(plugins: Plugins):
    source = "from robo_rl.policy.families.flow import FlowPolicy\n"
    plugins.install("acme-policies", {"__init__.py": source}, {"policies": {"river": "FlowPolicy"}})
    for name in ("flow", "river"):
        check_policy(lambda: make_policy("flow_noise", 4).float(), name)


def test_a_policy_that_explores_under_the_ode_is_refused():
    cfg = FlowPolicy.Config.model_validate({"exec_horizon": 3, "sampler": "flow_ode"})
    with pytest.raises(PluginError, match="trainable_steps is empty"):
        check_policy(lambda: FlowPolicy(cfg, OBS, ACT, Normalizer.identity(OBS, ACT)), "flow")
