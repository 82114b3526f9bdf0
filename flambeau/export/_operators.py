"""Which operator of aten a public call is: the table that export's tracer reads where PyTorch's Python does more than call one.

A rule gets `op`, which records an operator (`op("linear", x, w)`), and the arguments of the public function; NotImplemented where
the function's body serves. Used by _tracer; `_functional` has those of torch.nn.functional.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.base.symbolic.numbers import is_symbolic_number
from flambeau.dispatcher.aten.indexing import indexed

__all__ = ["BODY", "FUNCTIONS", "METHODS", "Op"]

Op = Callable[..., Any]

#: By the name in torch.Tensor, where it has a rule of its own.
METHODS: dict[str, Callable[..., Any]] = {}
#: By the name in torch.
FUNCTIONS: dict[str, Callable[..., Any]] = {}
#: Functions whose bodies are read: PyTorch's are Python too.
BODY = frozenset(
    """multi_head_attention_forward softmin dropout1d dropout2d dropout3d gaussian_nll_loss
    normalize unfold fold .__len__ .__iter__ .__reversed__ .__contains__ .__format__ .__repr__ .tolist""".split()
)


def _function(function: Callable[..., Any]) -> Callable[..., Any]:
    FUNCTIONS[function.__name__] = function
    return function


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    METHODS[function.__name__] = function
    return function


# ---------------------------------------------------------------- conversions


for _name, _dtype in {
    "float": torch.float32, "double": torch.float64, "half": torch.float16, "bfloat16": torch.bfloat16, "int": torch.int32,
    "long": torch.int64, "short": torch.int16, "char": torch.int8, "byte": torch.uint8, "bool": torch.bool,
}.items():  # fmt: skip
    METHODS[_name] = lambda op, self, memory_format=None, dtype=_dtype: _to_dtype(op, self, dtype, memory_format=memory_format)


def _converted(op: Op, self: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    op("_assert_tensor_metadata", self, dtype=self.dtype, device=torch.device("cpu"), layout=torch.strided)
    return op(name, *args, **kwargs)


def _to_dtype(op: Op, self: Any, dtype: Any, *flags: Any, memory_format: Any = None) -> Any:
    return _converted(op, self, "to.dtype", self, dtype, *(flags or (False, False)), memory_format)


@_method
def to(op: Op, self: Any, *args: Any, **kwargs: Any) -> Any:
    """A conversion by a dtype, a device or another tensor."""
    rest, named = list(args), dict(kwargs)
    device, dtype, other = named.pop("device", None), named.pop("dtype", None), named.pop("other", None)
    if rest and isinstance(rest[0], torch.Tensor):
        other = rest.pop(0)
    elif rest and isinstance(rest[0], (str, torch.device, int)):
        device = rest.pop(0)
    if rest and (rest[0] is None or isinstance(rest[0], torch.dtype)):
        dtype = rest.pop(0) or dtype
    names = ("non_blocking", "copy")
    flags = [bool(rest[i]) if i < len(rest) else bool(named.pop(name, False)) for i, name in enumerate(names)]
    form = named.pop("memory_format", None)
    if other is not None:
        device, dtype = other.device, other.dtype
    if device is None and dtype is not None:
        return _to_dtype(op, self, dtype, *flags, memory_format=form)
    if dtype is None:
        place = torch.device(device) if device is not None else self.device
        settings = {
            "dtype": self.dtype,
            "layout": torch.strided,
            "device": place,
            **dict(zip(names, flags)),
            "memory_format": form,
        }
        return _converted(op, self, "to.dtype_layout", self, **settings)
    return _converted(op, self, "to.device", self, torch.device(device), dtype, *flags, form)


@_method
def type(op: Op, self: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    """A conversion by a dtype; the name of the type without one."""
    if isinstance(dtype, str):
        dtype = getattr(torch, dtype.rpartition(".")[2], None)
    wanted = getattr(dtype, "dtype", dtype)
    return _to_dtype(op, self, wanted, non_blocking, False) if isinstance(wanted, torch.dtype) else NotImplemented


@_method
def contiguous(op: Op, self: Any, *, memory_format: Any = torch.contiguous_format) -> Any:
    """A copy in C order, unless that is how the elements lie."""
    if memory_format is torch.contiguous_format:
        return self if self.is_contiguous() else op("contiguous", self)
    return op("contiguous", self, memory_format=memory_format)


@_method
def cpu(op: Op, self: Any, memory_format: Any = None) -> Any:
    """A conversion to the device that there is."""
    return to(op, self, "cpu", memory_format=memory_format)


# ---------------------------------------------------------------- arithmetic


@_method
def __rtruediv__(op: Op, self: Any, other: Any) -> Any:
    """The reciprocal, times."""
    return op("mul", op("reciprocal", self), other)


@_method
def __rpow__(op: Op, self: Any, other: Any) -> Any:
    """A number to a power."""
    return op("pow.Scalar", other, self)


@_method
def __rmod__(op: Op, self: Any, other: Any) -> Any:
    """A remainder of a number."""
    return op("remainder.Scalar_Tensor", other, self)


@_method
def __rfloordiv__(op: Op, self: Any, other: Any) -> Any:
    """A number's quotient, rounded down."""
    return op("floor_divide", other, self)


