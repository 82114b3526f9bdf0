"""Quantized tensors: integers in memory, and a quantizer that says what numbers they stand for.

A quantized tensor lies in memory as its integers do. It is an instance of a subclass of Tensor whose layout has the quantized
dtype (quint8, qint8, qint32) and a flavor of its own, so that every operator hands it on (`__torch_function__`) and no kernel
takes its bytes for numbers; `codes` is the plain tensor of integers on the same memory. The quantizer is a scale and a zero
point (`PerTensor`), or one of each for every index of an axis (`PerChannel`); a number is (code - zero point) * scale. Views,
copies and files are those of the integers. Integers have no gradients, so quantized tensors are in no graph.

What answers a call is found by the function's name in `RULES`, which the other modules of this room fill; anything else raises
the words of PyTorch's dispatcher. Elements of quint4x2 and quint2x4 lie one in a byte here; `int_repr` and files pack them.
Nothing of the room is loaded before a program makes a quantized tensor. Stands on core; used by the rest of ops.quantized, by
quantized_ops and ao.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base import qscheme
from flambeau.base.aten_schemas import table
from flambeau.base.dtype import dtype as DType
from flambeau.base.dtype import int8, int32, qint8, qint32, quint2x4, quint4x2, quint8, uint8
from flambeau.base.layout import Layout
from flambeau.core.modes.overrides import redispatch
from flambeau.core.operator.publishing import NAMESPACE, OPERATORS
from flambeau.core.operator.unsupported import not_run
from flambeau.core.tensor.tensor import Tensor, tensor_from

__all__ = [
    "CODES",
    "RANGES",
    "RULES",
    "PerChannel",
    "PerTensor",
    "QuantizedTensor",
    "codes",
    "function",
    "like",
    "rule",
    "wrapped",
]

Rule = Callable[..., Any]

#: The integers of which quantized dtypes are.
CODES: dict[DType, DType] = {quint8: uint8, qint8: int8, qint32: int32, quint4x2: uint8, quint2x4: uint8}
#: The least and the greatest of them.
RANGES = {quint8: (0, 255), qint8: (-128, 127), qint32: (-(2**31), 2**31 - 1), quint4x2: (0, 15), quint2x4: (0, 3)}
#: How many elements are packed into a byte outside of the process.
PER_BYTE = {quint4x2: 2, quint2x4: 4}

#: What answers a function on quantized tensors: rule(func, args, kwargs), by the function's name.
RULES: dict[str, Rule] = {}


class PerTensor:
    """One scale and one zero point."""

    __slots__ = ("scale", "zero_point")
    scheme = qscheme.per_tensor_affine

    def __init__(self, scale: float, zero_point: int) -> None:
        self.scale, self.zero_point = scale, zero_point

    def same(self, other: Any) -> bool:
        """Whether another quantizer says the same of every integer."""
        return isinstance(other, PerTensor) and (self.scale, self.zero_point) == (other.scale, other.zero_point)

    def parts(self) -> tuple[Any, ...]:
        """What files hold of it."""
        return self.scheme, self.scale, self.zero_point


class PerChannel:
    """scales and zero_points (one dimension) for the indices of an axis: float64 and int64, or both float32."""

    __slots__ = ("axis", "scales", "zero_points")

    def __init__(self, scales: Tensor, zero_points: Tensor, axis: int) -> None:
        self.scales, self.zero_points, self.axis = scales, zero_points, axis

    @property
    def scheme(self) -> qscheme.qscheme:
        """per_channel_affine, or per_channel_affine_float_qparams for zero points that aren't whole."""
        whole = not self.zero_points._layout.dtype.is_floating_point
        return qscheme.per_channel_affine if whole else qscheme.per_channel_affine_float_qparams

    def same(self, other: Any) -> bool:
        """Whether another quantizer says the same of every integer."""
        equal = NAMESPACE["equal"]
        return (
            isinstance(other, PerChannel)
            and (self.scheme, self.axis) == (other.scheme, other.axis)
            and bool(equal(self.scales, other.scales) and equal(self.zero_points, other.zero_points))
        )

    def at(self, axis: int, index: Any = None) -> PerChannel:
        """The quantizer of a view in which the axis has another place, and of which some indices are left."""
        if index is None:
            return PerChannel(self.scales, self.zero_points, axis)
        scales, zero_points = (v[index].contiguous() for v in (self.scales, self.zero_points))  # type: ignore[index]
        return PerChannel(scales, zero_points, axis)

    def column(self, vector: Tensor, ndim: int) -> Tensor:
        """Scales or zero points in a shape that broadcasts against the tensor."""
        shape = [1] * ndim
        shape[self.axis] = -1
        return vector.reshape(shape)  # type: ignore[attr-defined, no-any-return]

    def parts(self) -> tuple[Any, ...]:
        """What files hold of it."""
        return self.scheme, self.scales, self.zero_points, self.axis


Quantizer = PerTensor | PerChannel


