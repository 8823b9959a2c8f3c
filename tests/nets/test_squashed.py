"""What is drawn in bounds has the density that is said of it."""

from __future__ import annotations

import torch

from robo_rl.nets.squashed import SquashedGaussian


def test_its_density_sums_to_one_and_is_that_of_its_draws():
    torch.manual_seed(0)
    net, generator = SquashedGaussian(2, 1, (8,)), torch.Generator().manual_seed(0)
    rows = torch.tensor([[0.3, -0.7]]).expand(200_000, 2)
    with torch.no_grad():
        drawn, log_prob = net(rows, generator)
    assert drawn.abs().max() < 1.0
    low, high = drawn[:, 0].quantile(torch.tensor([0.1, 0.9])).tolist()
    within = (drawn[:, 0] > low) & (drawn[:, 0] < high)
    weight = torch.where(within, (-log_prob).exp(), 0.0)  # its mean is the width of that stretch
    sure = 4.0 * float(weight.std()) / len(weight) ** 0.5
    assert abs(float(weight.mean()) - (high - low)) < sure
    assert sure < 0.05 * (high - low)


def test_the_density_of_several_is_the_product_of_each():
    torch.manual_seed(0)
    net, generator = SquashedGaussian(3, 2, (8,)), torch.Generator().manual_seed(0)
    drawn, log_prob = net(torch.tensor([[0.3, -0.7, 0.1]]).expand(200_000, 3), generator)
    assert log_prob.requires_grad
    low, high = drawn.detach().quantile(torch.tensor([0.1, 0.9]), dim=0)
    within = ((drawn > low) & (drawn < high)).all(dim=1)
    weight = torch.where(within, (-log_prob.detach()).exp(), 0.0)  # its mean is the area within
    area, sure = float((high - low).prod()), 4.0 * float(weight.std()) / len(weight) ** 0.5
    assert abs(float(weight.mean()) - area) < sure
    assert sure < 0.05 * area