@_function
@_method
def split(op: Op, tensor: Any, split_size: Any = None, dim: int = 0, split_size_or_sections: Any = None) -> Any:
    """Parts of one size, or of sizes each of its own."""
    size = split_size if split_size_or_sections is None else split_size_or_sections
    if isinstance(size, (list, tuple)):
        return tuple(op("split_with_sizes", tensor, list(size), dim))
    return tuple(op("split.Tensor", tensor, size, dim))


@_function
@_method
def norm(op: Op, self: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """A norm of all elements, or along dimensions."""
    if p == "nuc" or (p == "fro" and isinstance(dim, (tuple, list)) and len(dim) > 2):
        return NotImplemented
    along = [dim] if isinstance(dim, int) else dim if dim is None else list(dim)
    return op("linalg_vector_norm", self, 2 if p in ("fro", None) else p, along, keepdim, dtype=dtype)


@_function
def tensordot(op: Op, a: Any, b: Any, dims: Any = 2, out: Any = None) -> Any:
    """Products summed along pairs of dimensions, or along the last of one and the first of the other."""
    if isinstance(dims, torch.Tensor):
        return NotImplemented
    if isinstance(dims, int):
        pairs = list(range(-dims, 0)), list(range(dims))
    else:
        pairs = tuple([d] if isinstance(d, int) else list(d) for d in dims)
    return op("tensordot", a, b, *pairs)


def _spread(name: str) -> None:
    def rule(op: Op, self: Any, *args: Any, **kwargs: Any) -> Any:
        dim = args[0] if args else kwargs.get("dim")
        if isinstance(dim, bool) or ("unbiased" in kwargs and dim is None):
            return op(name + ".default", self, *args, **kwargs)
        return op(f"{name}.{'correction' if dim is None or 'correction' in kwargs else 'dim'}", self, *args, **kwargs)

    METHODS[name] = FUNCTIONS[name] = rule


_spread("var")
_spread("std")


@_method
def __rmatmul__(op: Op, self: Any, other: Any) -> Any:
    """A product from the right."""
    return op("matmul", other, self)


@_function
@_method
def unique(
    op: Op, input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """What is different, of all elements or of parts."""
    if dim is None:
        made = op("_unique2", input, sorted, return_inverse, return_counts)
    else:
        made = op("unique_dim", input, dim, sorted, return_inverse, return_counts)
    return _wanted(made, return_inverse, return_counts)


@_function
@_method
def unique_consecutive(
    op: Op, input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """What differs from what is before it."""
    return _wanted(op("unique_consecutive", input, return_inverse, return_counts, dim), return_inverse, return_counts)


def _wanted(made: Any, with_inverse: bool, with_counts: bool) -> Any:
    found = [made[0], *[made[1]] * with_inverse, *[made[2]] * with_counts]
    return tuple(found) if len(found) > 1 else found[0]


@_function
@_method
def is_nonzero(op: Op, input: Any) -> Any:
    """Whether it is another number than zero: the example says it where real tensors are propagated."""
    return bool(input) if getattr(input, "real_tensor", None) is not None else NotImplemented


# ---------------------------------------------------------------- indexing


@_method
def __getitem__(op: Op, self: Any, index: Any) -> Any:
    """Views one after another, then an index by tensors."""
    x, tensors = indexed(op, self, index)
    if tensors:
        return op("index.Tensor", x, tensors)
    return op("alias", x) if x is self else x


@_method
def __setitem__(op: Op, self: Any, index: Any, value: Any) -> None:
    """A write to the views that an index makes."""
    number = not isinstance(value, torch.Tensor)
    if number:
        value = op("lift", torch.tensor, value, dtype=self.dtype)
    x, tensors = indexed(op, self, index)
    if tensors:
        op("index_put_", x, tensors, value)
    elif number and x is not self and x.dim():
        op("fill_.Tensor", x, value)
    else:
        op("copy_", x, value)


# ---------------------------------------------------------------- factories


@_function
def as_tensor(op: Op, data: Any, dtype: Any = None, device: Any = None) -> Any:
    """A tensor itself, in a dtype; a constant of anything else."""
    if isinstance(data, torch.Tensor):
        return data if dtype in (None, data.dtype) else to(op, data, dtype)
    return op("lift", torch.tensor, data, dtype=dtype)


@_function
def tensor(
    op: Op, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Any:
    """A constant, copied at each run."""
    if requires_grad:
        raise NotImplementedError("torch.export: torch.tensor(requires_grad=True) is not implemented in flambeau; leave it out")
    if any(map(is_symbolic_number, _numbers(data))):
        return op("detach_", _of_symbols(op, data, dtype))
    return op("detach_", op("lift", torch.tensor, data, dtype=dtype))


@_function
def _shape_as_tensor(op: Op, input: Any) -> Any:
    """The sizes as they are at a run."""
    return tensor(op, list(input.shape), dtype=torch.int64)


def _numbers(data: Any) -> list[Any]:
    return [n for x in data for n in _numbers(x)] if isinstance(data, (list, tuple)) else [data]


def _of_symbols(op: Op, data: Any, dtype: Any) -> Any:
    """A tensor of numbers of which some are symbolic, each as it is at a run."""
    if dtype is None:
        floats = any(isinstance(n, (float, torch.SymFloat)) for n in _numbers(data))
        dtype = torch.get_default_dtype() if floats else torch.int64

    def made(part: Any) -> Any:
        if isinstance(part, (list, tuple)):
            return op("stack", [made(x) for x in part])
        return op("scalar_tensor", part, dtype=dtype)

    return _converted(op, x := made(data), "to.device", x, torch.device("cpu"), dtype)
