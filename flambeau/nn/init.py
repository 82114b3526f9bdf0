"""Initialisers: functions that fill a tensor in place, without recording, and return it.

Stands on Tensor methods (`uniform_`, `normal_`, `fill_`, ...) and `no_grad`, so that the values follow from the streams
of the generator; used by the modules' `reset_parameters` and by user code. Every function takes `generator=None`, which
means the default generator, where it draws.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, Literal

import flambeau
from flambeau.base.tracebacks import api_boundary
from flambeau.base.warn import deprecated
from flambeau.core.tensor.tensor import Tensor
from flambeau.core.tensor.without_data import known

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]  # fmt: skip

_FanMode = Literal["fan_in", "fan_out"]
_UNIT_GAIN = frozenset(
    ["linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "sigmoid"]
)


# ---- scales ---------------------------------------------------------------------------------------------------------


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps the variance of a layer's output through a nonlinearity.

    1 for linear, the convolutions and sigmoid, 5/3 for tanh, sqrt(2) for relu, sqrt(2 / (1 + slope^2)) for leaky_relu
    (`param` is the slope, 0.01 by default), 3/4 for selu. ValueError for any other name and for a slope that is no
    number."""
    if nonlinearity in _UNIT_GAIN:
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        if param is None:
            param = 0.01
        elif isinstance(param, bool) or not isinstance(param, int | float):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + param**2))
    if nonlinearity == "selu":
        return 3.0 / 4  # empirical
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


@api_boundary
def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs an output depends on, and how many outputs an input reaches, for a weight (out, in, *kernel)."""
    shape = tensor.shape
    if len(shape) < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


def _calculate_correct_fan(tensor: Tensor, mode: _FanMode) -> int:
    """The fan that `mode` ("fan_in" or "fan_out", in any case) names. ValueError for another mode."""
    name = mode.lower()
    modes = ["fan_in", "fan_out"]
    if name not in modes:
        raise ValueError(f"Mode {name} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(name)]


# ---- plain fills ----------------------------------------------------------------------------------------------------


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with samples of the uniform distribution on [a, b)."""
    with flambeau.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with samples of the normal distribution."""
    with flambeau.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one value."""
    with flambeau.no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with 1."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with 0."""
    with flambeau.no_grad():
        return tensor.zero_()


def _no_grad_uniform_(tensor: Tensor, a: float, b: float, generator: Any = None) -> Tensor:
    """uniform_ under its older name, which libraries use."""
    return uniform_(tensor, a, b, generator)


def _no_grad_normal_(tensor: Tensor, mean: float, std: float, generator: Any = None) -> Tensor:
    """normal_ under its older name."""
    return normal_(tensor, mean, std, generator)


def _no_grad_fill_(tensor: Tensor, val: float) -> Tensor:
    """constant_ under its older name."""
    return constant_(tensor, val)


def _no_grad_zero_(tensor: Tensor) -> Tensor:
    """zeros_ under its older name."""
    return zeros_(tensor)


