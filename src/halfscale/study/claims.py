"""The thresholds by which claims about half precision are judged. Analysis alone reads them: a change trains nothing anew.

They are fixed before a study is run. What decides with them stands in halfscale.analysis.claims, a file a claim.
"""

from typing import Annotated

from pydantic import Field

from halfscale.study.model import Count, Model

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class HalfMemory(Model):
    """Of half-memory: mixed precision halves the memory of training."""

    ratio: Share = 0.5
    """Peak memory over FP32's that is claimed."""
    tolerance: NotNegative = 0.05
    """How much more is still called that."""
    cases: Count = 2
    """Least cases in which it must be so."""


class SmallBatchMemory(Model):
    """Of amp-costs-memory-small-batch: at a small batch mixed precision can need more memory than FP32."""

    batch_size: Count = 1
    """The largest batch that is called small."""
    cases: Count = 2
    """Least cases without it that refute the claim."""


class DoubleSpeed(Model):
    """Of double-speed: mixed precision doubles the speed of training on tensor cores."""

    speedup: Positive = 2.0
    """Speed over strict FP32's that is claimed."""


class NoTensorCores(Model):
    """Of no-tensor-cores: without tensor cores mixed precision is no faster."""

    tolerance: NotNegative = 0.05
    """How much faster than FP32 is still called no faster, as a share."""


class HalfTransfer(Model):
    """Of half-transfer: 16-bit batches move from host to device in half the time."""

    ratio: Share = 0.5
    """Time over that of FP32 batches that is claimed."""
    tolerance: NotNegative = 0.05
    """How much more is still called that."""


class Bf16NoScaling(Model):
    """Of bf16-no-scaling: BF16 neither underflows nor overflows, and needs no loss scaling."""

    flushed: Share = 0.001
    """Share of the gradient's elements that may be zero in BF16 and not in FP32."""


class DefaultsFine(Model):
    """Of defaults-fine: GradScaler's defaults rarely need tuning, and a growth interval of 10 costs a tenth of the steps."""

    interval: Count = 10
    """The growth interval whose cost is claimed."""
    cost: Share = 0.1
    """The share of steps that it is claimed to cost."""
    factor: Annotated[float, Field(gt=1)] = 2.0
    """From the claimed cost over this to the claimed cost times this is called about as much."""


class Remedies(Model):
    """Of lower-init-scale, stronger-backoff and fp32-islands: each cures runs in FP16 that overflow again and again."""

    skipped: Share = 0.1
    """An arm that skips more of its steps is ill; one that skips no more is cured. A diverged run skips all."""


class WrongWay(Model):
    """Of clip-order and forgotten-update: a wrong way changes training."""

    cost: NotNegative = 0.05
    """Final loss over that of the right way, nats, that is no more than a change without meaning."""


class MasterWeights(Model):
    """Of master-weights: without FP32 weights small updates are lost."""

    lost: Share = 0.05
    """Share of the updates, beyond those that are lost with FP32 weights, that must be lost."""


class Claims(Model):
    """By what claims about half precision are judged. Whatever a study measures is held against all of them."""

    blocks: Annotated[int, Field(ge=2)] = 2
    """Least blocks that a verdict rests on. What is counted exactly needs none."""
    units: Annotated[float, Field(gt=1)] = 1.5
    """A GPU is called one with tensor cores where its 16-bit matrix product is this much faster than that in FP32."""
    half_memory: HalfMemory = HalfMemory()
    """Mixed precision halves the memory of training."""
    amp_costs_memory_small_batch: SmallBatchMemory = SmallBatchMemory()
    """At a small batch mixed precision can need more memory than FP32."""
    double_speed: DoubleSpeed = DoubleSpeed()
    """Mixed precision doubles the speed of training on tensor cores."""
    no_tensor_cores: NoTensorCores = NoTensorCores()
    """Without tensor cores mixed precision is no faster."""
    half_transfer: HalfTransfer = HalfTransfer()
    """16-bit batches move from host to device in half the time."""
    bf16_no_scaling: Bf16NoScaling = Bf16NoScaling()
    """BF16 neither underflows nor overflows, and needs no loss scaling."""
    defaults_fine: DefaultsFine = DefaultsFine()
    """GradScaler's defaults rarely need tuning."""
    remedies: Remedies = Remedies()
    """What cures runs in FP16 that overflow again and again."""
    wrong_ways: WrongWay = WrongWay()
    """Clipping too early, and a forgotten update, change training."""
    master_weights: MasterWeights = MasterWeights()
    """Without FP32 weights small updates are lost."""
