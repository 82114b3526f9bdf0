"""Parts of quantized tensors and their dimensions: of tensors with channels each has the quantizer of its part.

Stands on ops.quantized.tensor; ops.quantized.functions uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base.geometry import wrap_dim
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.quantized.tensor import (
    RULES,
    PerChannel,
    PerTensor,
    QuantizedTensor,
    codes,
    first_quantized,
    function,
    like,
    rule,
    wrapped,
)

__all__ = ["getitem", "plain", "select", "squeeze", "unsqueeze"]


def plain(arguments: Any, turn: Callable[[Any], Any]) -> Any:
    """Arguments in which `turn` stands for each quantized tensor."""
    if isinstance(arguments, QuantizedTensor):
        return turn(arguments)
    if isinstance(arguments, (tuple, list)) and first_quantized(arguments) is not None:
        return type(arguments)(plain(x, turn) for x in arguments)
    return arguments


def _part(x: Any, dim: int, index: Any) -> Any:
    """The quantizer of what an integer or a slice takes along a dimension, and what is left."""
    quantizer = x._quantizer
    if isinstance(quantizer, PerTensor):
        return quantizer
    if dim != quantizer.axis:
        if isinstance(index, slice):
            return quantizer
        if dim > quantizer.axis:
            return quantizer
        return quantizer.at(quantizer.axis - 1)
    if isinstance(index, slice):
        part = quantizer.at(dim, index)
        if part.scales.numel() != 1:
            return part
        index = slice(*index.indices(quantizer.scales.numel())).start
    return PerTensor(float(quantizer.scales[index]), int(quantizer.zero_points[index]))  # type: ignore[index]


def _took(x: Any, dim: int, index: Any, part: Tensor) -> Any:
    return wrapped(part, _part(x, dim, index), x.dtype)


@rule("select")
def select(input: Any, dim: int, index: int) -> Any:
    """One index of a dimension; of the axis of channels, a tensor with one scale."""
    at = wrap_dim(dim, input._layout.ndim)
    return _took(input, at, index, codes(input).select(at, index))  # type: ignore[attr-defined]


@rule("narrow")
def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    """`length` indices of a dimension."""
    at = wrap_dim(dim, input._layout.ndim)
    part = codes(input).narrow(at, start, length)  # type: ignore[attr-defined]
    start = int(start) % max(input._layout.shape[at], 1)
    return _took(input, at, slice(start, start + length), part)


def _divided(func: Callable, args: Sequence[Any], given: dict[str, Any]) -> Any:
    """A tensor in parts along a dimension, each with the quantizer of its part."""
    x = first_quantized([*args, *given.values()])
    parts = func(*[plain(a, codes) for a in args], **{name: plain(a, codes) for name, a in given.items()})
    dim = wrap_dim(given.get("dim", args[2] if len(args) > 2 else 0), x._layout.ndim)
    made, begin = [], 0
    for part in parts:
        end = begin + part._layout.shape[dim]
        made.append(_took(x, dim, slice(begin, end), part))
        begin = end
    return tuple(made)


RULES.update(dict.fromkeys("chunk split split_with_sizes tensor_split".split(), _divided))


@rule("unbind")
def unbind(input: Any, dim: int = 0) -> Any:
    """The indices of a dimension, each a tensor."""
    return tuple([select(input, dim, n) for n in range(input._layout.shape[wrap_dim(dim, input._layout.ndim)])])


@rule("squeeze")
def squeeze(input: Any, dim: Any = None) -> Any:
    """Without dimensions of size 1. RuntimeError if that of the channels is one of them."""
    made, quantizer, ndim = _squeezed(codes(input), dim), input._quantizer, input._layout.ndim
    if isinstance(quantizer, PerChannel):
        dims = range(ndim) if dim is None else [wrap_dim(d, ndim) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]
        gone = [d for d in dims if input._layout.shape[d] == 1]
        if quantizer.axis in gone:
            raise RuntimeError("Squeeze is only possible on non-axis dimension for Per-Channel Quantized Tensors.")
        quantizer = quantizer.at(quantizer.axis - sum(d < quantizer.axis for d in gone))
    return wrapped(made, quantizer, input.dtype)


def _squeezed(integers: Any, dim: Any) -> Any:
    return integers.squeeze() if dim is None else integers.squeeze(dim)


@rule("unsqueeze")
def unsqueeze(input: Any, dim: int) -> Any:
    """A new dimension of size 1."""
    at = wrap_dim(dim, input._layout.ndim + 1)
    quantizer = input._quantizer
    if isinstance(quantizer, PerChannel) and at <= quantizer.axis:
        quantizer = quantizer.at(quantizer.axis + 1)
    return wrapped(codes(input).unsqueeze(at), quantizer, input.dtype)  # type: ignore[attr-defined]


@rule("__getitem__")
def getitem(input: Any, key: Any) -> Any:
    """Indexing as of plain tensors; of tensors with channels, by integers and slices only."""
    if isinstance(input._quantizer, PerTensor):
        return like(input, codes(input)[key])  # type: ignore[index]
    keys = list(key) if isinstance(key, tuple) else [key]
    if any(isinstance(k, bool) or not (k is None or k is ... or isinstance(k, (int, slice))) for k in keys):
        raise RuntimeError("Setting strides is possible only on uniformly quantized tensor")
    if ... in keys:
        at, taken = keys.index(...), sum(k is not None and k is not ... for k in keys)
        keys[at : at + 1] = [slice(None)] * (input._layout.ndim - taken)
    made, dim = input, 0
    for k in keys:
        if k is None:
            made, dim = unsqueeze(made, dim), dim + 1
            continue
        if isinstance(k, slice) and k == slice(None):
            dim += 1
            continue
        made = _took(made, dim, k, codes(made)[(slice(None),) * dim + (k,)])  # type: ignore[index]
        dim += isinstance(k, slice)
    return made if made is not input else like(input, codes(input))


@rule("__iter__")
def iterate(input: Any) -> Any:
    """The parts along the first dimension, one after the other."""
    if not input._layout.ndim:
        raise TypeError("iteration over a 0-d tensor")
    return iter([select(input, 0, i) for i in range(input._layout.shape[0])])


def _turned(names: str, order: Callable[[int], Sequence[int]]) -> None:
    for name in names.split():
        setattr(QuantizedTensor, name, property(lambda x: function("permute")(x, order(x._layout.ndim))))


_turned("T", lambda n: range(n)[::-1])
_turned("H", lambda n: range(n)[::-1])
_turned("mT mH", lambda n: (*range(n - 2), n - 1, n - 2))
