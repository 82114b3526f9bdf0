"""What public functions do with quantized tensors.

Four tables hold almost all of it. MOVED functions only move or choose elements: they run on the integers, and the results
have the quantizer of the tensor. COMPUTED ones run on the numbers, whose results are quantized as the tensor was; AVERAGED
ones run in units of the integers. COMPARED ones run on the numbers and give plain results. Stands on
ops.quantized.conversion; ops.quantized loads it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base.dtype import dtype as DType
from flambeau.base.dtype import float32, qint8, quint8
from flambeau.base.geometry import wrap_dim
from flambeau.base.layout import contiguous_format, preserve_format
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.creation.copy import suggested_format
from flambeau.ops.quantized.conversion import dequantize, numbers_by_kernel, requantized, with_quantizer
from flambeau.ops.quantized.parts import getitem, plain, unsqueeze
from flambeau.ops.quantized.tensor import (
    CODES,
    RULES,
    PerChannel,
    PerTensor,
    QuantizedTensor,
    codes,
    first_quantized,
    function,
    like,
    moved_to,
    refused,
    rule,
    uniform,
)

#: Functions that move or choose elements.
MOVED = """
    as_strided broadcast_to diagonal expand expand_as flip gather hsplit index_select masked_select max_pool2d max_pool3d
    moveaxis movedim permute repeat repeat_interleave resize_ roll rot90 sort squeeze_ swapaxes swapdims t t_ take tile
    topk transpose transpose_ unfold unsqueeze_ vsplit max min amax amin median index take_along_dim pixel_shuffle
    pixel_unshuffle channel_shuffle native_channel_shuffle fliplr flipud squeeze_copy dsplit cummax cummin adjoint
"""
#: Functions that keep what each integer stands for, also by channels.
KEPT = """
    contiguous detach detach_ alias view view_as reshape reshape_as resolve_conj resolve_neg pin_memory cpu flatten unflatten
    ravel
"""
#: Functions of the numbers whose results are quantized as the first tensor is.
COMPUTED = """
    clamp clamp_ clip clip_ constant_pad_nd gelu hardtanh hardtanh_ leaky_relu leaky_relu_ mean pad
    reflection_pad1d reflection_pad2d reflection_pad3d relu relu_ relu6 relu6_ replication_pad1d replication_pad2d
    replication_pad3d std threshold threshold_ clamp_min clamp_max var prelu
"""
#: Functions that average elements: what PyTorch rounds is the average of the integers, not of the numbers.
AVERAGED = """
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d avg_pool1d avg_pool2d avg_pool3d interpolate upsample
    upsample_nearest upsample_bilinear upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_bilinear2d
