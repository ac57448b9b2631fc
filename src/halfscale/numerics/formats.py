"""Binary floating-point formats, each derived from its two bit counts (IEEE 754-2019, section 3)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
    """A binary floating-point format with subnormal numbers, rounded to nearest, ties to even."""

    name: str
    exponent_bits: int
    mantissa_bits: int
    """Stored bits of the significand, the implicit leading one not counted."""
    has_infinity: bool = True
    """False for OCP E4M3, which spends all but one pattern of its top binade on numbers (OCP OFP8, section 5.2)."""

    @property
    def bias(self) -> int:
        return 2 ** (self.exponent_bits - 1) - 1

    @property
    def epsilon(self) -> float:
        """Gap between 1 and the next larger number."""
        return 2.0**-self.mantissa_bits

    @property
    def unit_roundoff(self) -> float:
        """Largest relative error of rounding a number in the normal range: half of epsilon."""
        return self.epsilon / 2

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    @property
    def smallest_subnormal(self) -> float:
        """Half of it, and all that is smaller, rounds to zero."""
        return self.smallest_normal * self.epsilon

    @property
    def largest(self) -> float:
        """Largest finite number."""
        if self.has_infinity:
            return 2.0**self.bias * (2 - self.epsilon)
        return 2.0 ** (self.bias + 1) * (2 - 2 * self.epsilon)

    @property
    def overflow_threshold(self) -> float | None:
        """Smallest magnitude that rounds to infinity; None where there is no infinity to round to."""
        return 2.0**self.bias * (2 - self.unit_roundoff) if self.has_infinity else None


FP32 = Format("fp32", exponent_bits=8, mantissa_bits=23)
TF32 = Format("tf32", exponent_bits=8, mantissa_bits=10)
FP16 = Format("fp16", exponent_bits=5, mantissa_bits=10)
BF16 = Format("bf16", exponent_bits=8, mantissa_bits=7)
FP8_E4M3 = Format("fp8-e4m3", exponent_bits=4, mantissa_bits=3, has_infinity=False)
FP8_E5M2 = Format("fp8-e5m2", exponent_bits=5, mantissa_bits=2)

FORMATS = (FP32, TF32, FP16, BF16, FP8_E4M3, FP8_E5M2)
