"""Time as the device has it: host time on a CPU, events on an accelerator. The one seam between the two."""

import time
from typing import Any, Protocol

import torch

from halfscale.numerics.precision import DeviceType


class Clock(Protocol):
    """Marks moments without waiting for the device; what lies between two of them is read once all is done."""

    def mark(self) -> Any:
        """Return a mark of this moment in the device's own order of work."""
        ...

    def wait(self) -> None:
        """Wait until the device has reached every mark."""
        ...

    def seconds(self, start: Any, end: Any) -> float:
        """Return the seconds between two marks that have been waited for."""
        ...


class HostClock:
    """On a CPU work is done when its call returns."""

    def mark(self) -> int:
        return time.perf_counter_ns()

    def wait(self) -> None:
        pass

    def seconds(self, start: int, end: int) -> float:
        return (end - start) / 1e9


class EventClock:
    """On an accelerator an event is put in line behind the work, and the device notes when it comes to it."""

    def mark(self) -> torch.Event:
        event = torch.Event(enable_timing=True)
        event.record()
        return event

    def wait(self) -> None:
        torch.accelerator.synchronize()

    def seconds(self, start: torch.Event, end: torch.Event) -> float:
        return start.elapsed_time(end) / 1e3  # elapsed_time is in milliseconds


def make_clock(device: DeviceType) -> Clock:
    """Return the clock of a device."""
    return HostClock() if device == "cpu" else EventClock()
