"""Methods of Tensor that programs rarely call: element-wise Python functions, PyTorch's deprecated forms, loading hooks.

Stands on core; attached to Tensor only (`narrow_copy` and `slice_inverse` are functions too).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base.dtype import float64, int64, uint64
from flambeau.base.geometry import wrap_dim
from flambeau.base.layout import contiguous_format
from flambeau.base.warn import warn
from flambeau.core.modes import overrides
from flambeau.core.operator import unsupported
from flambeau.core.operator.define import composite
from flambeau.core.operator.facets import described
from flambeau.core.operator.out_rules import SAME_DEVICE, UNRECORDED, Out, worded
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.operator.row_program import Rows
from flambeau.core.tensor.tensor import Tensor
from flambeau.core.tensor.without_data import known
from flambeau.ir import scalar as s
from flambeau.ir.loops import Fold, Loop, Row, folded
from flambeau.ops.reduction.sum import form, reduction_dims
from flambeau.ops.tensor_methods.predicates import refuse_graph


@described(out=Out(warns=False))
def narrow_copy(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    """What narrow() shows, in memory of its own."""
    return self.narrow(dim, start, length).clone(memory_format=contiguous_format)


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Replace each element by callable(element, x's element, y's element), one by one in Python."""
    refuse_graph("map2_", self, x, y)
    if not known(self):
        return self
    given = [other.detach().expand_as(self).reshape(-1).tolist() for other in (self, x, y)]
    made = NAMESPACE["tensor"]([callable(*three) for three in zip(*given)], dtype=self._layout.dtype, device=self._layout.device)
    return self.copy_(made.reshape(self._layout.shape))


def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What load_state_dict puts in the place of this parameter: other itself if it is assigned, else a copy of it."""
    of_a_program = other.__class__ not in overrides.PLAIN and not hasattr(other, "answered_first")  # no transform's
    if of_a_program and overrides.any_override([other]):
        return overrides.dispatch(Tensor.module_load, [self, other], {"assign": assign})  # type: ignore[attr-defined]
    if assign:
        return other.detach()
    return self.detach().copy_(other).detach()


def _resized(self: Tensor, sizes: Any) -> Tensor:
    warn("non-inplace resize is deprecated")
    count = 1
    for n in sizes:
        count *= n
    if count != self.numel():
        wanted, own = "x".join(map(str, sizes)), "x".join(map(str, self.shape))
        raise RuntimeError(
            f"requested resize to {wanted} ({count} elements in total), but the given tensor has a size of "
            f"{own} ({self.numel()} elements). autograd's resize can only change the shape of a given "
            "tensor, while preserving the number of elements. "
        )
    return self.contiguous().view(*sizes)


def resize(self: Tensor, *sizes: Any) -> Tensor:
    """Deprecated: the elements in another shape with as many; use reshape."""
    return _resized(self, tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes)


@described(written_in_python=True)
def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """Deprecated: the elements in the shape of another tensor; use reshape."""
    return _resized(self, tuple(tensor.shape))


def reinforce(self: Tensor, reward: Any) -> None:
    """Removed from PyTorch; raises RuntimeError."""
    raise RuntimeError(
        "reinforce() was removed.\nUse torch.distributions instead.\nSee https://pytorch.org/docs/main/distributions.html"
    )


def _fix_weakref(self: Tensor) -> None:
    """Nothing to do: a weak reference to a tensor holds for as long as the tensor does, since there is no other object of it."""


def _volatile(self: Tensor) -> bool:
    warnings.warn("volatile was removed (Variable.volatile is always False)", stacklevel=2)
    return False


def _keep_volatile(self: Tensor, value: Any) -> None:
    warnings.warn("volatile was removed and now has no effect. Use `with torch.no_grad():` instead.", stacklevel=2)


def _keep_grad_dtype(self: Tensor, value: Any) -> None:
    if value is not self._layout.dtype:
        raise NotImplementedError(
            "torch.Tensor.grad_dtype is not implemented in flambeau for other dtypes than the tensor's: "
            "gradients have the dtype of their tensor; convert .grad instead"
        )


for _method in (narrow_copy, map2_, module_load, resize, resize_as, reinforce, _fix_weakref):
    setattr(Tensor, _method.__name__, _method)
Tensor.volatile = property(_volatile, _keep_volatile, doc="Removed from PyTorch: always False.")  # type: ignore[attr-defined]
Tensor.grad_dtype = property(
    lambda self: self._layout.dtype,
    _keep_grad_dtype,  # type: ignore[attr-defined]
    doc="The dtype of the gradient, which is that of the tensor.",
)
Tensor.index = unsupported.function(  # type: ignore[attr-defined]
    "Tensor.index", "dimensions are numbers here; write tensor[...]"
)
Tensor.slice_inverse = unsupported.function("Tensor.slice_inverse", "use slice_scatter")  # type: ignore[attr-defined]


# ---------------------------------------------------------------- hashes


def _hash_stages(elements: tuple, numbers: tuple, keepdim: bool) -> tuple:
    (x,) = elements
    pattern = s.bitcast(s.cast(x, float64 if x.dtype.is_floating_point else int64), uint64)
    start = s.constant(0, uint64)
    return (Loop((Fold(("hash",), (start,), (pattern,), lambda a, b: (a[0] ^ b[0],)),)), Row(((0, folded("hash", uint64)),)))


_HASH = Rows("hash_tensor", _hash_stages, lambda dtypes, keepdim: [(uint64, form(keepdim))])


@composite(out=Out(dtype=worded("Expected result to be of dtype uint64, but got {got}"), device=SAME_DEVICE, graph=UNRECORDED))
def hash_tensor(input: Tensor, dim: int | Sequence[int] | None = (), *, keepdim: bool = False, mode=0) -> Tensor:
    """The exclusive or over `dim` (all by default) of the elements as 64-bit patterns (of double or int64), as uint64.

    Raises RuntimeError for modes other than 0, and, like IndexError, where there is nothing to take it of.
    """
    if not input._layout.numel:
        if dim == ():
            raise RuntimeError(
                "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the "
                "reduction dim with the 'dim' argument."
            )
        for each in (dim,) if isinstance(dim, int) else dim:
            if not (input._layout.shape[wrap_dim(each, input._layout.ndim)] if input._layout.ndim else 1):
                raise IndexError(f"hash_tensor: Expected reduction dim {each} to have non-zero size.")
    if mode:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    dtype = input._layout.dtype
    if dtype.is_complex:
        raise NotImplementedError(f"\"xor_sum_cpu\" not implemented for '{dtype.scalar_name}'")
    over = reduction_dims("hash_tensor", dim, input._layout.ndim)
    return _HASH((input.detach(),), over, statics=(bool(keepdim),))
