import importlib.machinery
import importlib.util

import pytest
import torch
from sklearn.datasets import load_digits

from halfscale.workloads.data.digits import build, read_digits


def test_they_are_scikit_learns_digits():
    images, labels = read_digits()
    expected = load_digits()
    assert (images * 16 == expected.images).all()
    assert (labels == expected.target).all()


def test_shapes():
    batch = build(0, image_size=24).batch(0, 5)
    assert batch.inputs.shape == (5, 3, 24, 24)
    assert batch.targets.shape == (5,)
    assert batch.oracle_loss is None


def test_every_fifth_image_is_held_out():
    data = build(0, image_size=8)
    labels = torch.cat([batch.targets for batch in data.evaluation(100)])
    assert len(labels) == 360
    assert labels.tolist() == load_digits().target[::5].tolist()


def test_an_epoch_shows_every_training_image_once():
    data = build(3, image_size=8)
    size = 479  # a third of the 1437 training images
    for epoch in range(2):
        batches = [data.batch(3 * epoch + index, size).inputs for index in range(3)]
        assert len({image.numpy().tobytes() for batch in batches for image in batch}) == 1437


def test_a_batch_across_the_end_of_an_epoch_drops_nothing():
    data = build(0, image_size=8)
    across = data.batch(1, 1000)
    ends = torch.cat([data.batch(0, 1437).inputs[1000:], data.batch(1, 1437).inputs[:563]])
    assert torch.equal(across.inputs, ends)


def test_a_batch_may_be_longer_than_an_epoch():
    assert build(0, image_size=8).batch(0, 3000).inputs.shape == (3000, 3, 8, 8)


def test_pixels_are_standardised():
    native = build(0, image_size=8).batch(0, 1437).inputs
    assert native.mean().item() == pytest.approx(0, abs=1e-4)
    assert native.std().item() == pytest.approx(1, abs=1e-3)
    upsampled = build(0, image_size=32).batch(0, 1437).inputs
    assert upsampled.mean().item() == pytest.approx(0, abs=0.01)
    assert upsampled.std().item() == pytest.approx(1, abs=0.25)


def test_images_smaller_than_they_are_are_refused():
    with pytest.raises(ValueError, match="image_size is 7"):
        build(0, image_size=7)


def test_a_missing_scikit_learn_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match="needs scikit-learn"):
        build(0)


def test_a_missing_file_is_named(monkeypatch, tmp_path):
    spec = importlib.machinery.ModuleSpec("sklearn", None)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(FileNotFoundError, match=r"ships no .*digits\.csv\.gz"):
        build(0)
