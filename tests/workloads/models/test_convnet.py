import pytest
import torch

from halfscale.workloads.models.convnet import build


def test_images_of_any_size_become_logits():
    model = build(channels=4, depth=3, num_classes=7)
    for size in (8, 9, 32):
        assert model(torch.zeros(2, 3, size, size)).shape == (2, 7)


def test_parts_have_names_and_the_parameters_that_can_be_counted():
    """Convolutions 3 to 4 and 4 to 8 channels, 3x3; two normalizations; 8 to 10."""
    model = build(channels=4, depth=1)
    assert [name for name, _ in model.named_children()] == ["stem", "blocks", "head"]
    assert sum(parameter.numel() for parameter in model.parameters()) == 9 * (3 * 4 + 4 * 8) + 2 * (4 + 8) + 8 * 10 + 10


@pytest.mark.parametrize("name", ["channels", "depth", "num_classes"])
def test_a_size_of_zero_is_refused(name):
    with pytest.raises(ValueError, match=f"{name} is 0; allowed: 1 or more"):
        build(**{name: 0})
