"""Primitive operators of elements. They don't broadcast and convert nothing: tensors of one shape and dtype, and numbers."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau._prims.registry import elementwise, primitive
from flambeau._prims_common import dtype_to_type, is_cpu_scalar_tensor
from flambeau._prims_common.checks import check_same_device, check_same_dtype, check_same_shape

#: Those that are a function of torch of the same name.
_SAME = """
    abs acos acosh asin asinh atan atanh bitwise_not ceil cos cosh digamma erf erfc exp exp2 expm1 floor isfinite lgamma log
    log10 log1p log2 neg reciprocal round rsqrt sign signbit sin sinh sqrt tan tanh trunc add atan2 bitwise_and bitwise_or
    bitwise_xor eq fmax fmin fmod gcd ge gt hypot igamma igammac le lt mul ne nextafter pow remainder sub
""".split()
#: Those that have another name, or are in torch.special.
_RENAMED = {
    "bessel_i0": torch.i0, "bessel_i0e": torch.special.i0e, "bessel_i1": torch.special.i1, "bessel_i1e": torch.special.i1e,
    "bessel_j0": torch.special.bessel_j0, "bessel_j1": torch.special.bessel_j1, "erf_inv": torch.erfinv,
    "erfcx": torch.special.erfcx, "ndtri": torch.special.ndtri, "spherical_bessel_j0": torch.special.spherical_bessel_j0,
    "shift_left": torch.bitwise_left_shift, "shift_right_arithmetic": torch.bitwise_right_shift, "zeta": torch.special.zeta,
}  # fmt: skip


def _cbrt(a: torch.Tensor) -> torch.Tensor:
    return torch.copysign(torch.pow(torch.abs(a), 1 / 3), a)


def _div(a: Any, b: Any) -> torch.Tensor:
    """True division; of whole numbers the quotient rounded towards zero."""
    kinds = [dtype_to_type(x.dtype) if isinstance(x, torch.Tensor) else type(x) for x in (a, b)]
    whole = float not in kinds and complex not in kinds
    return torch.div(a, b, rounding_mode="trunc") if whole else torch.true_divide(a, b)


def _with_tensors(function: Any) -> Any:
    """A function of two tensors that takes a number for one of them."""

    def run(a: Any, b: Any) -> torch.Tensor:
        like = a if isinstance(a, torch.Tensor) else b if isinstance(b, torch.Tensor) else torch.scalar_tensor(a)
        return function(
            *(x if isinstance(x, torch.Tensor) else torch.scalar_tensor(x, dtype=like.dtype, device=like.device) for x in (a, b))
        )

    return run


for _name in _SAME:
    elementwise(getattr(torch, _name), [_name], f"torch.{_name} of tensors of one shape and dtype.")
for _name, _function in _RENAMED.items():
    elementwise(_function, [_name], f"{_function.__name__} of tensors of one shape and dtype.")
elementwise(_cbrt, ["cbrt"], "The cube root.")
elementwise(_div, ["div"], _div.__doc__ or "")
for _name in ("maximum", "minimum"):
    elementwise(_with_tensors(getattr(torch, _name)), [_name], f"torch.{_name} of tensors of one shape and dtype, or numbers.")


def _complex(name: str, a: torch.Tensor, otherwise: str) -> torch.Tensor:
    if not a.is_complex():
        raise RuntimeError(otherwise)
    return a


@primitive("conj_physical")
def conj_physical(a: torch.Tensor) -> torch.Tensor:
    """The conjugates, computed. RuntimeError for real numbers."""
    return torch.conj_physical(_complex("conj_physical", a, "prims.conj_physical is only defined for complex dtypes"))


@primitive("fill")
def fill(a: torch.Tensor, value: Any) -> torch.Tensor:
    """A tensor of one number that is like another."""
    return torch.fill(a, value)


@primitive("frexp")
def frexp(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mantissas in [0.5, 1) and exponents, int32. RuntimeError for other than floating point."""
    if not a.is_floating_point():
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    return tuple(torch.frexp(a))  # type: ignore[return-value]


@primitive("where")
def where(pred: Any, a: Any, b: Any) -> torch.Tensor:
    """a where pred is true, else b: tensors of one shape and dtype, and numbers. RuntimeError for others."""
    check_same_device(pred, a, b, allow_cpu_scalar_tensors=True)
    check_same_shape(pred, a, b, allow_cpu_scalar_tensors=True)
    check_same_dtype(*(x for x in (a, b) if not is_cpu_scalar_tensor(x)))
    if isinstance(pred, torch.Tensor) and pred.dtype is not torch.bool:
        raise RuntimeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype {pred.dtype.scalar_name}"
        )
    return torch.where(pred, a, b)