def function(name: str) -> Callable[..., Any]:
    """The public function of that name, as plain tensors have it."""
    return NAMESPACE.get(name) or OPERATORS[name].public  # type: ignore[no-any-return]


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Have a function of the same arguments answer the calls of functions with these names."""

    def add(answer: Rule) -> Rule:
        for name in names:
            RULES[name] = lambda func, args, given: answer(*args, **given)
        return answer

    return add


def codes(x: Any) -> Tensor:
    """The integers of a quantized tensor, on the same memory."""
    layout = x._layout
    return tensor_from(x._storage, x._offset, layout.with_dtype(CODES[layout.dtype]))


def wrapped(integers: Tensor, quantizer: Quantizer, dtype: DType) -> Any:
    """The quantized tensor of a dtype that lies on the memory of these integers."""
    made: Any = tensor_from(integers._storage, integers._offset, _layout(integers._layout, dtype))
    made.__class__ = QuantizedTensor
    made._quantizer = quantizer
    return made


def _layout(layout: Layout, dtype: DType) -> Layout:
    return Layout.of(layout.shape, layout.strides, dtype, layout.device, QuantizedTensor)


def like(x: Any, integers: Tensor) -> Any:
    """Other integers that stand for numbers as those of `x` do."""
    return wrapped(integers, x._quantizer, x._layout.dtype)


def moved_to(x: Any, integers: Tensor) -> Any:
    """`x` itself, after its integers have got another shape or place in place."""
    x._storage, x._offset, x._layout = integers._storage, integers._offset, _layout(integers._layout, x._layout.dtype)
    return x


def first_quantized(arguments: Any) -> Any:
    """The first quantized tensor among arguments and in their lists."""
    for x in arguments:
        if isinstance(x, QuantizedTensor):
            return x
        if isinstance(x, (list, tuple)):
            found = first_quantized(x)
            if found is not None:
                return found
    return None


def refused(name: str, second: Any = None) -> NotImplementedError:
    """The error of an operator that doesn't exist for quantized tensors."""
    overloads = table().get("aten::" + name, {})
    suffix = "out" if "out" in overloads else "Tensor" if isinstance(second, Tensor) and "Tensor" in overloads else ""
    return NotImplementedError(not_run(name + (f".{suffix}" if suffix else ""), "QuantizedCPU"))


def uniform(x: Any, words: str = "Setting strides is possible only on uniformly quantized tensor") -> PerTensor:
    """The quantizer of a tensor with one scale. RuntimeError with these words for others."""
    if not isinstance(x._quantizer, PerTensor):
        raise RuntimeError(words)
    return x._quantizer


class QuantizedTensor(Tensor):
    """Integers in memory and `_quantizer`."""

    _quantizer: Any
    is_quantized = True
    is_sparse = is_sparse_csr = is_nested = is_mkldnn = volatile = False
    is_xpu = is_mps = is_ipu = is_maia = is_mtia = is_vulkan = is_xla = False
    name = None

    @classmethod
    def __torch_function__(cls, func: Callable, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        given = dict(kwargs or {})
        if getattr(func, "_namespace", "aten") != "aten":  # an operator that is defined in Python, whose kernel takes them
            return func.unasked(args, given)  # type: ignore[attr-defined]
        name = getattr(func, "__name__", str(func)).partition(".")[0]
        found = RULES.get(name)
        if found is not None:
            return found(func, args, given)
        operator = getattr(func, "operator", None)
        if getattr(operator, "composite", False) or (operator is None and name not in OPERATORS and not hasattr(Tensor, name)):
            return redispatch(func, types, args, given)
        raise refused(name, args[1] if len(args) > 1 else None)

    # ---- what it is can be told without asking anybody
    shape, dtype, device, ndim = Tensor.shape, Tensor.dtype, Tensor.device, Tensor.ndim
    itemsize, nbytes, layout = Tensor.itemsize, Tensor.nbytes, Tensor.layout  # type: ignore[attr-defined]
    is_cpu, is_cuda, is_meta, is_leaf = Tensor.is_cpu, Tensor.is_cuda, Tensor.is_meta, Tensor.is_leaf  # type: ignore[attr-defined]
    grad, grad_fn, output_nr, _version = Tensor.grad, Tensor.grad_fn, Tensor.output_nr, Tensor._version  # type: ignore[attr-defined]
    size, dim, numel, nelement, ndimension = Tensor.size, Tensor.dim, Tensor.numel, Tensor.nelement, Tensor.ndimension
    stride, storage_offset, data_ptr, untyped_storage = (
        Tensor.stride,
        Tensor.storage_offset,
        Tensor.data_ptr,
        Tensor.untyped_storage,  # type: ignore[attr-defined]
    )
    __len__, __hash__, is_contiguous = Tensor.__len__, Tensor.__hash__, Tensor.is_contiguous  # type: ignore[attr-defined]
    element_size, is_floating_point, is_complex = Tensor.element_size, Tensor.is_floating_point, Tensor.is_complex

    @property
    def requires_grad(self) -> bool:
        """False; RuntimeError where True is asked for."""
        return False

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        if wanted:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """RuntimeError if gradients are wanted: integers have none."""
        self.requires_grad = requires_grad
        return self

    @property
    def data(self) -> Any:
        """Another tensor on the same memory."""
        return like(self, codes(self))

    @data.setter
    def data(self, other: Any) -> None:
        if not isinstance(other, QuantizedTensor):
            raise RuntimeError("a quantized tensor's data can only be that of another one")
        self._storage, self._offset, self._layout, self._quantizer = (
            other._storage,
            other._offset,
            other._layout,
            other._quantizer,
        )

    def new_tensor(self, *_: Any, **__: Any) -> Any:
        """RuntimeError, as in PyTorch: quantize_per_tensor is meant."""
        raise RuntimeError("store_scalar: invalid type")

    def is_signed(self) -> bool:
        """RuntimeError: the question makes no sense."""
        return self.dtype.is_signed


# PyTorch has no class for them: `type(x)` prints as torch.Tensor does.
QuantizedTensor.__name__ = QuantizedTensor.__qualname__ = "Tensor"
QuantizedTensor.__module__ = Tensor.__module__