def _normal_probability(low: float, high: float) -> float:
    """The weight of the standard normal distribution between two bounds."""
    return (math.erf(high / math.sqrt(2.0)) - math.erf(low / math.sqrt(2.0))) / 2.0


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Tensor:
    """Fill with samples of the normal distribution that fall in [a, b]; a and b are values, not multiples of std.

    Samples are drawn by rejection: from the normal distribution where more than 0.3 of it lies in [a, b], otherwise
    from the uniform one on [a, b]. A round draws for the whole tensor and serves the elements that still lack a sample.
    Warns where the mean lies more than two deviations outside [a, b]."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be incorrect.",
            stacklevel=2,
        )
    probability = _normal_probability((a - mean) / std, (b - mean) / std)
    if not known(tensor):
        return tensor  # no values to wait for
    with flambeau.no_grad():
        if probability > 0.3:
            tensor.normal_(mean, std, generator=generator)
            while (outside := (tensor < a) | (tensor > b)).any():
                proposal = flambeau.empty_like(tensor).normal_(mean, std, generator=generator)
                tensor.copy_(flambeau.where(outside, proposal, tensor))
            return tensor
        # Density relative to its largest value on [a, b], which is at the point nearest the mean. What is no number (of a
        # mean that is none, or so many deviations away that squares overflow) rejects nothing: any sample is as good.
        peak = ((min(max(mean, a), b) - mean) / std) ** 2
        open_places = flambeau.ones_like(tensor, dtype=flambeau.bool)
        while True:
            proposal = flambeau.empty_like(tensor).uniform_(a, b, generator=generator)
            chance = flambeau.empty_like(tensor).uniform_(generator=generator)
            accepted = ~(chance >= flambeau.exp((peak - ((proposal - mean) / std) ** 2) / 2))
            tensor.copy_(flambeau.where(open_places & accepted, proposal, tensor))
            open_places &= ~accepted
            if not open_places.any():
                return tensor


# ---- structured fills -----------------------------------------------------------------------------------------------


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity (as much of it as fits). ValueError if it is not two-dimensional."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with flambeau.no_grad():
        tensor.zero_().diagonal().fill_(1)
    return tensor


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill a convolution's weight (out, in, *kernel) so that it passes as many channels as it can unchanged, per group.

    ValueError if it does not have 3, 4 or 5 dimensions or `groups` does not divide the first."""
    if tensor.ndimension() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    channels = tensor.shape[0] // groups
    centre = tuple(size // 2 for size in tensor.shape[2:])
    with flambeau.no_grad():
        tensor.zero_()
        for group in range(groups):
            tensor[(slice(group * channels, (group + 1) * channels), slice(None), *centre)].diagonal().fill_(1)
    return tensor


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with uniform samples of deviation gain sqrt(2 / (fan_in + fan_out)) (Glorot and Bengio, 2010)."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    bound = math.sqrt(3.0) * (gain * math.sqrt(2.0 / float(fan_in + fan_out)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with normal samples of deviation gain sqrt(2 / (fan_in + fan_out)) (Glorot and Bengio, 2010)."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / float(fan_in + fan_out)), generator)


def _kaiming_deviation(tensor: Tensor, a: float, mode: _FanMode, nonlinearity: str) -> float | None:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return None
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: _FanMode = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Fill with uniform samples of deviation gain / sqrt(fan) (He et al., 2015); `a` is the slope of leaky_relu."""
    deviation = _kaiming_deviation(tensor, a, mode, nonlinearity)
    if deviation is None:
        return tensor
    bound = math.sqrt(3.0) * deviation
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: _FanMode = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Fill with normal samples of deviation gain / sqrt(fan) (He et al., 2015); `a` is the slope of leaky_relu."""
    deviation = _kaiming_deviation(tensor, a, mode, nonlinearity)
    return tensor if deviation is None else normal_(tensor, 0, deviation, generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Fill with a matrix of orthonormal rows or columns, times gain (Saxe et al., 2013).

    Dimensions after the first are flattened together. ValueError if there are fewer than two."""
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    columns = tensor.numel() // rows
    with flambeau.no_grad():
        sample = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
        q, r = flambeau.linalg.qr(sample.t() if rows < columns else sample)
        q = q * r.diagonal().sign()  # which of the many factorisations it is must not depend on the algorithm
        tensor.copy_((q.t() if rows < columns else q).reshape(tensor.shape))
        tensor.mul_(gain)
    return tensor


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fill a matrix with normal samples, then set a fraction `sparsity` of each column to zero (Martens, 2010).

    ValueError if it is not two-dimensional."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with flambeau.no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[flambeau.randperm(rows, device=tensor.device)[:zeros], column] = 0
    return tensor


# ---- the old names --------------------------------------------------------------------------------------------------


def _deprecated(current: Callable[..., Tensor]) -> Callable[..., Tensor]:
    new = current.__name__
    old = new[:-1]

    initialise = deprecated(f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.")(current)
    initialise.__doc__ = f"Deprecated: the old name of `{new}`, which see."
    initialise.__name__ = initialise.__qualname__ = old
    return initialise


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)
