import math

import numpy as np
import pytest
import torch

from halfscale.workloads.bayes import bayes_accuracy, bayes_loss
from halfscale.workloads.data.gaussian import build, make_templates


def test_shapes():
    batch = build(0, classes=4, image_size=16).batch(0, 5)
    assert batch.inputs.shape == (5, 3, 16, 16)
    assert batch.targets.shape == (5,)


@pytest.mark.parametrize(("classes", "size"), [(10, 32), (15, 4)])
def test_templates_are_orthogonal_of_norm_one_and_mean_zero(classes, size):
    templates = make_templates(classes, size).reshape(classes, -1)
    np.testing.assert_allclose(templates @ templates.T, np.eye(classes), atol=1e-12)
    np.testing.assert_allclose(templates.sum(axis=1), 0, atol=1e-12)


def test_the_best_classifier_has_the_bayes_accuracy_and_the_oracle_the_floor():
    data = build(0, image_size=8)
    batches = [data.batch(index, 1000) for index in range(20)]
    right = torch.cat([data.posterior(batch.inputs).argmax(dim=1) == batch.targets for batch in batches]).double()
    accuracy = bayes_accuracy(2.5, classes=10)
    assert abs(right.mean().item() - accuracy) < 4 * math.sqrt(accuracy * (1 - accuracy) / len(right))
    losses = torch.stack([batch.oracle_loss for batch in batches]).double()
    assert abs(losses.mean().item() - data.floor) < 4 * losses.std().item() / math.sqrt(len(losses))


def test_the_floor_is_the_bayes_loss():
    assert build(0, classes=3, separation=1.5).floor == bayes_loss(1.5, classes=3)


def test_noise_has_unit_variance():
    data = build(0, image_size=8)
    batch = data.batch(0, 1000)
    noise = batch.inputs.double() - torch.from_numpy(data.templates)[batch.targets]
    assert noise.std().item() == pytest.approx(1, abs=0.01)


def test_the_oracle_is_the_exact_posterior():
    data = build(0, image_size=8)
    batch = data.batch(0, 20)
    distance = ((batch.inputs.double()[:, None] - torch.from_numpy(data.templates)) ** 2).sum(dim=(2, 3, 4))
    density = torch.exp(-distance / 2 + distance.min(dim=1, keepdim=True).values / 2)
    posterior = density / density.sum(dim=1, keepdim=True)
    expected = -posterior[torch.arange(20), batch.targets].log().mean()
    assert batch.oracle_loss.item() == pytest.approx(expected.item(), rel=1e-6)


def test_a_linear_model_learns_most_of_what_there_is():
    torch.manual_seed(0)
    data = build(0, classes=5, image_size=4)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 5))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for index in range(200):
        optimizer.zero_grad()
        batch = data.batch(index, 64)
        torch.nn.functional.cross_entropy(model(batch.inputs), batch.targets).backward()
        optimizer.step()
    batches = list(data.evaluation(256))
    with torch.no_grad():
        losses = [torch.nn.functional.cross_entropy(model(batch.inputs), batch.targets) for batch in batches]
    excess = sum(loss - batch.oracle_loss for loss, batch in zip(losses, batches, strict=True)) / len(batches)
    assert 0 < excess < (math.log(5) - data.floor) / 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"classes": 1}, "classes is 1"),
        ({"classes": 16, "image_size": 4}, "classes is 16"),
        ({"separation": -1.0}, "separation is -1.0"),
        ({"separation": 11.0}, "separation is 11.0"),
        ({"evaluation_batches": 0}, "evaluation_batches is 0"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        build(0, **arguments)
