"""Windows of curves whose ends, plateau and breaks are known."""

import pandas as pd
import pytest
from made_up_gradients import make_gradients, rows

from halfscale.analysis.windows import common_window, crossover, is_noise, layer_windows, window_of


@pytest.fixture
def gradients() -> pd.DataFrame:
    return make_gradients()


def curve(gradients: pd.DataFrame, step: int) -> pd.DataFrame:
    own = (gradients["step"] == step) & (gradients["parameter"] == "") & (gradients["precision"] == "fp16")
    return gradients[own]


def curve_of(errors: list[float | None]) -> pd.DataFrame:
    """Return the FP16 rows of a gradient with these errors at scales 2^0, 2^1 and so on; None is an overflow."""
    return pd.DataFrame(
        {"exponent": range(len(errors)), "overflow": [error is None for error in errors], "error": errors}
    ).astype({"error": float})


def test_a_window_reaches_from_as_good_as_it_gets_to_the_last_finite_scale(gradients: pd.DataFrame) -> None:
    assert window_of(curve(gradients, 0)) == (0.01, 0, 16, False, False)
    assert window_of(curve(gradients, 10)) == (0.01, 8, 12, False, False)


def test_a_gradient_that_is_never_finite_has_no_window(gradients: pd.DataFrame) -> None:
    never = curve(gradients, 0).assign(overflow=True, error=None)
    assert window_of(never) == (None, None, None, False, False)


def test_a_lucky_minimum_where_elements_underflow_is_not_the_plateau() -> None:
    """The error is the same at all scales from 2^3 on; at 2^1 it is 4.7 times smaller by luck."""
    assert window_of(curve_of([1.0, 0.0068, 0.5, 0.032, 0.032, 0.032, None])) == (0.032, 3, 5, False, False)


def test_a_window_ends_at_its_first_break() -> None:
    """2^0 and 2^1 err as little as the plateau, but 2^2 in between does not: they are no part of the window."""
    assert window_of(curve_of([0.01, 0.0109, 0.02, 0.0109, 0.01, None])) == (0.01, 3, 4, False, False)
    assert window_of(curve_of([0.01, None, 0.01, 0.01, None])) == (0.01, 2, 3, False, False)


@pytest.mark.parametrize(
    ("errors", "low", "high", "low_open", "high_open"),
    [
        ([0.01, 0.01, None], 0, 1, True, False),
        ([1.0, 0.01, 0.01], 1, 2, False, True),
        ([0.01, 0.01, 0.01], 0, 2, True, True),
        ([0.5, 0.01, None], 1, 1, False, False),
    ],
)
def test_an_end_that_is_the_last_scale_that_was_tried_is_open(
    errors: list[float | None], low: int, high: int, low_open: bool, high_open: bool
) -> None:
    shuffled = curve_of(errors).iloc[::-1]  # scales between two others come last in the records
    assert window_of(shuffled) == (0.01, low, high, low_open, high_open)


@pytest.mark.parametrize(
    ("errors", "bf16_error", "noise"),
    [
        ([1.0, 20.0, 30.0], 200.0, True),
        ([1.0, 1.0, 1.0], 0.1, False),  # flushed: FP16 loses what BF16 keeps
        ([1.0, 20.0, 30.0], None, False),  # no BF16 on this device: not known
        ([None, None], 2.0, False),  # overflows at every scale
        ([1.0, 0.5, 0.3], 1.2, False),
    ],
)
def test_noise_is_what_neither_format_gives_better_than_zeros_would(
    errors: list[float | None], bf16_error: float | None, noise: bool
) -> None:
    window = window_of(curve_of(errors))
    assert is_noise(window, bf16_error) == noise
    assert (window.low is None) == (errors[-1] is None or errors[-1] >= 1)


def layers_of(*parameters: pd.DataFrame) -> pd.DataFrame:
    return layer_windows(pd.concat(parameters, ignore_index=True).astype({"exponent": "Int64"}))


def parameter(name: str, low: int, high: int, bf16_error: float = 0.08, **fp16: object) -> pd.DataFrame:
    """Return a parameter's gradients in every format, with some columns of its FP16 rows changed."""
    made = pd.DataFrame(rows(0, name, low, high))
    made.loc[made["precision"] == "bf16", "error"] = bf16_error
    for column, value in fp16.items():
        made.loc[made["precision"] == "fp16", column] = value
    return made


def test_noise_takes_no_part_in_the_common_window() -> None:
    noise = parameter("noise", 0, 24, bf16_error=9.0, error=4.0)
    layers = layers_of(parameter("a", 4, 16), parameter("b", 0, 12), noise)
    assert layers["noise"].tolist() == [False, False, True]
    assert pd.isna(layers["low"].iloc[2])
    assert common_window(layers) == (4, 12, False, False, 1, 0)


@pytest.mark.parametrize(
    "bad",
    [{"overflow": True, "error": float("nan")}, {"error": 1.0}],
    ids=["finite at no scale", "flushed at all"],
)
def test_a_parameter_without_a_window_leaves_none_in_common(bad: dict[str, object]) -> None:
    layers = layers_of(parameter("a", 4, 16), parameter("bad", 0, 12, **bad))  # type: ignore[arg-type]
    assert common_window(layers) == (None, None, False, False, 0, 1)


def test_the_common_window_is_open_where_all_are() -> None:
    assert common_window(layers_of(parameter("a", -4, 24), parameter("b", -4, 24))) == (-4, 24, True, True, 0, 0)
    assert common_window(layers_of(parameter("a", -4, 24), parameter("b", 0, 16))) == (0, 16, False, False, 0, 0)


@pytest.mark.parametrize(
    ("bf16_error", "exponent"),
    [(0.08, 0), (0.16, -4), (0.159, 0), (0.005, None), (None, None), (1.0, -4)],
)
def test_the_crossover_is_where_fp16_is_no_worse_from_there_on(
    gradients: pd.DataFrame, bf16_error: float | None, exponent: int | None
) -> None:
    assert crossover(curve(gradients, 0), bf16_error) == exponent
