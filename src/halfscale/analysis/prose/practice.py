"""What a practitioner should do, as it follows from the verdicts on the claims; what is open advises nothing."""

import pandas as pd

from halfscale.analysis.claims._verdict import KINDS
from halfscale.analysis.prose.words import codes

ADVICE: dict[str, dict[str, dict[str, str]]] = {
    "Which format": {
        "bf16-no-loss": {
            "supported": "Where the hardware has BF16, begin with it: it reached FP32's loss.",
            "refuted": "Do not take BF16 for FP32: hold a short run of it against FP32 in the same block before a long one.",
        },
        "bf16-no-scaling": {
            "supported": "Leave the scaler out of BF16: it changes nothing, not by a bit.",
            "refuted": "Watch the overflows and the flushed gradients of BF16 as one does in FP16.",
        },
        "fp16-needs-scaling": {
            "supported": "In FP16 scale the loss: without it training is worse.",
            "refuted": (
                "FP16 reached FP32's loss here without loss scaling. What vanished did not matter to these models; look at "
                "the gradient's exponents before relying on that with another."
            ),
        },
        "master-weights": {
            "supported": "Keep the weights in FP32: 16-bit weights swallow small updates.",
            "refuted": "16-bit weights lost few updates here; look at the share on another model before relying on it.",
        },
    },
    "The loss scale": {
        "defaults-fine": {
            "supported": r"Leave the settings of \code{GradScaler} as they are until a trace shows skipped steps beyond calibration.",
            "refuted": (
                r"Look at the skipped steps before trusting the defaults of \code{GradScaler}, and choose the growth interval for "
                "the length of the run."
            ),
        },
        "lower-init-scale": {
            "supported": "Where runs overflow again and again, begin with a lower scale.",
            "refuted": (
                "A lower initial scale spares skipped steps at the start and no others: where steps are skipped again and again, "
                "look for what makes the gradient large."
            ),
        },
        "stronger-backoff": {
            "supported": "Where overflow returns, back off by more than a half.",
            "refuted": "A stronger backoff brings the scale down sooner; it does not keep the overflow from coming back.",
        },
        "fp32-islands": {
            "supported": "Run a layer that overflows in FP32.",
            "refuted": "FP32 for single layers is no cure for a loss that is too large for all of them.",
        },
    },
    "The training loop": {
        "clip-order": {
            "supported": "Unscale before clipping: nothing warns of the wrong order.",
            "refuted": "Unscale before clipping all the same, though here the wrong order was refused or cost next to nothing.",
        },
        "forgotten-update": {
            "supported": r"Call \code{scaler.update()} in every step: without it training breaks.",
            "refuted": r"Call \code{scaler.update()} in every step all the same, though leaving it out cost next to nothing here.",
        },
        "batchnorm-safe": {
            "supported": "BatchNorm asked for no care here, after overflows in the forward pass too.",
            "refuted": (
                "With BatchNorm, check the running statistics after an overflow in the forward pass: the scaler skips the step and "
                "not what the layer has recorded, and only the evaluation shows it."
            ),
        },
        "layernorm-fp32": {
            "supported": "Leave LayerNorm and softmax to autocast.",
            "refuted": (
                "Do not carry what is known of LayerNorm and softmax from one device to another: autocast treats them "
                "differently on a CPU and on CUDA."
            ),
        },
    },
    "Memory and speed": {
        "half-memory": {
            "supported": "Plan with half the memory of FP32, at batches large enough for activations to rule it.",
            "refuted": (
                "Do not plan with half the memory: only activations shrink, and not all of them. Predict the peak for the model "
                "and the batch."
            ),
        },
        "amp-costs-memory-small-batch": {
            "supported": "At a batch of a few samples, check that mixed precision saves any memory at all.",
            "refuted": "Mixed precision did not need more memory than FP32 at the smallest batch either.",
        },
        "double-speed": {
            "supported": "On tensor cores, expect at least twice the speed of strict FP32.",
            "refuted": "Do not count on twice the speed: time it, with TF32 off in the baseline.",
        },
        "no-tensor-cores": {
            "supported": "Without tensor cores, take half precision for its memory and not for its speed.",
            "refuted": "Time BF16 on a CPU that has units for it: it can be faster than FP32.",
        },
        "half-transfer": {
            "supported": "Where the transfer is what one waits for, cast the batch on the host: autocast alone moves FP32.",
            "refuted": "Casting the batch on the host does not halve the time of the transfer.",
        },
    },
}
"""By theme and claim, what follows from its being supported or refuted."""


def practice(table: pd.DataFrame) -> str:
    """Return one paragraph a theme, and one on what is left open.

    Args:
        table: as read_claims_table gives it.
    """
    verdicts = dict(zip(table["id"], table["verdict"], strict=True))
    paragraphs = []
    for theme, advice in ADVICE.items():
        told = [told_by[verdicts[claim]] for claim, told_by in advice.items() if verdicts.get(claim) in told_by]
        if told:
            paragraphs.append(rf"\paragraph{{{theme}.}} {' '.join(told)}")
    silent = [claim for kind in KINDS[2:] for claim, verdict in verdicts.items() if verdict == kind]
    if silent:
        names = codes(silent)
        paragraphs.append(rf"\paragraph{{No advice.}} Nothing follows yet from {names}, which this study leaves open.")
    return "\n\n".join(paragraphs) + "\n"
