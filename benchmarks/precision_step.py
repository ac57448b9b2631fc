"""A training step of each default workload on this CPU: FP32, then BF16 and FP16 by the upcast backend and by native kernels.

    python benchmarks/precision_step.py [rounds]

At batch 16 the upcast backend is to cost at most 1.5 times FP32 for ResNet-50 and 1.3 times for the transformer.
"""

import sys

from interleave import interleave, report

from halfscale.instruments.run import Run, prepare
from halfscale.instruments.train import take_step
from halfscale.study.choose import choose_run

BATCH_SIZE = 16
"""Whatever the study has: the targets are for this one."""


def stepper(run: Run) -> object:
    def step(number: int) -> None:
        if take_step(run, number):
            run.telemetry.fetch()

    return step


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    for workload in ("resnet50", "transformer"):
        variants = {}
        for name, arm, backend in (
            ("fp32", "fp32", "native"),
            ("bf16 upcast", "bf16", "upcast"),
            ("bf16 native", "bf16", "native"),
            ("fp16 upcast", "fp16", "upcast"),
            ("fp16 native", "fp16", "native"),
        ):
            spec = choose_run(["config/config.yaml"], workload, arm, seed=None)
            variants[name] = stepper(prepare(spec.model_copy(update={"backend": backend, "batch_size": BATCH_SIZE})))
        report(f"{workload}, one step", interleave(variants, rounds))


if __name__ == "__main__":
    main()
