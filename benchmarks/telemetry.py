"""What the telemetry costs: a ResNet-50 step with it and without it.

    python benchmarks/telemetry.py [rounds] [arm]

It is to stay under 2 % of the step.
"""

import sys

from interleave import interleave, report

from halfscale.instruments import train
from halfscale.study.choose import choose_run


class NoTelemetry:
    """Takes every step in and keeps nothing."""

    def record(self, step: object) -> bool:
        return False


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    arm = sys.argv[2] if len(sys.argv) > 2 else "fp16"
    spec = choose_run(["config/config.yaml"], "resnet50", arm, seed=0)
    measured = {"total_norm": train.total_norm, "largest": train.largest}
    monitored, bare = train.prepare(spec), train.prepare(spec)
    bare.telemetry = NoTelemetry()  # type: ignore[assignment]

    def step_without(number: int) -> None:
        for name in measured:
            setattr(train, name, lambda gradients: None)
        train.take_step(bare, number)

    def step_with(number: int) -> None:
        for name, function in measured.items():
            setattr(train, name, function)
        if train.take_step(monitored, number):
            monitored.telemetry.fetch()

    report(f"resnet50, {arm}, one step", interleave({"telemetry off": step_without, "telemetry on": step_with}, rounds))


if __name__ == "__main__":
    main()
