"""Methods that ask or answer about a tensor, or that exist only to say what to do instead (quantized tensors).

Stands on core.tensor; attaches to Tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.base.dtype import DIMENSIONED, NUMBER, ZERO_DIM, number_dtype, result_dtype
from flambeau.core import absent
from flambeau.core.arguments import no_combination
from flambeau.core.create import array_of, copy_array, tolist_array
from flambeau.core.derive import public
from flambeau.core.tensor import Tensor


@public(method=False)
def result_type(tensor: Any = None, other: Any = None, *, scalar: Any = None, scalar1: Any = None, scalar2: Any = None) -> Any:
    """The dtype an operator on the two (tensors or numbers) would compute in. By name: tensor and other, scalar and tensor, or
    scalar1 and scalar2.
    """
    given = [x for x in (scalar, tensor, other, scalar1, scalar2) if x is not None]
    if len(given) != 2:
        raise no_combination("result_type", given)
    ranks = [
        (x._layout.dtype, DIMENSIONED if x._layout.ndim else ZERO_DIM)
        if isinstance(x, Tensor)
        else (number_dtype(x), NUMBER)
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
    """The dimensions from the one with the largest step to the one with the smallest."""
    strides = self._layout.strides
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
    values = tolist_array(self)
    flat = [callable(x) for x in values.reshape(-1).tolist()]
    return self._replaced(values, flat)  # type: ignore[attr-defined]


@public(namespace=False)
def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replace each element by callable(element, the other tensor's element), one by one in Python."""
    values = tolist_array(self)
    others = tolist_array(tensor.expand_as(self)).reshape(-1).tolist()  # type: ignore[attr-defined]
    return self._replaced(values, [callable(a, b) for a, b in zip(values.reshape(-1).tolist(), others)])  # type: ignore[attr-defined]


@public(namespace=False)
def _replaced(self: Tensor, values: Any, flat: list[Any]) -> Tensor:
    if self._node is not None:
        raise RuntimeError("Can't call apply_() or map_() on Variable that requires grad. Use var.detach() first.")
    array = values.copy()
    array.reshape(-1)[:] = flat
    if array.dtype == array_of(self).dtype:
        return self.copy_(copy_array(array, self._layout.dtype))  # type: ignore[attr-defined]
    return self.copy_(copy_array(array))  # type: ignore[attr-defined]


Tensor.is_cpu = property(lambda self: self._layout.device.type == "cpu", doc="Whether the tensor is on the CPU.")  # type: ignore[attr-defined]

_QUANTIZED = "flambeau has no quantized tensors; use float32, bfloat16 or float16"
for _advice, _names in (
    (
        _QUANTIZED,
        (
            "dequantize int_repr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale "
            "q_zero_point qscheme"
        ),
    ),
    ("flambeau computes on the CPU", "ipu mtia xpu to_mkldnn to_padded_tensor"),
):
    for _name in _names.split():
        if not hasattr(Tensor, _name):
            setattr(Tensor, _name, absent.function(f"Tensor.{_name}", _advice))

#: What PyTorch took out of the namespace and of Tensor: torch._linalg_utils and the namespace offer it too.
REMOVED = {name: absent.removed(name, instead) for name, instead in (
    ("eig", "`torch.linalg.eig` returns complex tensors of dtype `cfloat` or `cdouble` rather than real tensors mimicking "
     "complex tensors. torch.eig(A) is torch.linalg.eigvals(A), or torch.linalg.eig(A) with eigenvectors."),
    ("lstsq", "`torch.lstsq` is deprecated in favor of `torch.linalg.lstsq`, which takes the matrix first and gives the "
     "residuals apart: torch.lstsq(B, A) is torch.linalg.lstsq(A, B)."),
    ("matrix_rank", "Please use the `torch.linalg.matrix_rank` function instead. The parameter 'symmetric' was renamed in "
     "`torch.linalg.matrix_rank()` to 'hermitian'."),
    ("solve", "`torch.solve` is deprecated in favor of `torch.linalg.solve`, which takes the matrix first: "
     "torch.solve(B, A).solution is torch.linalg.solve(A, B). torch.linalg.lu_factor gives the LU factorization."),
    ("symeig", "The default behavior has changed from using the upper triangular portion of the matrix by default to using the "
     "lower triangular portion: torch.symeig(A) is torch.linalg.eigvalsh(A, UPLO='U'), or torch.linalg.eigh with eigenvectors."))}
for _name in ("eig", "lstsq", "solve", "symeig"):
    setattr(Tensor, _name, REMOVED[_name])
