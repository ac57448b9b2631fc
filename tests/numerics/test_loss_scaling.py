"""GradScaler's automaton and its equilibrium, against their closed forms."""

import itertools
import math
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn
from torch.amp import GradScaler

from halfscale.numerics.loss_scaling import found_inf, make_scaler, scale_tensor
from halfscale.study.arm import DynamicLossScaling, NoLossScaling, StaticLossScaling


def automaton(overflows: Callable[[float, int], bool], settings: DynamicLossScaling, steps: int) -> Iterator[float]:
    """The scale after each step, by the rule itself and not by torch."""
    scale, clean = settings.init_scale, 0
    for step in range(steps):
        if overflows(scale, step):
            scale, clean = scale * settings.backoff_factor, 0
        else:
            clean += 1
            if clean == settings.growth_interval:
                scale, clean = scale * settings.growth_factor, 0
        yield scale


def run_torch(scaler: GradScaler, gradient: Callable[[int], float], steps: int) -> tuple[list[float], list[bool], int]:
    """Scales after each step, overflow by step, and updates applied, for a parameter with a given scaled gradient."""
    weight = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    updates = []
    optimizer.register_step_post_hook(lambda *_: updates.append(1))
    scales, overflow = [], []
    for step in range(steps):
        scaler.scale(weight.sum()).backward()
        weight.grad = torch.full((1,), gradient(step))
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        overflow.append(bool(found_inf(scaler, optimizer)))
        scaler.update()
        scales.append(scale_tensor(scaler).item())
    return scales, overflow, len(updates)


def test_overflow_at_given_steps_moves_the_scale_by_the_book() -> None:
    scaler = make_scaler(DynamicLossScaling(kind="dynamic", init_scale=1024, growth_interval=4), "cpu")
    scales, overflow, updates = run_torch(scaler, lambda step: math.inf if step in (3, 9) else 0.0, 20)
    assert scales == [1024.0] * 3 + [512.0] * 4 + [1024.0] * 2 + [512.0] * 4 + [1024.0] * 4 + [2048.0] * 3
    assert (sum(overflow), updates) == (2, 18)


def test_the_scale_is_capped_where_fp32_ends() -> None:
    scaler = make_scaler(DynamicLossScaling(kind="dynamic", init_scale=2.0**126, growth_interval=1), "cpu")
    scales, overflow, _ = run_torch(scaler, lambda step: 0.0, 5)
    assert scales == [2.0**127] * 5
    assert not any(overflow)


@pytest.mark.parametrize("factor", [1.0, 2.0**-3, 2.0**5])
def test_a_unit_gradient_net_follows_the_automaton(factor: float) -> None:
    """Linear(1, 1) at input 1 with loss factor x output overflows exactly where scale x factor >= 65520."""
    settings = DynamicLossScaling(kind="dynamic", growth_interval=7)
    scaler = make_scaler(settings, "cpu")
    net = nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    scales = []
    for _ in range(200):
        with torch.autocast("cpu", dtype=torch.float16):
            output = net(torch.ones(1, 1))
        scaler.scale(factor * output.float().sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        scales.append(scale_tensor(scaler).item())
    assert scales == list(automaton(lambda scale, _: scale * factor >= 65520, settings, 200))
    if factor == 1.0:  # the default 2^16 overflows at once, and 2^15 is the largest that does not
        assert scales[0] == 2.0**15
        assert max(scales[1:]) == 2.0**16


@pytest.mark.parametrize("interval", [5, 20, 100])
def test_a_sharp_threshold_skips_one_step_in_interval_plus_one(interval: int) -> None:
    settings = DynamicLossScaling(kind="dynamic", growth_interval=interval)
    steps = 50 * (interval + 1)
    skipped, scale = 0, settings.init_scale
    for after in automaton(lambda scale, _: scale >= 2.0**16, settings, steps):
        skipped += after < scale
        scale = after
    assert skipped / steps == 1 / (interval + 1)


def test_equilibrium_of_general_factors() -> None:
    """Growths and backoffs cancel: skips p and growths q obey q ln(gf) = p ln(1/bf), and p <= 1/(1 + beta N)."""
    settings = DynamicLossScaling(kind="dynamic", growth_factor=2.0, backoff_factor=0.25, growth_interval=10)
    beta = math.log(1 / settings.backoff_factor) / math.log(settings.growth_factor)
    steps = 21 * 400
    scales = [settings.init_scale, *automaton(lambda scale, _: scale >= 2.0**16, settings, steps)]
    skipped = sum(after < before for before, after in itertools.pairwise(scales))
    growths = sum(after > before for before, after in itertools.pairwise(scales))
    assert growths == pytest.approx(beta * skipped, abs=beta)
    assert skipped / steps == pytest.approx(1 / (1 + beta * settings.growth_interval), rel=1e-2)


def test_noisy_gradients_skip_between_the_two_bounds() -> None:
    """The mean-field rate 1 - 2^(-1/N) from below and the sharp threshold's 1/(N + 1) from above."""
    settings = DynamicLossScaling(kind="dynamic", growth_interval=20)
    noise = torch.randn(40_000, generator=torch.Generator().manual_seed(0)).tolist()
    scales = [2.0**15, *automaton(lambda scale, step: scale * 2 ** noise[step] >= 2.0**16, settings, 40_000)]
    skipped = sum(after < before for before, after in itertools.pairwise(scales))
    assert 1 - 2 ** (-1 / 20) <= skipped / 40_000 <= 1 / 21


def test_a_static_scale_stays_and_still_finds_overflow() -> None:
    scaler = make_scaler(StaticLossScaling(kind="static", scale=1024.0), "cpu")
    scales, overflow, updates = run_torch(scaler, lambda step: math.inf if step == 3 else 1.0, 3000)
    assert set(scales) == {1024.0}
    assert overflow == [step == 3 for step in range(3000)]
    assert updates == 2999


def test_none_passes_everything_through() -> None:
    scaler = make_scaler(NoLossScaling(kind="none"), "cpu")
    assert not scaler.is_enabled()
    loss = torch.tensor(3.0)
    assert scaler.scale(loss) is loss


def test_a_scaler_that_disabled_itself_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GradScaler, "is_enabled", lambda self: False)
    with pytest.raises(RuntimeError, match="disabled itself"):
        make_scaler(DynamicLossScaling(kind="dynamic"), "cpu")


def test_overflow_is_the_scalers_own_finding_even_where_the_scale_does_not_move() -> None:
    """Backing off from zero changes nothing, and yet the step overflowed."""
    scaler = make_scaler(DynamicLossScaling(kind="dynamic", init_scale=2.0**-126), "cpu")
    scales, overflow, updates = run_torch(scaler, lambda step: math.inf, 30)
    assert scales[-2:] == [0.0, 0.0]
    assert overflow == [True] * 30
    assert updates == 0
