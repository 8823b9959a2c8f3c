"""Augmented images: shifts repeat the border, frames of a row change alike, vectors never."""

from __future__ import annotations

import pytest
import torch

from robo_rl.data.images.image_augmentation import ImageAugmentation, color_jitter, random_shift


def images(rows: int = 32, history: int = 2) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    shape = (rows, history, 3, 12, 10)
    return torch.randint(256, shape, generator=generator).to(torch.uint8)


def test_a_shift_is_a_window_of_the_padded_image(generator):
    before, most = images(), 3
    after = random_shift(before, most, generator)
    assert after.dtype == torch.uint8
    assert after.shape == before.shape
    padded = torch.nn.functional.pad(before.flatten(1, 2).float(), (most,) * 4, mode="replicate")
    windows = padded.unflatten(1, (2, 3))
    found = []
    for row in range(len(before)):
        places = [
            (down, across)
            for down in range(2 * most + 1)
            for across in range(2 * most + 1)
            if torch.equal(
                windows[row, ..., down : down + 12, across : across + 10], after[row].float()
            )
        ]
        assert len(places) == 1
        found.append(places[0])
    assert {down for down, _ in found} >= {0, 2 * most}
    assert len(set(found)) > 10


def test_jitter_scales_brightness_and_contrast(generator):
    grey = torch.full((400, 1, 3, 4, 4), 100, dtype=torch.uint8)
    bright = color_jitter(grey, 0.2, 0.0, generator).float().mean(dim=(1, 2, 3, 4))
    assert 80.0 <= float(bright.min()) < 84.0
    assert 116.0 < float(bright.max()) <= 120.0
    flat = color_jitter(grey, 0.0, 0.5, generator)
    assert torch.equal(flat, grey)  # a flat image has no contrast
    pattern = grey.clone()
    pattern[..., :2] = 60
    spread = color_jitter(pattern, 0.0, 0.5, generator).float().std(dim=(1, 2, 3, 4))
    assert 0.49 < float(spread.min() / pattern[0].float().std()) < 0.6
    assert 1.4 < float(spread.max() / pattern[0].float().std()) < 1.51


@pytest.mark.parametrize("first", [True, False])
def test_only_images_change_in_any_layout(first, generator):
    seen = images()
    obs = {"eye": seen if first else seen.permute(0, 1, 3, 4, 2), "pos": torch.randn(32, 2, 3)}
    augment = ImageAugmentation(ImageAugmentation.Config(), ["eye"])
    twin = torch.Generator()
    twin.set_state(generator.get_state())
    after = augment(obs, generator)
    assert after["pos"] is obs["pos"]
    planes = after["eye"] if first else after["eye"].permute(0, 1, 4, 2, 3)
    assert torch.equal(planes, augment({"eye": seen}, twin)["eye"])
    assert after["eye"].shape == obs["eye"].shape
    assert not torch.equal(after["eye"], obs["eye"])
    still = ImageAugmentation.Config(shift=0, brightness=0.0, contrast=0.0)
    assert torch.equal(ImageAugmentation(still, ["eye"])(obs, generator)["eye"], obs["eye"])


def test_without_images_nothing_is_drawn(generator):
    before = generator.get_state()
    ImageAugmentation(ImageAugmentation.Config(), ())({"pos": torch.zeros(2, 1, 3)}, generator)
    assert torch.equal(generator.get_state(), before)