"""
#: Those of them that PyTorch computes by dequantize and quantize_per_tensor, and not by a kernel of their own.
WHOLE = frozenset("mean std var pad constant_pad_nd".split())
#: Functions of the numbers with plain results.
COMPARED = "eq ne lt le gt ge __eq__ __ne__ __lt__ __le__ __gt__ __ge__ equal_numbers not_equal less greater isclose_numbers"

_SCHEME = (
    "Expected quantizer->qscheme() == kPerTensorAffine to be true, but got false.  (Could this error message be improved?  If "
    "so, please report an enhancement request to PyTorch.)"
)


def _each(made: Any, turn: Callable[[Tensor], Any]) -> Any:
    """A result of tensors with each of them turned into another."""
    if isinstance(made, Tensor):
        return turn(made)
    if isinstance(made, (tuple, list)):
        parts = [_each(x, turn) for x in made]
        return parts if isinstance(made, list) else type(made)(parts) if hasattr(made, "n_fields") else tuple(parts)
    return made


def _moved(func: Callable, args: Sequence[Any], given: dict[str, Any], keeps: bool = False) -> Any:
    x = first_quantized([*args, *given.values()])
    if not keeps:
        uniform(x)
    dtype = CODES[x.dtype]
    integers = codes(x)
    arguments = [integers if a is x else plain(a, codes) for a in args]
    made = func(*arguments, **{name: integers if a is x else plain(a, codes) for name, a in given.items()})
    if made is integers:  # nothing to do, or done in place
        return moved_to(x, integers) if integers._layout is not codes(x)._layout else x
    return _each(made, lambda t: like(x, t) if t._layout.dtype is dtype else t)


def _kept(func: Callable, args: Sequence[Any], given: dict[str, Any]) -> Any:
    return _moved(func, args, given, keeps=True)


def _computed(func: Callable, args: Sequence[Any], given: dict[str, Any]) -> Any:
    x = args[0] if args else next(iter(given.values()))
    if not isinstance(x, QuantizedTensor):
        raise refused(func.__name__)
    uniform(x, _SCHEME)
    out = given.pop("out", None)
    name = func.__name__
    inplace = given.pop("inplace", False) or (name[-1] == "_" and name[-2] != "_")
    if name[-1] == "_" and name[-2] != "_":
        func = function(name[:-1])
    kernel = name not in WHOLE
    turn = numbers_by_kernel if kernel else dequantize
    numbers = [plain(a, turn) for a in args]
    made = requantized(x, func(*numbers, **{key: plain(a, turn) for key, a in given.items()}), kernel)
    if not inplace and out is None:
        return made
    into = x if out is None else out
    codes(into).copy_(codes(made))  # type: ignore[attr-defined]
    return into


def _averaged(func: Callable, args: Sequence[Any], given: dict[str, Any]) -> Any:
    x = first_quantized([*args, *given.values()])
    quantizer = uniform(x, _SCHEME)

    def turn(t: Any) -> Any:
        return codes(t).to(float32) - float(t._quantizer.zero_point)  # type: ignore[attr-defined]

    numbers = func(*[plain(a, turn) for a in args], **{key: plain(a, turn) for key, a in given.items()})
    made = with_quantizer(numbers, PerTensor(1.0, quantizer.zero_point), x.dtype, kernel=True)
    return like(x, codes(made))


def _compared(func: Callable, args: Sequence[Any], given: dict[str, Any]) -> Any:
    return func(*[plain(a, dequantize) for a in args], **{key: plain(a, dequantize) for key, a in given.items()})


RULES.update(dict.fromkeys(MOVED.split(), _moved))
RULES.update(dict.fromkeys(KEPT.split(), _kept))
RULES.update(dict.fromkeys(COMPUTED.split(), _computed))
RULES.update(dict.fromkeys(AVERAGED.split(), _averaged))
RULES.update(dict.fromkeys(COMPARED.split(), _compared))

# ---------------------------------------------------------------- results of a range of their own


#: By function the scale of its results, and their zero point by dtype.
FIXED: dict[str, tuple[float, dict[DType, int]]] = {
    "sigmoid": (1 / 256, {quint8: 0, qint8: -128}),
    "hardsigmoid": (1 / 256, {quint8: 0, qint8: -128}),
    "tanh": (2 / 256, {quint8: 128, qint8: 0}),
}


def _fixed(name: str) -> None:
    """A function whose results lie in a range that is known, so that they are quantized for it."""
    scale, zero_points = FIXED[name]

    def answer(func: Callable, args: Sequence[Any], given: dict[str, Any]) -> Any:
        x = args[0]
        uniform(x, _SCHEME)
        if x.dtype not in zero_points:
            raise refused(name)
        inplace = given.pop("inplace", False) or func.__name__ == name + "_"
        numbers = function(name)(numbers_by_kernel(x))
        if inplace:
            codes(x).copy_(codes(requantized(x, numbers)))  # type: ignore[attr-defined]
            return x
        return with_quantizer(numbers, PerTensor(scale, zero_points[x.dtype]), x.dtype, kernel=True)

    RULES[name] = RULES[name + "_"] = answer


for _name in FIXED:
    _fixed(_name)


# ---------------------------------------------------------------- several tensors


@rule("cat", "concat", "concatenate")
def cat(tensors: Sequence[Any], dim: int = 0, *, out: Any = None) -> Any:
    """Tensors joined along a dimension, quantized as the first is."""
    first = tensors[0]
    for t in tensors:
        if not isinstance(t, QuantizedTensor):
            RULES["qscheme"](None, (t,), {})
        uniform(t, "Only per-tensor quantization is supported in 'cat'!")
        if t.dtype is not first.dtype:
            raise RuntimeError("All dtypes must be the same.")
    if all(t._quantizer.same(first._quantizer) for t in tensors):
        made = like(first, NAMESPACE["cat"]([codes(t) for t in tensors], dim))
    else:
        made = requantized(first, NAMESPACE["cat"]([dequantize(t) for t in tensors], dim))
    if out is None:
        return made
    return copy_(out, made)


@rule("stack")
def stack(tensors: Sequence[Any], dim: int = 0, *, out: Any = None) -> Any:
    """Tensors of one shape along a new dimension."""
    return cat([unsqueeze(t, dim) for t in tensors], wrap_dim(dim, tensors[0]._layout.ndim + 1), out=out)


@rule("equal")
def equal(input: Any, other: Any) -> bool:
    """Whether both are quantized alike and have the same shape and integers."""
    if not isinstance(other, QuantizedTensor) or not isinstance(input, QuantizedTensor):
        raise refused("equal", other)
    if input.dtype is not other.dtype or input.shape != other.shape or not input._quantizer.same(other._quantizer):
        return False
    return bool(NAMESPACE["equal"](codes(input), codes(other)))


@rule("allclose", "isclose")
def isclose(*_: Any, **__: Any) -> Any:
    """RuntimeError: not of quantized tensors."""
    raise RuntimeError("isclose is not supported for quantized inputs.")


# ---------------------------------------------------------------- writes


def _as_codes(x: Any, value: Any) -> Tensor:
    """The integers that a number, or a float tensor, is in the quantizer of `x`."""
    if isinstance(value, QuantizedTensor):
        if value.dtype is not x.dtype:
            raise RuntimeError(
                "Expected self.scalar_type() == src.scalar_type() to be true, but got false.  (Could this error message be "
                "improved?  If so, please report an enhancement request to PyTorch.)"
            )
        value = dequantize(value)
    elif isinstance(value, Tensor) and value._layout.dtype is not float32:
        raise RuntimeError("Quantized copy only works with kFloat as source Tensor")
    numbers = value.to(float32) if isinstance(value, Tensor) else NAMESPACE["tensor"](float(value), dtype=float32, device="cpu")
    return codes(requantized(x, numbers))


@rule("clone")
def clone(self: Any, *, memory_format: Any = contiguous_format) -> Any:
    """A copy in C order, or in a memory format."""
    wanted = suggested_format(self._layout) if memory_format is preserve_format else memory_format
    return like(self, codes(self).clone(memory_format=wanted))  # type: ignore[attr-defined]


@rule("copy_")
def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Take on the numbers of a float tensor, or the integers and the quantizer of a quantized one."""
    if not isinstance(self, QuantizedTensor):
        raise RuntimeError(
            "Copying from quantized Tensor to non-quantized Tensor is not allowed, please use dequantize to get a float Tensor "
            "from a quantized Tensor"
        )
    if not isinstance(src, QuantizedTensor):
        if src._layout.dtype is not float32:
            raise RuntimeError("Quantized copy only works with kFloat as source Tensor")
        codes(self).copy_(codes(requantized(self, src.expand(self.shape))))  # type: ignore[attr-defined]
        return self
    if src._quantizer.scheme is not self._quantizer.scheme:
        raise RuntimeError("Quantized Copy only works with same qscheme")
    if src.dtype is not self.dtype:
        raise RuntimeError("Quantized Copy only works with same data type")
    codes(self).copy_(codes(src))  # type: ignore[attr-defined]
    self._quantizer = src._quantizer
    return self


