"""Complex numbers: conjugate and negative views, and complex tensors from real parts.

`conj` is a view: what is pending of its elements stands in its layout (core.tensor.lazy_conjugate). So is the imaginary
part of one, whose elements are the negatives of those in memory. The parts are views, too.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.dtype import float16, float32, float64
from flambeau.base.layout import CONJUGATE, NEGATIVE, Layout, register_cache
from flambeau.core.autograd import inplace
from flambeau.core.modes.autocast import single
from flambeau.core.modes.modes import active
from flambeau.core.operator import view
from flambeau.core.operator.define import composite
from flambeau.core.operator.facets import LINEAR
from flambeau.core.operator.out_rules import OUT_ONLY, Out, worded
from flambeau.core.operator.pointwise import like_first
from flambeau.core.operator.publishing import NAMESPACE, public
from flambeau.core.operator.variants import pointwise
from flambeau.core.operator.view import node_class, remember
from flambeau.core.tensor.tensor import Tensor, view_of
from flambeau.ir import scalar as s
from flambeau.ops.creation.copy import clone


@pointwise(name="_conj_physical", inplace=False, node="ConjPhysicalBackward0")
def _conj_physical(input: Tensor):
    """The complex conjugate."""
    return s.conj(input)


_conj_physical.operator.order = like_first

_conj_view = view.declare(
    "_conj",
    "ConjBackward0",
    lambda shape, strides: (shape, strides, 0),
    lambda gradient, layout: conj(gradient),
    pending=CONJUGATE,
)
_neg = view.declare(
    "_neg_view",
    "NegViewBackward0",
    lambda shape, strides: (shape, strides, 0),
    lambda gradient, layout: gradient.neg(),
    pending=NEGATIVE,
)


@public
def conj(input: Any) -> Any:
    """The complex conjugate, as a view; a real tensor is returned as it is."""
    return _conj_view(input) if input._layout.dtype.is_complex else input


@public
def _conj(input: Any) -> Any:
    """The complex conjugate of a complex tensor, as a view. RuntimeError for a real one."""
    if not input._layout.dtype.is_complex:
        raise RuntimeError("_conj() expects a complex tensor, and a real one is its own conjugate: use conj()")
    return _conj_view(input)


@public
def _neg_view(input: Any) -> Any:
    """The negative, as a view."""
    return _neg(input)


@composite(out=Out(graph=OUT_ONLY, as_computed=True, as_made=True), inplace="function")
def conj_physical(input: Tensor) -> Tensor:
    """The complex conjugate, computed; a real tensor is returned as it is."""
    return _conj_physical(input) if input._layout.dtype.is_complex else input


@public
def is_conj(input: Tensor) -> bool:
    """Whether this is a view whose elements are the conjugates of what lies in memory."""
    return input._layout.pending & CONJUGATE != 0


@public
def is_neg(input: Tensor) -> bool:
    """Whether this is a view whose elements are the negatives of what lies in memory."""
    return input._layout.pending & NEGATIVE != 0


@public
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself, or a copy of a conjugate view that has its elements in memory."""
    return clone(input) if input._layout.pending & CONJUGATE else input


