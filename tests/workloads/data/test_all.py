"""What holds for every data set: the contract of workloads/batch.py."""

import importlib
import inspect

import pytest
import torch

from halfscale.study.entry_points import known_names
from halfscale.workloads.registry import build_data

pytestmark = pytest.mark.parametrize("name", known_names("data"))

CHANGES = {
    "digits": {"image_size": 16},
    "markov": {
        "vocabulary": 16,
        "context": 32,
        "order": 2,
        "spread": 1.0,
        "source_seed": 1,
        "evaluation_batches": 4,
    },
    "gaussian": {"classes": 5, "separation": 2.0, "image_size": 16, "evaluation_batches": 4},
}
"""One other value of every argument."""


def same(one, other):
    return torch.equal(one.inputs, other.inputs) and torch.equal(one.targets, other.targets)


def test_batches_do_not_depend_on_what_was_asked_before(name):
    forwards, backwards = build_data(name, 0, {}), build_data(name, 0, {})
    first = [forwards.batch(index, 4) for index in range(8)]
    list(backwards.evaluation(64))
    for index in reversed(range(8)):
        batch = backwards.batch(index, 4)
        assert same(batch, first[index])
        assert batch.oracle_loss == first[index].oracle_loss


def test_asking_takes_nothing_from_torchs_own_generator(name):
    before = torch.get_rng_state()
    build_data(name, 0, {}).batch(0, 2)
    assert torch.equal(torch.get_rng_state(), before)


def test_batches_differ_by_index_and_by_seed(name):
    data = build_data(name, 0, {})
    assert not same(data.batch(0, 4), data.batch(1, 4))
    assert not same(data.batch(0, 4), build_data(name, 1, {}).batch(0, 4))


def test_held_out_samples_are_the_same_for_every_seed(name):
    one, other = (list(build_data(name, seed, {}).evaluation(64)) for seed in (0, 1))
    assert len(one) == len(other) > 0
    assert all(same(a, b) for a, b in zip(one, other, strict=True))
    assert all(len(batch.inputs) <= 64 for batch in one)


def test_held_out_samples_are_never_trained_on(name):
    data = build_data(name, 0, {})
    held_out = {row.numpy().tobytes() for batch in data.evaluation(64) for row in batch.inputs}
    training = {row.numpy().tobytes() for index in range(30) for row in data.batch(index, 64).inputs}
    assert not held_out & training


def test_the_fingerprint_is_the_sources_own(name):
    base = build_data(name, 0, {}).fingerprint
    assert build_data(name, 1, {}).fingerprint == base
    changed = [build_data(name, 0, {key: value}).fingerprint for key, value in CHANGES[name].items()]
    assert len({base, *changed}) == 1 + len(changed)


def test_every_argument_is_among_those_changes(name):
    build = importlib.import_module(f"halfscale.workloads.data.{name}").build
    assert [*inspect.signature(build).parameters] == ["seed", *CHANGES[name]]


def test_dtypes_are_those_of_the_contract(name):
    batch = build_data(name, 0, {}).batch(0, 4)
    assert batch.inputs.dtype == (torch.int64 if name == "markov" else torch.float32)
    assert batch.targets.dtype == torch.int64
    assert batch.inputs.is_contiguous()
    assert batch.targets.is_contiguous()
    if batch.oracle_loss is not None:
        assert batch.oracle_loss.dtype == torch.float32
        assert batch.oracle_loss.shape == ()