@rule("fill_")
def fill_(self: Any, value: Any) -> Any:
    """Every element the integer nearest to a number."""
    if isinstance(self._quantizer, PerChannel):
        return copy_(self, NAMESPACE["full"](self.shape, float(value), dtype=float32, device="cpu"))
    codes(self).fill_(_as_codes(self, value).item())  # type: ignore[attr-defined]
    return self


@rule("__setitem__")
def setitem(self: Any, key: Any, value: Any) -> None:
    """Write the integers nearest to numbers, or to those of a quantized tensor, to a part."""
    if isinstance(self._quantizer, PerChannel):
        part = getitem(self, key)
        fill_(part, value) if not isinstance(value, Tensor) else copy_(part, value)
    else:
        codes(self)[key] = _as_codes(self, value)  # type: ignore[index]


@rule("masked_fill")
def masked_fill(input: Any, mask: Tensor, value: Any) -> Any:
    """A copy in which the elements under a mask are the integer nearest to a number."""
    return like(input, codes(input).masked_fill(mask, _as_codes(input, value).item()))  # type: ignore[attr-defined]


@rule("masked_fill_")
def masked_fill_(self: Any, mask: Tensor, value: Any) -> Any:
    """The same in place."""
    codes(self).masked_fill_(mask, _as_codes(self, value).item())  # type: ignore[attr-defined]
    return self


