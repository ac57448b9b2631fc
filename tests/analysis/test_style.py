from itertools import combinations
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.font_manager import findfont

from halfscale.analysis import style
from halfscale.analysis.skips import CAUSES as SKIP_CAUSES
from halfscale.study.arm import Arm

# Colour vision deficiencies at full severity, linear RGB: Machado, Oliveira, Fernandes 2009, table 1.
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


def linear(colour):
    rgb = np.array(to_rgb(colour))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIELAB under D65 of a linear RGB colour."""
    to_xyz = np.array(
        [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
    )
    xyz = to_xyz @ np.clip(rgb, 0, 1) / np.array([0.95047, 1, 1.08883])
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), xyz * 24389 / 27 / 116 + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def difference(first, second, vision):
    """CIE 1976 colour difference; about 2 can just be seen."""
    return float(np.linalg.norm(lab(VISION[vision] @ linear(first)) - lab(VISION[vision] @ linear(second))))


def test_the_measure_of_colour_difference_is_right():
    assert lab(linear("white")) == pytest.approx([100, 0, 0], abs=0.02)
    assert lab(linear("red")) == pytest.approx([53.24, 80.09, 67.20], abs=0.02)
    assert difference("red", "#6d5c00", "protanopia") < difference("red", "#6d5c00", "normal") / 3


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("shade", [0, 1])
def test_families_are_told_apart_by_every_kind_of_eye(vision, shade):
    colours = [shades[shade] for shades in style.FAMILIES.values()]
    assert min(difference(*pair, vision) for pair in combinations(colours, 2)) > 10


@pytest.mark.parametrize("vision", VISION)
def test_causes_are_told_apart_by_every_kind_of_eye(vision):
    colours = [colour for _, colour, _ in style.CAUSES.values()]
    assert min(difference(*pair, vision) for pair in combinations(colours, 2)) > 40


def test_every_cause_has_a_mark_of_its_own():
    assert tuple(style.CAUSES) == SKIP_CAUSES
    assert len({marker for _, _, marker in style.CAUSES.values()}) == len(SKIP_CAUSES)


@pytest.mark.parametrize("shades", style.FAMILIES.values(), ids=style.FAMILIES)
def test_arm_colours_can_be_read_as_text(shades):
    for shade in shades:
        contrast = 1.05 / (linear(shade) @ [0.2126, 0.7152, 0.0722] + 0.05)
        assert contrast > 3, "WCAG 2.1 asks for 3:1 of graphics and large text"


def arm(name, precision="fp16", **loss_scaling):
    return Arm.model_validate({"name": name, "precision": precision, "loss_scaling": loss_scaling or None})


def test_hue_is_by_precision_and_loss_scaling():
    arms = [
        arm("a", "fp32"),
        arm("b", "bf16"),
        arm("c"),
        arm("d", kind="static", scale=1024.0),
        arm("e", kind="none"),
        arm("f", "bf16", kind="dynamic", always=True),
        arm("g"),
    ]
    assert [style.family(one) for one in arms] == [
        "fp32", "bf16", "fp16 dynamic", "fp16 static", "fp16 none", "bf16", "fp16 dynamic"
    ]  # fmt: skip
    colours = style.arm_colours(arms)
    assert list(colours.values()).count(colours["c"]) == 1
    assert len(set(colours.values())) == 7
    assert (colours["c"], colours["g"]) == style.FAMILIES["fp16 dynamic"]
    assert (colours["b"], colours["f"]) == style.FAMILIES["bf16"]
    assert colours["a"] == style.FAMILIES["fp32"][0]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (65536.0, "$2^{16}$"),
        (1.0, "$2^{0}$"),
        (2.0**-12, "$2^{-12}$"),
        (2.0**127, "$2^{127}$"),
        (1000.0, "1000"),
        (0.3, "0.3"),
    ],
)
def test_powers_of_two_are_written_as_such(value, text):
    assert style.power_of_two(value) == text


@pytest.mark.parametrize(("value", "decimals", "text"), [(-0.25, 2, "−0.25"), (3.14159, 1, "+3.1"), (0.0, 0, "+0")])
def test_signed_numbers_have_a_true_minus(value, decimals, text):
    assert style.signed(value, decimals) == text


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("fp16", ["fp16"]),
        ("scaler_init_scale-2e24_growth_interval-5", ["scaler_init_", "scale-2e24_growth_", "interval-5"]),
        ("a-name-of-several-words", ["a-name-of-several-", "words"]),
        ("x" * 30, ["x" * 30]),
    ],
)
def test_long_names_break_where_a_reader_would(name, lines):
    assert style.wrap(name, 18).split("\n") == lines


def test_the_font_is_the_one_that_ships_with_matplotlib():
    for weight in ("normal", "bold"):
        found = findfont(mpl.font_manager.FontProperties(family=style.RC["font.family"], weight=weight))
        assert Path(found).parent == Path(mpl.get_data_path()) / "fonts" / "ttf"


def test_no_type_is_smaller_than_7_points():
    assert min(style.SMALL, style.NORMAL, style.LARGE) >= 7
    sizes = {key: size for key, size in style.RC.items() if key.endswith("size") and "major" not in key}
    assert len(sizes) == 6
    assert min(sizes.values()) >= 7


def test_small_multiples_give_each_workload_its_panels():
    figure, blocks = style.small_multiples({"a": 5, "b": 1}, columns=3, title_lines=1, ylabel="loss (nats)")
    assert [len(block.panels) for block in blocks.values()] == [5, 1]
    assert figure.get_figwidth() == style.TEXT_WIDTH
    first, *others = blocks["a"].panels
    assert all(first.get_shared_x_axes().joined(first, ax) for ax in others)
    assert all(first.get_shared_y_axes().joined(first, ax) for ax in others)
    assert not first.get_shared_x_axes().joined(first, blocks["b"].panels[0])
    assert [ax.xaxis.get_tick_params()["labelbottom"] for ax in blocks["a"].panels] == [False, False, True, True, True]
    assert [ax.yaxis.get_tick_params()["labelleft"] for ax in blocks["a"].panels] == [True, False, False, True, False]
    sizes = [ax.get_position().size * figure.get_size_inches() for block in blocks.values() for ax in block.panels]
    assert all(size == pytest.approx(sizes[0]) for size in sizes)


def test_small_multiples_make_room_for_long_titles():
    heights = [
        style.small_multiples({"a": 4}, columns=2, title_lines=lines, ylabel="")[0].get_figheight() for lines in (1, 3)
    ]
    assert heights[1] - heights[0] == pytest.approx(2 * 2 * style.LINE)  # two rows, two lines more each


def test_rows_of_arms_put_the_first_arm_on_top():
    names = {"a": ["fp32", "bf16", "fp16"], "b": []}
    colours = {"fp32": "#111111", "bf16": "#222222", "fp16": "#333333"}
    figure, panels = style.rows_of_arms(names, colours, right=1.0, sharex=False)
    labels = panels["a"].get_yticklabels()
    assert [(label.get_text(), label.get_color()) for label in labels] == list(colours.items())
    assert panels["a"].get_ylim() == (2.5, -0.5)
    assert panels["b"].get_ylim() == (0.5, -0.5)
    assert figure.get_figheight() == pytest.approx((3 + 1) * 0.2 + 2 * 0.7)


def test_rows_are_as_high_as_their_names():
    names = {"a": ["fp32", "scaler_init_scale-2e24_growth_interval-5"]}
    assert style.most_lines(names["a"], style.ROW_NAME) == 2
    figure, _ = style.rows_of_arms(names, dict.fromkeys(names["a"], "black"), right=1.0, sharex=False)
    assert figure.get_figheight() == pytest.approx(2 * 0.32 + 0.7)
