"""Cached features are those that are computed, and each frame is computed once while it is held."""

from __future__ import annotations

import pytest
import torch
from pretended_gpu import CPU, GPU, PretendedGpu, on_cpu
from torch import Tensor

from robo_rl.nets.encoders.feature_cache import FeatureCache, frame_hashes


class Network:
    """Some function of a frame, and how many frames it has mapped."""

    def __init__(self) -> None:
        self.mapped = 0

    def __call__(self, frames: Tensor) -> Tensor:
        self.mapped += len(frames)
        return torch.stack(
            [frames.flatten(1).float().mean(1), frames[:, 0, 0, 0].float()], 1
        ).half()


def frames_of(*seeds: int) -> Tensor:
    return torch.stack(
        [
            torch.randint(256, (3, 5, 4), generator=torch.Generator().manual_seed(seed))
            for seed in seeds
        ]
    ).to(torch.uint8)


def test_a_frame_is_mapped_once():
    cache, net = FeatureCache(10), Network()
    for seeds in ((0, 1, 1, 2), (2, 0, 3), (3, 3)):
        found = cache.find(frames_of(*seeds), net)
        assert torch.equal(found, Network()(frames_of(*seeds)))
    assert net.mapped == len(cache) == 4


@pytest.mark.parametrize("frames", [0, 1, 3, 7])
def test_whatever_it_holds_the_rows_are_right(frames):
    """1,000 random batches over 12 frames: rows are those of the network, few enough are held."""
    cache, net = FeatureCache(frames), Network()
    generator = torch.Generator().manual_seed(frames)
    for _ in range(1000):
        size = int(torch.randint(0, 6, (), generator=generator))
        batch = frames_of(*torch.randint(12, (size,), generator=generator).tolist() or [0])[:size]
        assert torch.equal(cache.find(batch, net), Network()(batch))
        assert len(cache) <= frames


def test_the_oldest_gives_way():
    cache, net = FeatureCache(2), Network()
    for seed in (0, 1, 2):
        cache.find(frames_of(seed), net)
    cache.find(frames_of(1, 2), net)
    assert net.mapped == 3
    cache.find(frames_of(0), net)
    assert net.mapped == 4


def test_it_follows_to_another_device():
    frames = frames_of(0, 1)
    with PretendedGpu():
        cache, net = FeatureCache(70), Network()
        for device in (CPU, GPU, GPU, CPU):
            found = cache.find(frames.to(device), net)
            assert found.device.type == device.type
            assert torch.equal(on_cpu(found), Network()(frames))
    assert net.mapped == 6


def test_frames_that_differ_in_one_bit_have_other_hashes():
    frames = frames_of(0).expand(3 * 5 * 4 * 8, -1, -1, -1).clone()
    for bit, frame in enumerate(frames):
        frame.view(-1)[bit // 8] ^= 1 << (bit % 8)
    assert len({*frame_hashes(frames), *frame_hashes(frames_of(0))}) == len(frames) + 1