@rule("index_put_")
def index_put_(self: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Write the integers nearest to numbers at places."""
    if accumulate:
        raise RuntimeError("index_put for QuantizedTensors is currently only supported for accumulate=False")
    codes(self).index_put_(indices, _as_codes(self, values))  # type: ignore[attr-defined]
    return self


@rule("index_put")
def index_put(self: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """The same in a copy."""
    return index_put_(clone(self), indices, values, accumulate)


@rule("zero_")
def zero_(self: Any) -> Any:
    """NotImplementedError, as in PyTorch: fill_(0) is meant."""
    raise refused("zero_")


# ---------------------------------------------------------------- new tensors


@rule("empty_like")
def empty_like(input: Any, *, dtype: Any = None, memory_format: Any = None, **_: Any) -> Any:
    """A tensor of this shape and quantizer with integers of no meaning."""
    if dtype not in (None, input.dtype):
        raise RuntimeError(
            "It is currently not supported to specify a dtype that doesn't match the input tensor's dtype via empty_like."
        )
    wanted = suggested_format(input._layout) if memory_format is None else memory_format
    return like(input, NAMESPACE["empty_like"](codes(input), memory_format=wanted))


@rule("full_like")
def full_like(input: Any, fill_value: Any, **given: Any) -> Any:
    """A tensor of this shape and quantizer, every element the integer nearest to a number."""
    return fill_(empty_like(input, **given), fill_value)


@rule("ones_like")
def ones_like(input: Any, **given: Any) -> Any:
    """full_like with 1."""
    return full_like(input, 1, **given)


@rule("__deepcopy__")
def deepcopy(self: Any, memo: Any = None) -> Any:
    """A copy with memory of its own, which copies of other tensors on that memory share."""
    memo = {} if memo is None else memo
    made = memo[id(self)] = like(self, copy.deepcopy(codes(self), memo))
    own = {key: value for key, value in self.__dict__.items() if key != "_quantizer"}
    made.__dict__.update(copy.deepcopy(own, memo))
    return made


# ---------------------------------------------------------------- conversions


@rule("to")
def to(self: Any, *args: Any, **given: Any) -> Any:
    """The tensor on a device or in a memory format; RuntimeError for another dtype."""
    wanted = [a for a in (*args, *given.values()) if isinstance(a, DType)]
    wanted += [a._layout.dtype for a in args if isinstance(a, Tensor)]
    if any(d is not self.dtype for d in wanted):
        raise RuntimeError("Creation of quantized tensor requires quantized dtype like torch.quint8")
    rest = [codes(a) if isinstance(a, QuantizedTensor) else a for a in args if not isinstance(a, DType)]
    integers = codes(self)
    made = integers.to(*rest, **{key: a for key, a in given.items() if not isinstance(a, DType)})  # type: ignore[attr-defined]
    return self if made is integers else like(self, made)


def _no_conversion(self: Any, *_: Any, **__: Any) -> Any:
    raise RuntimeError("Creation of quantized tensor requires quantized dtype like torch.quint8")


for _name in "float double half bfloat16 int long short char byte bool".split():
    rule(_name)(_no_conversion)


@rule("item")
def item(self: Any) -> float:
    """The number that the only element stands for."""
    if self._layout.numel != 1:
        raise RuntimeError(f"a Tensor with {self._layout.numel} elements cannot be converted to Scalar")
    return dequantize(self).item()  # type: ignore[no-any-return]


@rule("__bool__", "is_nonzero")
def truth(self: Any) -> bool:
    """Whether the only element stands for a number other than 0."""
    return bool(dequantize(self))


@rule("__float__")
def as_float(self: Any) -> float:
    """item()."""
    return item(self)


@rule("__int__")
def as_int(self: Any) -> int:
    """item() without what is behind the point."""
    return int(item(self))


@rule("tolist")
def tolist(self: Any) -> Any:
    """RuntimeError, as in PyTorch: x.dequantize().tolist() is meant."""
    raise RuntimeError("load_scalar: invalid type")


@rule("numpy", "__array__")
def numpy(self: Any, *_: Any, **__: Any) -> Any:
    """TypeError, as in PyTorch: x.int_repr().numpy() or x.dequantize().numpy() is meant."""
    raise TypeError(f"Got unsupported ScalarType {self.dtype.scalar_name}")


@rule("type")
def type_(self: Any, dtype: Any = None, **_: Any) -> Any:
    """The name of the type."""
    return f"torch.quantized.{self.dtype.scalar_name}Tensor" if dtype is None else to(self, dtype)


@rule("storage")
def storage(self: Any) -> Any:
    """The memory as a storage with the dtype."""
    from flambeau.ops.interop.typed_storage import TypedStorage

    return TypedStorage(wrap_storage=self._storage, dtype=self.dtype, _internal=True)


@rule("is_shared")
def is_shared(self: Any) -> bool:
    """Whether other processes see the memory."""
    return codes(self).is_shared()  # type: ignore[attr-defined, no-any-return]


@rule("share_memory_")
def share_memory_(self: Any) -> Any:
    """Move the memory to where other processes see it."""
    return moved_to(self, codes(self).share_memory_())  # type: ignore[attr-defined]


@rule("is_pinned", "is_distributed", "is_inference", "is_conj", "is_neg", "_is_view", "is_same_size")
def no(self: Any, *others: Any, **_: Any) -> bool:
    """False; for is_same_size whether the shapes are equal."""
    return bool(others) and self.shape == others[0].shape


# ---------------------------------------------------------------- PyTorch's names of what kernels answer


def quantized_batch_norm(
    input: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float, output_scale: float, output_zero_point: int
) -> Any:
    """Batch norm with known means and variances, with a scale and zero point for the result."""
    made = NAMESPACE["batch_norm"](dequantize(input), weight, bias, mean, var, False, 0.0, eps, False)
    return with_quantizer(made, PerTensor(float(output_scale), int(output_zero_point)), input.dtype, kernel=True)


def _pool(dims: int) -> Callable[..., Any]:
    def pool(self: Any, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Any:
        return function(f"max_pool{dims}d")(self, kernel_size, stride or None, padding, dilation, ceil_mode)

    pool.__name__ = pool.__qualname__ = f"quantized_max_pool{dims}d"
    pool.__doc__ = f"max_pool{dims}d of a quantized tensor."
    return pool


@rule("max_pool1d")
def max_pool1d(
    input: Any, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False, **_: Any
) -> Any:
    """max_pool2d of one row."""
    given = kernel_size, stride or kernel_size, padding, dilation
    size, step, edge, apart = ((n, v[0] if isinstance(v, (tuple, list)) else v) for n, v in zip((1, 1, 0, 1), given))
    return function("max_pool2d")(unsqueeze(input, -2), size, step, edge, apart, ceil_mode).squeeze(-2)


quantized_max_pool1d, quantized_max_pool2d, quantized_max_pool3d = _pool(1), _pool(2), _pool(3)
