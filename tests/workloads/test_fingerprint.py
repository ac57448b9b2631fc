import numpy as np

from halfscale.workloads.fingerprint import fingerprint


def test_the_last_bits_of_a_number_do_not_count():
    numbers = np.array([0.1, 0.7])
    assert fingerprint("a", {}, numbers) == fingerprint("a", {}, np.nextafter(numbers, 1))


def test_source_arguments_and_numbers_count():
    base = fingerprint("a", {"n": 1}, np.array([0.1]))
    others = [
        fingerprint("b", {"n": 1}, np.array([0.1])),
        fingerprint("a", {"n": 2}, np.array([0.1])),
        fingerprint("a", {"n": 1}, np.array([0.1001])),
    ]
    assert base not in others


def test_the_order_of_arguments_does_not_count():
    assert fingerprint("a", {"m": 1, "n": 2}) == fingerprint("a", {"n": 2, "m": 1})
