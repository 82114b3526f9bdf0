"""Complex numbers: conjugates, and complex tensors from real parts.

Conjugation is carried out at once (PyTorch marks a view), so nothing is ever `is_conj`. Views of the parts are in ops.view.
"""

from __future__ import annotations

from flambeau.core.declare import composite, operator
from flambeau.core.derive import NAMESPACE, pointwise
from flambeau.core.tensor import Tensor
from flambeau.core.views import public
from flambeau.ir import scalar as s
from flambeau.ops.view import view_as_complex


@pointwise(name="_conj", method=False, inplace=False, node="ConjBackward0")
def _conj(input: Tensor):
    """The complex conjugate."""
    return s.conj(input)


del NAMESPACE["_conj"]


@composite()
def conj(input: Tensor) -> Tensor:
    """The complex conjugate; a real tensor is returned as it is."""
    return _conj(input) if input._layout.dtype.is_complex else input


@composite(out=True, inplace=True)
def conj_physical(input: Tensor) -> Tensor:
    """The complex conjugate; a real tensor is returned as it is."""
    return _conj(input) if input._layout.dtype.is_complex else input


@public
def is_conj(input: Tensor) -> bool:
    """False: conjugates are computed, not marked."""
    return False


@public
def is_neg(input: Tensor) -> bool:
    """False: negatives are computed, not marked."""
    return False


@public(names=("resolve_neg",))
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself: nothing is left to be carried out."""
    return input


@operator(method=False, out=True, node="ComplexBackward0")
def complex(real: Tensor, imag: Tensor) -> Tensor:
    """real + i imag, with broadcasting; both of one dtype among float16, float32, float64."""
    a, b = real._layout.dtype, imag._layout.dtype
    if a.name not in ("float16", "float32", "float64") or b.name not in ("float16", "float32", "float64"):
        raise RuntimeError(f"Expected both inputs to be Half, Float or Double tensors but got {a.scalar_name} and "
                           f"{b.scalar_name}")
    if a is not b:
        raise RuntimeError(f"Expected object of scalar type {a.scalar_name} but got scalar type {b.scalar_name} for "
                           "second argument")
    real, imag = NAMESPACE["broadcast_tensors"](real, imag)
    return view_as_complex(NAMESPACE["stack"]([real, imag], -1))


@complex.vjp
def _(g, need):
    return g.real if need["real"] else None, g.imag if need["imag"] else None


@composite(method=False, out=True)
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """abs * exp(i angle); both of one floating point dtype."""
    a, b = abs._layout.dtype, angle._layout.dtype
    if a.name not in ("float32", "float64") or b.name not in ("float32", "float64"):
        raise RuntimeError(f"Expected both inputs to be Half, Float or Double tensors but got {a.scalar_name} and "
                           f"{b.scalar_name}")
    if a is not b:
        raise RuntimeError(f"Expected object of scalar type {a.scalar_name} but got scalar type {b.scalar_name} for "
                           "second argument")
    return complex(abs * angle.cos(), abs * angle.sin())
