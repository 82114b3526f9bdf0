"""Methods that ask or answer about a tensor, or that exist only to say what to do instead.

Stands on core.tensor.tensor; attaches to Tensor.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from flambeau.base import layout as layouts
from flambeau.base import memory_order
from flambeau.base.dtype import DIMENSIONED, NUMBER, ZERO_DIM, number_dtype, result_dtype
from flambeau.core.modes.modes import local
from flambeau.core.operator import unsupported
from flambeau.core.operator.arguments import no_combination
from flambeau.core.operator.publishing import public
from flambeau.core.tensor.create import copy_array, tolist_array
from flambeau.core.tensor.nested_data import values_of
from flambeau.core.tensor.tensor import Tensor
from flambeau.core.tensor.without_data import known


@public(method=False)
def result_type(tensor: Any = None, other: Any = None, *, scalar: Any = None, scalar1: Any = None, scalar2: Any = None) -> Any:
    """The dtype an operator on the two (tensors or numbers) would compute in. By name: tensor and other, scalar and tensor, or
    scalar1 and scalar2.
    """
    given = [x for x in (scalar, tensor, other, scalar1, scalar2) if x is not None]
    if len(given) != 2:
        raise no_combination("result_type", given)
    ranks = [
        (x._layout.dtype, DIMENSIONED if x._layout.ndim else ZERO_DIM) if isinstance(x, Tensor) else (number_dtype(x), NUMBER)
        for x in given
    ]
    return result_dtype(ranks)


@public(namespace=False)
def is_nonzero(self: Tensor) -> bool:
    """Whether the only element isn't zero. Raises RuntimeError unless there is exactly one."""
    if not self._layout.numel:
        raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
    if self._layout.numel > 1:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
    return bool(self.item() != 0)  # type: ignore[attr-defined]


@public(namespace=False)
def is_same_size(self: Tensor, other: Tensor) -> bool:
    """Whether the shapes are equal."""
    return self._layout.shape == other._layout.shape


@public(namespace=False)
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether the two show the same memory in the same way."""
    return self._storage is tensor._storage and self._offset == tensor._offset and self._layout is tensor._layout


@public(namespace=False)
def is_distributed(self: Tensor) -> bool:
    """False."""
    return False


@public(namespace=False)
def const_data_ptr(self: Tensor) -> int:
    """Address of the first element."""
    return self.data_ptr()


@public(namespace=False)
def dim_order(self: Tensor, *, ambiguity_check: bool | list[Any] = False) -> tuple[int, ...]:
    """The dimensions from the one with the largest step to the one with the smallest.

    ambiguity_check: True refuses tensors of which several orders are true, by RuntimeError; memory formats refuse those that lie
    in none or in several of them. TypeError for anything else.
    """
    formats = ambiguity_check if isinstance(ambiguity_check, list) else []
    if not isinstance(ambiguity_check, bool) and not (
        isinstance(ambiguity_check, list) and all(isinstance(f, layouts.memory_format) for f in formats)
    ):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    shape, strides = self._layout.shape, self._layout.strides
    if ambiguity_check and (1 in shape or 0 in strides or len(set(strides)) < len(strides)):
        fitting = [f for f in formats if self.is_contiguous(memory_format=f)]  # type: ignore[attr-defined]
        if len(fitting) != 1:
            raise RuntimeError(
                "The tensor does not have unique dim order, or cannot map to exact one of the given memory formats."
            )
        order = list(range(len(strides)))
        return tuple(order if fitting[0] is layouts.contiguous_format else [0, *order[2:], 1])
    return tuple(sorted(range(len(strides)), key=lambda d: -strides[d]))


@public(namespace=False)
def record_stream(self: Tensor, stream: Any) -> None:
    """Nothing to record: calls are finished when they return."""


@public(namespace=False)
def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool = True) -> Tensor:
    """The tensor itself (in another dtype, if one is given): it is dense."""
    return self if dtype is None else self.to(dtype)  # type: ignore[attr-defined]


@public(namespace=False)
def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replace each element by callable(element), one by one in Python."""
    refuse_graph("apply_", self)
    if not known(self):
        return self
    if _repeats(self):
        return _replaced_in_turn(self, callable)
    return _replaced(self, [callable(x) for x in tolist_array(self).reshape(-1).tolist()])


