"""What the data sheets say of accelerators: dense peak rates, memory bandwidth and size.

Rates are dense: data sheets since Hopper print those with structured sparsity, twice as high. Sources: H100, H200 and
B200 from glennklockwood.com/garden/processors; A100 from the compute/accelerator tables of stas00/ml-engineering (whose
FP8 row for it is wrong, it has none) and from pytorch/torchtitan, torchtitan/tools/utils.py; RTX 4090 from
waredb.com; V100 from NVIDIA's data sheet; L2 sizes from PMC10448217, table 3. The L2 sizes of H200 and B200 are from
memory, and nothing is computed from them. Memory: the total that PyTorch's out-of-memory messages give ("has a total
capacity of"), as public issue threads quote them: a little less than as many GiB as the data sheet has GB. RTX 4090: FP16
with FP32 accumulation, which is what training uses; with FP16 accumulation it is twice that.
"""

from dataclasses import dataclass
from typing import Literal

Format = Literal["fp32", "tf32", "fp16", "bf16", "fp8"]


@dataclass(frozen=True)
class Device:
    """A device by its data sheet."""

    name: str
    tflops: dict[Format, float]
    """Dense peak by format, 10^12 FLOP/s; a format that it has no units for is not there."""
    bandwidth: float
    """Memory bandwidth, 10^12 bytes/s."""
    memory: float
    """Memory that torch finds, GiB."""
    l2: float
    """Second-level cache, 10^6 bytes."""
    reported: tuple[str, ...]
    """What torch.cuda.get_device_name says contains one of these."""

    def ridge(self, of: Format) -> float:
        """Return the FLOP/byte above which a format is bound by its units and not by memory."""
        return self.tflops[of] / self.bandwidth


def rates(fp32: float, tf32: float, fp16: float, bf16: float, fp8: float) -> dict[Format, float]:
    """Return the formats that a device has; 0 stands for one that it has not."""
    given: dict[Format, float] = {"fp32": fp32, "tf32": tf32, "fp16": fp16, "bf16": bf16, "fp8": fp8}
    return {name: rate for name, rate in given.items() if rate}


DEVICES = (
    Device("V100", rates(15.7, 0, 125, 0, 0), 0.90, 15.77, 6, ("V100-SXM2-16GB", "V100-SXM2-32GB")),
    Device("A100", rates(19.5, 156, 312, 312, 0), 2.04, 79.15, 40, ("A100-SXM4-80GB", "A100-SXM-80GB")),
    Device("H100", rates(67, 494.7, 989.4, 989.4, 1979), 3.35, 79.19, 50, ("H100 80GB HBM3",)),
    Device("H200", rates(67, 494.7, 989.4, 989.4, 1979), 4.8, 139.80, 50, ("H200",)),
    Device("B200", rates(80, 1100, 2250, 2250, 4500), 8.0, 178.35, 126, ("B200",)),
    Device("RTX 4090", rates(82.6, 82.6, 165.2, 165.2, 330.3), 1.01, 23.64, 72, ("GeForce RTX 4090",)),
)
"""SXM modules, and one card for desktops. V100 also comes with 32 GB, B200 with up to 192."""

OTHER_SHAPES = ("NVL", "PCIe", "Laptop", "RTX 4090 D", "GH200", "GB200", "MIG")
"""Parts of the names of devices that share a name with one above and not its rates."""


def find_device(reported: str) -> Device | None:
    """Return the device that torch reports by this name, such as "NVIDIA H100 80GB HBM3"; None if it is not listed."""
    if any(shape in reported for shape in OTHER_SHAPES):
        return None
    return next((device for device in DEVICES if any(part in reported for part in device.reported)), None)
