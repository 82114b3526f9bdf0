"""torch._amp_foreach_non_finite_check_and_unscale_ and torch._amp_update_scale_: the two steps of a gradient scaler, which
trainers with scalers of their own call. Loaded when a program asks for one of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from flambeau.base.dtype import float32, int32
from flambeau.core.modes.modes import no_grad
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor

__all__ = ["_amp_foreach_non_finite_check_and_unscale_", "_amp_update_scale_"]


def _one(name: str, x: Tensor, integer: bool = False) -> None:
    if x._layout.numel != 1:
        raise RuntimeError(f"{name} must be a 1-element tensor.")
    if x._layout.dtype is not (int32 if integer else float32):
        raise RuntimeError(f"{name} must be {'an int' if integer else 'a float'} tensor.")


def _amp_foreach_non_finite_check_and_unscale_(self: Sequence[Tensor], found_inf: Tensor, inv_scale: Tensor) -> None:
    """Multiply tensors in place by inv_scale; found_inf becomes 1 if an element of them was infinite or NaN. Both are of one
    element, float32. RuntimeError otherwise, NotImplementedError for tensors that are no real floating-point ones.
    """
    _one("inv_scale", inv_scale)
    _one("found_inf", found_inf)
    with no_grad():
        for x in self:
            if not x._layout.dtype.is_floating_point:
                raise NotImplementedError(
                    f"\"_amp_foreach_non_finite_check_and_unscale_cpu\" not implemented for '{x._layout.dtype.scalar_name}'"
                )
            if not NAMESPACE["isfinite"](x).all():
                found_inf.fill_(1.0)
            x.mul_(inv_scale.to(x._layout.dtype))


def _amp_update_scale_(
    self: Tensor,
    growth_tracker: Tensor,
    found_inf: Tensor,
    scale_growth_factor: float,
    scale_backoff_factor: float,
    growth_interval: int,
) -> Tensor:
    """The scale of the next step, in place: smaller after found_inf; larger, if that is finite, after `growth_interval` steps
    without, which growth_tracker (int32) counts. All of one element. RuntimeError for other sizes and dtypes.
    """
    _one("growth_tracker", growth_tracker, integer=True)
    _one("current_scale", self)
    _one("found_inf", found_inf)
    with no_grad():
        if found_inf.item():
            self.mul_(scale_backoff_factor)
            growth_tracker.zero_()
            return self
        growth_tracker.add_(1)
        if growth_tracker.item() == growth_interval:
            grown = self * scale_growth_factor
            if math.isfinite(grown.item()):
                self.copy_(grown)
            growth_tracker.zero_()
    return self
