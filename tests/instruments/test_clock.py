"""The clock seam: host time on a CPU, events put in line on an accelerator."""

import pytest
import torch

from halfscale.instruments.clock import EventClock, HostClock, make_clock


def test_host_seconds_are_nanoseconds_apart() -> None:
    clock = HostClock()
    first, second = clock.mark(), clock.mark()
    assert second >= first
    assert clock.seconds(1_000_000_000, 3_500_000_000) == 2.5


def test_a_cpu_has_the_hosts_clock_and_cuda_the_devices() -> None:
    assert isinstance(make_clock("cpu"), HostClock)
    assert isinstance(make_clock("cuda"), EventClock)


class PretendedDevice:
    """Executes what is put in line only when it is waited for, one event in 4 ms."""

    def __init__(self) -> None:
        self.queue: list[PretendedEvent] = []
        self.waits = 0

    def event(self, *, enable_timing: bool) -> "PretendedEvent":
        assert enable_timing
        return PretendedEvent(self)

    def synchronize(self) -> None:
        self.waits += 1
        for number, event in enumerate(self.queue):
            event.reached = 4.0 * number


class PretendedEvent:
    def __init__(self, device: PretendedDevice) -> None:
        self.device = device
        self.reached: float | None = None

    def record(self) -> None:
        self.device.queue.append(self)

    def elapsed_time(self, end: "PretendedEvent") -> float:
        """Milliseconds, as torch gives them; an error before the device has come to both."""
        assert self.reached is not None, "read before it was waited for"
        assert end.reached is not None, "read before it was waited for"
        return end.reached - self.reached


def test_events_are_marked_without_waiting_and_read_after(monkeypatch: pytest.MonkeyPatch) -> None:
    device = PretendedDevice()
    monkeypatch.setattr(torch, "Event", device.event)
    monkeypatch.setattr(torch.accelerator, "synchronize", device.synchronize)
    clock = EventClock()
    start, middle, end = clock.mark(), clock.mark(), clock.mark()
    assert device.waits == 0
    clock.wait()
    assert device.waits == 1
    assert clock.seconds(start, middle) == 0.004
    assert clock.seconds(start, end) == 0.008
