"""What a step that cannot be traced is told as."""

from typing import Any

import pytest

from halfscale.errors import UserError
from halfscale.instruments.trace_step import trace_step
from halfscale.study.step import Step

IMAGE = {"kind": "image", "size": 2}
TOKENS = {"kind": "tokens", "length": 16}
GPT = {"vocabulary": 8, "context": 8, "width": 8, "depth": 1, "heads": 2}


@pytest.mark.parametrize(
    ("model", "arguments", "sample", "told"),
    [
        ("transformer", GPT, TOKENS, r"the model raised ValueError: sequences of 16 tokens do not fit a context of 8"),
        ("transformer", {**GPT, "heads": 3}, TOKENS, r"model 'transformer': .* not divisible"),
        ("tiny_workloads:multiplied", {}, TOKENS, r"the model raised RuntimeError: .*"),
        (
            "tiny_workloads:cut_off_images",
            {},
            {"kind": "image", "channels": 1, "size": 2},
            r"the model's output depends on no parameter",
        ),
        ("tiny_workloads:pair", {}, {"kind": "image", "size": 4}, r"the model gives a tuple; a tensor of logits"),
        (
            "tiny_workloads:born_double",
            {},
            IMAGE,
            r"model = 'tiny_workloads:born_double': parameter weight is float64;",
        ),
        ("tiny_workloads:checkpointed", {}, IMAGE, r"bf16 at batch size 2 cannot be traced as on cuda: \w+: "),
    ],
)
def test_a_step_that_cannot_be_traced_is_told_in_one_line_with_its_case(
    model: str, arguments: dict[str, Any], sample: dict[str, Any], told: str
) -> None:
    case = {
        "name": "case",
        "model": model,
        "model_args": arguments,
        "input": sample,
        "optimizer": {"name": "sgd", "lr": 0.1},
    }
    with pytest.raises(UserError, match=f"^case: {told}") as raised:
        trace_step(Step.model_validate(case), "bf16", "cuda", 2)
    assert "\n" not in str(raised.value)
