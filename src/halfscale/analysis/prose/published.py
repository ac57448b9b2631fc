"""What others published of speed and memory, what confounds it, and how the study's own figures stand to it."""

import pandas as pd

from halfscale.analysis.prose.words import code, counted, val
from halfscale.analysis.published import own_timings

MOST = 4
"""How many of the study's own ratios are named in the text; the table has all."""


def published(table: pd.DataFrame, timed: pd.DataFrame | None) -> str:
    """Return a paragraph on the published figures.

    Args:
        table: as read_published_table gives it.
        timed: as read_throughput_table gives it; None where the study times nothing.
    """
    return " ".join([*confounds(), *baseline(table), *accuracy(), *own(timed)]) + "\n"


def confounds() -> list[str]:
    """Return what was changed along with the precision."""
    return [
        f"The gain of {key('v100-resnet50', 'ratio')} for ResNet-50 on a V100 was taken between two batch sizes and two memory "
        f"layouts, and that of {key('a100-resnet50', 'ratio')} on an A100 still between two layouts.",
        f"Layout is no detail: with the precision left alone it is worth a factor of {key('rtx3090-layout', 'ratio')} on "
        "another GPU.",
    ]


def baseline(table: pd.DataFrame) -> list[str]:
    """Return what it matters whether a baseline is FP32 or TF32."""
    sentences = [
        "Nor is it a detail what the baseline is. The same FP16 run of ConvNeXt-L is "
        f"{key('a100-convnext-fp32', 'ratio')} times as fast as FP32 and {key('a100-convnext-tf32', 'ratio')} times as "
        f"fast as TF32, and takes {key('a100-convnext-fp32', 'memory_ratio')}\\,\\% of the memory of the one and "
        f"{key('a100-convnext-tf32', 'memory_ratio')}\\,\\% of that of the other; for a bare matrix product the two ratios are "
        f"{key('a100-gemm-fp32', 'ratio')} and {key('a100-gemm-tf32', 'ratio')}."
    ]
    h200 = table[table["key"] == "h200-resnet50"].iloc[0]
    if pd.notna(h200["bound_fp32"]) and pd.notna(h200["bound_tf32"]):
        sentences.append(
            f"On an H200, ResNet-50 is reported to gain {key('h200-resnet50', 'ratio')} times over FP32, where the data "
            f"sheet allows {key('h200-resnet50', 'bound_fp32')} over FP32 and {key('h200-resnet50', 'bound_tf32')} over TF32: "
            "a baseline in TF32, which is what PyTorch computes convolutions in unless it is told not to, would explain most "
            "of the distance."
        )
    return sentences


def accuracy() -> list[str]:
    """Return what was published of accuracy and of the scaler's own cost."""
    return [
        f"Of accuracy, \\citet{{dle}} report for ResNet-50 {plus_minus('half')} per cent top-1 under AMP and "
        f"{plus_minus('baseline')} under TF32, a difference within the spread of either, with no test of equivalence.",
        "Of what the scaler itself costs we know of one public figure, a change of "
        f"{key('scaler-cost', 'half')}\\,\\% in throughput \\citep{{paddle}}.",
    ]


def own(timed: pd.DataFrame | None) -> list[str]:
    """Return how the study's own timings are to be read beside them."""
    pairs = [] if timed is None else list(own_timings(timed))
    if not pairs:
        return ["This study has no speed-up of its own to set beside them."]
    told = [
        f"{val('throughput', str(row['workload']), str(row['variant']), 'speedup')} for {str(row['precision']).upper()} on "
        f"{code(str(row['workload']))}"
        for row, _ in pairs[:MOST]
    ]
    rest = f", and {counted(len(pairs) - MOST, 'other')}" if len(pairs) > MOST else ""
    noun = "ratio is" if len(pairs) == 1 else "ratios are"
    return [
        f"Our own {noun} {', '.join(told)}{rest}: taken on another device and at another size, and so no check of the published "
        "ones, but with nothing changed except the precision and with an interval each."
    ]


def key(figure: str, name: str) -> str:
    return val("published", figure, name)


def plus_minus(which: str) -> str:
    figure = "a100-resnet50-top1"
    return f"{key(figure, which)} $\\pm$ {key(figure, f'{which}_spread')}"