@public
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor itself, or a copy of a negative view that has its elements in memory."""
    return clone(input) if input._layout.pending & NEGATIVE else input


@composite(
    method=False, out=Out(dtype=worded("Expected object of scalar type {have} but got scalar type {got} for argument 'out'"))
)
def complex(real: Tensor, imag: Tensor) -> Tensor:
    """real + i imag, with broadcasting; both of one dtype among float16, float32, float64."""
    a, b = real._layout.dtype, imag._layout.dtype
    if a.name not in ("float16", "float32", "float64") or b.name not in ("float16", "float32", "float64"):
        raise RuntimeError(
            f"Expected both inputs to be Half, Float or Double tensors but got {a.scalar_name} and {b.scalar_name}"
        )
    if a is not b:
        raise RuntimeError(
            f"Expected object of scalar type {a.scalar_name} but got scalar type {b.scalar_name} for second argument"
        )
    return _complex(real, imag)


@pointwise(
    name="_complex",
    kind=lambda common: (common, common.to_complex()),
    function=False,
    method=False,
    inplace=False,
    node="ComplexBackward0",
)
def _complex(real: Tensor, imag: Tensor):
    """real + i imag."""
    return s.complex_(real, imag)


@_complex.vjp
def _(g):
    return s.real(g), s.imag(g)


@composite(
    method=False,
    autocast=single,
    out=Out(dtype=worded("Expected object of scalar type {have} but got scalar type {got} for argument 'out'"), as_made=True),
)
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """abs * exp(i angle); both of one floating point dtype."""
    a, b = abs._layout.dtype, angle._layout.dtype
    if a.name not in ("float32", "float64") or b.name not in ("float32", "float64"):
        raise RuntimeError(
            f"Expected both inputs to be Half, Float or Double tensors but got {a.scalar_name} and {b.scalar_name}"
        )
    if a is not b:
        raise RuntimeError(
            f"Expected object of scalar type {a.scalar_name} but got scalar type {b.scalar_name} for second argument"
        )
    return _polar(abs, angle)


@pointwise(
    name="_polar",
    kind=lambda common: (common, common.to_complex()),
    function=False,
    method=False,
    inplace=False,
    node="PolarBackward0",
)
def _polar(abs: Tensor, angle: Tensor):
    """abs * exp(i angle)."""
    return s.complex_(abs * s.cos(angle), abs * s.sin(angle))


@_polar.vjp
def _(g, abs, angle):
    cosine, sine = s.cos(angle), s.sin(angle)
    return s.real(g) * cosine + s.imag(g) * sine, (s.imag(g) * cosine - s.real(g) * sine) * abs


# ---------------------------------------------------------------- complex numbers as pairs

_view_as_real_node = node_class(
    "ViewAsRealBackward0", lambda gradient, layout: NAMESPACE["view_as_complex"](gradient.contiguous())
)
_view_as_complex_node = node_class("ViewAsComplexBackward0", lambda gradient, layout: view_as_real(resolve_conj(gradient)))


@public(method=False, jvp=LINEAR)
def view_as_real(input: Any) -> Any:
    """Complex numbers as pairs: a last dimension of size 2."""
    layout = input._layout
    if not layout.dtype.is_complex:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    if layout.pending & CONJUGATE:
        raise RuntimeError(
            "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so you "
            "can view it as real, use self.resolve_conj(); however, be warned that the resulting tensor will NOT "
            "alias the original."
        )
    made = Layout.of((*layout.shape, 2), (*[2 * stride for stride in layout.strides], 1), layout.dtype.to_real(), layout.device)
    if layout.pending:
        made = made.with_pending(layout.pending)
    pairs = view_of(input, 2 * input._offset, made)
    if input._node is not None:
        remember(pairs, input, _view_as_real_node, ())
    return pairs


@public(method=False, autocast=single, jvp=LINEAR)
def view_as_complex(input: Any) -> Any:
    """Pairs (a last dimension of size 2 and stride 1) as complex numbers."""
    layout = input._layout
    if layout.dtype not in (float16, float32, float64):
        raise RuntimeError(
            "view_as_complex is only supported for half, float and double tensors, but got a tensor of "
            f"scalar type: {layout.dtype.scalar_name}"
        )
    if not layout.ndim:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if layout.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if layout.strides[-1] != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    for stride in layout.strides[:-1]:
        if stride % 2:
            raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    if input._offset % 2:
        raise RuntimeError("Tensor must have a storage_offset divisible by 2")
    made = Layout.of(
        layout.shape[:-1], tuple(stride // 2 for stride in layout.strides[:-1]), layout.dtype.to_complex(), layout.device
    ).with_pending(layout.pending)
    numbers = view_of(input, input._offset // 2, made)
    if input._node is not None:
        remember(numbers, input, _view_as_complex_node, ())
    return numbers


_reals: dict[Layout, Layout] = register_cache({})  # the layouts of parts by that of the complex tensor
_imaginaries: dict[Layout, Layout] = register_cache({})


@public(method=False, jvp=LINEAR)
def real(input: Any) -> Any:
    """The real parts, as a view; a real tensor itself."""
    layout = input._layout
    made = _reals.get(layout)
    if made is not None and input._node is None and not active.count:
        return view_of(input, 2 * input._offset, made)
    if not layout.dtype.is_complex:
        return input
    part = view.select(view_as_real(conj(input) if layout.pending & CONJUGATE else input), -1, 0)
    if layout.answering is None:
        _reals[layout] = part._layout
    return part


@public(method=False, jvp=LINEAR)
def imag(input: Any) -> Any:
    """The imaginary parts, as a view. Raises RuntimeError for real tensors."""
    layout = input._layout
    made = _imaginaries.get(layout)
    if made is not None and input._node is None and not active.count:
        return view_of(input, 2 * input._offset + 1, made)
    if not layout.dtype.is_complex:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    pairs = _neg(view_as_real(conj(input))) if layout.pending & CONJUGATE else view_as_real(input)
    part = view.select(pairs, -1, 1)
    if layout.answering is None:
        _imaginaries[layout] = part._layout
    return part


def _set_real(self: Any, value: Any) -> None:
    real(self).copy_(value)


def _set_imag(self: Any, value: Any) -> None:
    imag(self).copy_(value)


Tensor.real = property(real, _set_real, doc=real.__doc__)  # type: ignore[attr-defined]
Tensor.imag = property(imag, _set_imag, doc=imag.__doc__)  # type: ignore[attr-defined]


def _as_seen(base: Any, layout: Any) -> Any:
    """A base in numbers of the dtype of its view with that layout, and with what is pending of it."""
    if layout.dtype.is_complex and base._layout.dtype is not layout.dtype:
        base = view_as_complex(base)
    elif base._layout.dtype is not layout.dtype:
        base = view_as_real(conj(base) if base._layout.pending & CONJUGATE else base)
    different = base._layout.pending ^ layout.pending
    if different & CONJUGATE:
        base = conj(base)
    return _neg_view(base) if different & NEGATIVE else base


inplace.as_seen = _as_seen