@public(namespace=False)
def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replace each element by callable(element, the other tensor's element), one by one in Python."""
    refuse_graph("map_", self, tensor)
    if not known(self):
        return self
    if _repeats(self) and tensor._layout.dtype is self._layout.dtype:
        return _replaced_in_turn(self, callable, tensor.expand_as(self))  # type: ignore[attr-defined]
    return _replaced(self, [callable(a, b) for a, b in zip(*_values_with(self, "map_", other=tensor))])


def refuse_graph(name: str, *tensors: Tensor) -> None:
    """An error where Python is to be called for each element of what is recorded."""
    mode = local.dispatch_modes[-1] if local.dispatch_modes else None
    if mode is not None and (mode._reads is not None or mode._before_composites is not None):
        raise NotImplementedError(f"{name}() calls Python for each element, which no graph can hold; write it by operators")
    if any(x._node is not None for x in tensors):
        raise RuntimeError(f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead.")


def _values_with(self: Tensor, name: str, **others: Tensor) -> list[list[Any]]:
    """The elements of a tensor and of others of its dtype, expanded to its shape."""
    for title, x in others.items():
        if x._layout.dtype is not self._layout.dtype:
            raise TypeError(f"{name}: expected {self.type()} for '{title}' (got {x.type()})")  # type: ignore[attr-defined]
    given = [self, *[x.expand_as(self) for x in others.values()]]  # type: ignore[attr-defined]
    return [tolist_array(x).reshape(-1).tolist() for x in given]


def _repeats(self: Tensor) -> bool:
    return memory_order.overlaps_itself(self._layout.shape, self._layout.strides)


def _replaced_in_turn(self: Tensor, callable: Callable[..., Any], *others: Tensor) -> Tensor:
    """Write over elements that lie in one place one after the other: each sees what the one before left."""
    for place in itertools.product(*map(range, self._layout.shape)):
        self[place] = callable(*[x[place].item() for x in (self, *others)])  # type: ignore[index]
    return self


def _replaced(self: Tensor, flat: list[Any]) -> Tensor:
    """Write Python numbers over the elements. TypeError for what can be none."""
    made = copy_array(values_of(flat, self._layout.dtype, (len(flat),)), self._layout.dtype)
    return self.copy_(made.reshape(self._layout.shape))  # type: ignore[attr-defined]


Tensor.is_cpu = property(lambda self: self._layout.device.shown.type == "cpu", doc="Whether the tensor is on the CPU.")  # type: ignore[attr-defined]

for _name in "ipu mtia xpu to_mkldnn".split():
    if not hasattr(Tensor, _name):
        setattr(Tensor, _name, unsupported.function(f"Tensor.{_name}", "flambeau computes on the CPU"))

#: What PyTorch took out of the namespace and of Tensor: torch._linalg_utils and the namespace offer it too.
REMOVED = {
    name: unsupported.removed(name, instead)
    for name, instead in (
        (
            "eig",
            "`torch.linalg.eig` returns complex tensors of dtype `cfloat` or `cdouble` rather than real tensors mimicking "
            "complex tensors. torch.eig(A) is torch.linalg.eigvals(A), or torch.linalg.eig(A) with eigenvectors.",
        ),
        (
            "lstsq",
            "`torch.lstsq` is deprecated in favor of `torch.linalg.lstsq`, which takes the matrix first and gives the "
            "residuals apart: torch.lstsq(B, A) is torch.linalg.lstsq(A, B).",
        ),
        (
            "matrix_rank",
            "Please use the `torch.linalg.matrix_rank` function instead. The parameter 'symmetric' was renamed in "
            "`torch.linalg.matrix_rank()` to 'hermitian'.",
        ),
        (
            "solve",
            "`torch.solve` is deprecated in favor of `torch.linalg.solve`, which takes the matrix first: "
            "torch.solve(B, A).solution is torch.linalg.solve(A, B). torch.linalg.lu_factor gives the LU factorization.",
        ),
        (
            "symeig",
            "The default behavior has changed from using the upper triangular portion of the matrix by default to using "
            "the lower triangular portion: "
            "torch.symeig(A) is torch.linalg.eigvalsh(A, UPLO='U'), or torch.linalg.eigh with eigenvectors.",
        ),
    )
}
for _name in ("eig", "lstsq", "solve", "symeig"):
    setattr(Tensor, _name, REMOVED[_name])


# ---------------------------------------------------------------- which tensor it is

_identities: dict[int, int] = {}  # by address, where swaps have exchanged them: a permutation of addresses


def _identity(self: Tensor) -> int:
    """A number that no other living tensor has; `torch.utils.swap_tensors` exchanges it with all that two tensors are."""
    return _identities.get(id(self), id(self))


def exchange_identities(one: Tensor, other: Tensor) -> None:
    """Let either tensor be known by the number of the other one."""
    for tensor, number in ((one, _identity(other)), (other, _identity(one))):
        if number == id(tensor):
            _identities.pop(number, None)
        else:
            _identities[id(tensor)] = number


Tensor._cdata = property(_identity)  # type: ignore[attr-defined]
