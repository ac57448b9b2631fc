"""Loss scaling by torch's own GradScaler, and what can be read from it without waiting for the device."""

from torch import Tensor
from torch.amp import GradScaler
from torch.optim import Optimizer

from halfscale.study.arm import DynamicLossScaling, NoLossScaling, StaticLossScaling


class StaticGradScaler(GradScaler):
    """A GradScaler that keeps one scale. It still finds overflow and skips that step.

    GradScaler itself cannot do this: it refuses growth_factor 1 and always backs off.
    """

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Clear this step's overflow state and leave the scale as it is."""
        super().update(self._init_scale if new_scale is None else new_scale)


def make_scaler(scaling: DynamicLossScaling | StaticLossScaling | NoLossScaling, device_type: str) -> GradScaler:
    """Return a scaler for these settings; for `none` a disabled one, whose every call passes through.

    Raises:
        RuntimeError: the scaler disabled itself, so that the run would not be what its label says.
    """
    match scaling:
        case NoLossScaling():
            return GradScaler(device_type, enabled=False)
        case StaticLossScaling():
            scaler: GradScaler = StaticGradScaler(device_type, init_scale=scaling.scale)
        case DynamicLossScaling():
            scaler = GradScaler(
                device_type,
                init_scale=scaling.init_scale,
                growth_factor=scaling.growth_factor,
                backoff_factor=scaling.backoff_factor,
                growth_interval=scaling.growth_interval,
            )
    if not scaler.is_enabled():
        raise RuntimeError(f"loss scaling was asked for, but GradScaler disabled itself on {device_type}")
    return scaler


def scale_tensor(scaler: GradScaler) -> Tensor:
    """Return a copy of the scale as a float32 scalar on its device. `get_scale()` would wait for the device.

    Valid once `scaler.scale` has been called.
    """
    scale = scaler._get_scale_async()
    assert scale is not None, "scaler.scale() has not been called"
    return scale.clone()


def found_inf(scaler: GradScaler, optimizer: Optimizer) -> Tensor:
    """Return the scaler's own finding for this step, a float32 scalar: 0 where all gradients were finite.

    Valid between `scaler.unscale_` and `scaler.update`, which clears it.
    """
    found = list(scaler._found_inf_per_device(optimizer).values())
    assert found, "scaler.unscale_() has not been called since the last update"
    return found[0].clone()
