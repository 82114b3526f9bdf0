"""Clipping gradients by norm or value. Used before an optimiser's step."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import flambeau
from flambeau.core.modes.modes import deferring
from flambeau.core.operator.foreach import in_parts, pointwise_updates
from flambeau.core.tensor.tensor import Tensor
from flambeau.ir import scalar


def _as_list(tensors: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _gradients(parameters: list[Tensor]) -> list[Tensor]:
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def _plain(gradients: list[Tensor]) -> bool:
    """Whether these are tensors of real numbers, several and of no class that answers itself, and nobody has calls put off, who
    is to see one for each: one call changes all.
    """
    if len(gradients) < 2 or deferring:
        return False
    return all(x.__class__ is Tensor and x._layout.dtype.is_floating_point for x in gradients)


def _alike(tensors: list[Tensor]) -> bool:
    """Whether these are plain tensors of one dtype."""
    return all(x.__class__ is Tensor and x.dtype == tensors[0].dtype for x in tensors)


def _scaled(gradient, coefficient):
    return (gradient * coefficient,)


def _clamped(gradient, low, high):
    return (scalar.clamp(gradient, low, high),)


def get_total_norm(
    tensors: Tensor | Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The norm of all tensors as one vector: the norm of their norms. A scalar tensor."""
    with flambeau.no_grad():
        tensors = _as_list(tensors)
        norm_type = float(norm_type)
        if not tensors:
            return flambeau.tensor(0.0)
        norms = [flambeau.linalg.vector_norm(tensor, norm_type) for tensor in tensors]
        device = tensors[0].device
        total = flambeau.linalg.vector_norm(flambeau.stack([norm.to(device) for norm in norms]), norm_type)
        if error_if_nonfinite and bool(flambeau.logical_or(total.isnan(), total.isinf())):
            raise RuntimeError(
                f"The total norm of order {norm_type} for gradients from "
                "`parameters` is non-finite, so it cannot be clipped. To disable "
                "this error and scale the gradients by the non-finite norm anyway, "
                "set `error_if_nonfinite=False`"
            )
        return total


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale every gradient by max_norm / total_norm where that is below 1."""
    with flambeau.no_grad():
        gradients = _gradients(_as_list(parameters))
        if not gradients:
            return
        # Multiplying by a clamped coefficient of 1 avoids a look at the value (which would wait for a device).
        coefficient = flambeau.clamp(float(max_norm) / (total_norm + 1e-6), max=1.0)
        if _plain(gradients) and {gradient.dtype for gradient in gradients} == {coefficient.dtype}:
            pointwise_updates(_scaled, [((gradient,), (coefficient,)) for gradient in gradients], {}, {})
            return
        rows = None if deferring else in_parts([((gradient,), (coefficient,)) for gradient in gradients])
        if rows is not None and _alike([tensor for row in rows for each in row for tensor in each]):
            pointwise_updates(_scaled, rows, {}, {})
            return
        for gradient in gradients:
            gradient.mul_(coefficient.to(gradient.device))


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients in place so that their total norm is at most max_norm; returns the norm before."""
    if not isinstance(parameters, Tensor):
        is_generator = not hasattr(parameters, "__len__")
        parameters = list(parameters)
        if is_generator and not parameters:
            warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2)
    parameters = _as_list(parameters)
    max_norm = float(max_norm)
    total = get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Deprecated name of `clip_grad_norm_`."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Clamp every gradient in place to [-clip_value, clip_value]."""
    clip_value = float(clip_value)
    with flambeau.no_grad():
        gradients = _gradients(_as_list(parameters))
        if _plain(gradients):
            bounds = {"low": -clip_value, "high": clip_value}
            pointwise_updates(_clamped, [((gradient,), ()) for gradient in gradients], bounds, {})
            return
        for gradient in gradients:
            gradient.clamp_(min=-clip_value, max=clip_value)
