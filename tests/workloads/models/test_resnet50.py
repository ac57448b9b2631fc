import torch
from torch.nn import functional

from halfscale.workloads.models.resnet50 import build


def test_parameters_of_the_published_model():
    with torch.device("meta"):
        model = build(num_classes=1000)
    assert sum(parameter.numel() for parameter in model.parameters()) == 25_557_032


def test_every_parameter_gets_a_finite_gradient():
    torch.manual_seed(0)
    model = build()
    logits = model(torch.randn(2, 3, 32, 32))
    assert logits.shape == (2, 10)
    functional.cross_entropy(logits, torch.tensor([3, 7])).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


def test_residual_branches_start_at_zero_only_when_asked():
    assert (build(zero_init_residual=True).layer1[0].bn3.weight == 0).all()
    assert (build(zero_init_residual=False).layer1[0].bn3.weight == 1).all()
