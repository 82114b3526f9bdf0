"""How translations write nodes: Builder, and Size, a number that is known when the model runs.

Stands on `_graph`, `_folding` and `_types`; used by translations and by `_translate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import flambeau as torch
from flambeau.onnx._folding import fold
from flambeau.onnx._graph import Graph, Node, SymbolicDim, Value
from flambeau.onnx._shapes import shape_of
from flambeau.onnx._types import dtype_of, number_of, numpy_dtype

__all__ = ["Builder", "Size"]

_BOOLS = frozenset("Equal Less LessOrEqual Greater GreaterOrEqual Not And Or Xor IsNaN IsInf".split())
_LONGS = frozenset("Shape Size NonZero ArgMax ArgMin".split())
_SECOND = {"TopK": torch.int64, "MaxPool": torch.int64, "Unique": torch.int64, "Dropout": torch.bool}


class Size:
    """A number that depends on the sizes of inputs: an int64 tensor of shape (1,). Arithmetic with it makes nodes."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, builder: Builder, value: Value) -> None:
        self.builder, self.value = builder, value

    def _with(self, op_type: str, a: Any, b: Any) -> Any:
        if isinstance(a, (float, Real)) or isinstance(b, (float, Real)):
            return Real(self.builder, self.builder.real(self))._with(op_type, a, b)
        return self.builder.as_size(self.builder.op(op_type, self.builder.ints([a]), self.builder.ints([b])))

    def __truediv__(self, other: Any) -> Any:
        return Real(self.builder, self.builder.real(self)) / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / Real(self.builder, self.builder.real(self))

    def __add__(self, other: Any) -> Any:
        return self if _is(other, 0) else self._with("Add", self, other)

    def __radd__(self, other: Any) -> Any:
        return self if _is(other, 0) else self._with("Add", other, self)

    def __sub__(self, other: Any) -> Any:
        return self if _is(other, 0) else self._with("Sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._with("Sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return self if _is(other, 1) else self._with("Mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self if _is(other, 1) else self._with("Mul", other, self)

    def __neg__(self) -> Any:
        return self.builder.as_size(self.builder.op("Neg", self.value))

    def __floordiv__(self, other: Any) -> Any:
        if _is(other, 1):
            return self
        return (self - self % other)._with("Div", self - self % other, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._with("Div", other - other % self, self)

    def __mod__(self, other: Any) -> Any:
        return self._with("Mod", self, other)

    def __pow__(self, other: Any) -> Any:
        return self._with("Pow", self, other)

    def __rmod__(self, other: Any) -> Any:
        return self._with("Mod", other, self)


class Real:
    """A float that depends on the sizes of inputs: a float64 tensor of shape (1,)."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, builder: Builder, value: Value) -> None:
        self.builder, self.value = builder, value

    def _with(self, op_type: str, a: Any, b: Any) -> Real:
        return Real(self.builder, self.builder.op(op_type, self.builder.real(a), self.builder.real(b)))

    def __add__(self, other: Any) -> Real:
        return self._with("Add", self, other)

    def __radd__(self, other: Any) -> Real:
        return self._with("Add", other, self)

    def __sub__(self, other: Any) -> Real:
        return self._with("Sub", self, other)

    def __rsub__(self, other: Any) -> Real:
        return self._with("Sub", other, self)

    def __mul__(self, other: Any) -> Real:
        return self._with("Mul", self, other)

    def __rmul__(self, other: Any) -> Real:
        return self._with("Mul", other, self)

    def __truediv__(self, other: Any) -> Real:
        return self._with("Div", self, other)

    def __rtruediv__(self, other: Any) -> Real:
        return self._with("Div", other, self)

    def __pow__(self, other: Any) -> Real:
        return self._with("Pow", self, other)

    def __neg__(self) -> Real:
        return Real(self.builder, self.builder.op("Neg", self.value))

    def rounded(self, op_type: str = "") -> Any:
        """The whole number: towards 0, or as Floor or Ceil gives it."""
        value = self.builder.op(op_type, self.value) if op_type else self.value
        return self.builder.as_size(self.builder.cast(value, torch.int64))


def _is(x: Any, number: int) -> bool:
    return isinstance(x, int) and x == number


class Builder:
    """Writes nodes into a graph.

    opset: the version of the operator set, which is at least 18; wanted: the one that was asked for, whose operators may be kept
    whole; out: the fake tensor, or tuple of them, that the operator which is being translated gives; origin: what its nodes are
    told of where they come from; domains: the versions of other operator sets.
    """

    def __init__(self, graph: Graph, opset: int, wanted: int) -> None:
        self.graph, self.opset, self.wanted = graph, opset, wanted
        self.out: Any = None
        self.target = ""
        self.origin: dict[str, str] = {}
        self.domains: dict[str, int] = {}
        self._constants: dict[Any, Value] = {}
        self._sizes: dict[tuple[Value, int], Size] = {}

    # ---------------------------------------------------------------- nodes

    def op(
        self,
        op_type: str,
        *inputs: Any,
        outputs: int = 1,
        dtype: torch.dtype | None = None,
        shape: Sequence[Any] | None = None,
        domain: str = "",
        attributes: dict[str, Any] | None = None,
        **more: Any,
    ) -> Any:
        """A node; its value, or a tuple of `outputs`.

        inputs: Values, None for one that is left out, lists of numbers and Sizes, which become int64 vectors, and numbers, which
        become constants of the first Value's dtype. dtype, shape: of the first output, where they don't follow from the operator;
        attributes, more: the node's attributes, None for one that is left out.
        """
        given = self._inputs(inputs)
        attributes = {name: x for name, x in {**(attributes or {}), **more}.items() if x is not None}
        if outputs == 1 and not domain and all(x is None or x.constant is not None for x in given):
            folded = fold(op_type, [x.const_value for x in given if x is not None], attributes)
            if folded is not None:
                return self._array(folded)
        first = next((x.dtype for x in given if x is not None), None)
        if dtype is None:
            dtype = torch.bool if op_type in _BOOLS else torch.int64 if op_type in _LONGS else first
            if op_type == "Where":
                dtype = given[1].dtype
        if shape is None and not domain:
            shape = shape_of(op_type, given, attributes)
        made = [Value(dtype=dtype, shape=shape), *(Value(dtype=_SECOND.get(op_type, dtype)) for _ in range(outputs - 1))]
        self.graph.nodes.append(Node(op_type, given, made, attributes, domain, metadata_props=self.origin))
        return made[0] if outputs == 1 else tuple(made)

    def again(self, x: Value) -> Value:
        """Another name for a value."""
        made = Value(dtype=x.dtype, shape=x.shape)
        self.graph.nodes.append(Node("Identity", [x], [made]))
        return made

    def _inputs(self, inputs: Sequence[Any]) -> list[Any]:
        like = next((x.dtype for x in inputs if isinstance(x, Value)), None)
        given = [
            x if x is None or isinstance(x, Value) else self.ints(x) if isinstance(x, (list, tuple)) else self.number(x, like)
            for x in inputs
        ]
        while given and given[-1] is None:
            given.pop()
        return given

    # ---------------------------------------------------------------- constants

    def const(self, value: Any, dtype: torch.dtype = torch.int64) -> Value:
        """A constant tensor of a number, of nested lists of numbers, or of an array."""
        return self._array(np.asarray(value).astype(numpy_dtype(dtype)))

    def _array(self, array: np.ndarray) -> Value:
        key = (array.dtype.name, array.shape, array.tobytes())
        if key not in self._constants:
            flat = np.ascontiguousarray(array).reshape(array.shape)
            self._constants[key] = Value(dtype=dtype_of(array), shape=array.shape, const_value=flat)
        return self._constants[key]

    def number(self, x: Any, dtype: torch.dtype | None) -> Value:
        """A tensor without dimensions, of a number or a Size."""
        if isinstance(x, (Size, Real)):
            return self.cast(self.op("Squeeze", x.value, [0], shape=()), dtype or x.value.dtype)
        if dtype is None:
            dtype = torch.bool if isinstance(x, bool) else torch.int64 if isinstance(x, int) else torch.float32
        return self.const(x, dtype)

    def ints(self, numbers: Sequence[Any]) -> Value:
        """An int64 vector of numbers and Sizes."""
        if len(numbers) == 1 and isinstance(numbers[0], Size):
            return numbers[0].value
        if not any(isinstance(n, Size) for n in numbers):
            return self.const(np.array([int(n) for n in numbers], np.int64))
        parts: list[Any] = []
        for n in numbers:
            if isinstance(n, Size):
                parts.append(n.value)
            elif parts and isinstance(parts[-1], list):
                parts[-1].append(int(n))
            else:
                parts.append([int(n)])
        return self.op("Concat", *parts, axis=0, shape=(len(numbers),))

    def real(self, x: Any) -> Value:
        """A float64 vector of one number, Size or Real."""
        if isinstance(x, Real):
            return x.value
        return self.cast(x.value, torch.float64) if isinstance(x, Size) else self.const([x], torch.float64)

    # ---------------------------------------------------------------- sizes

    def as_size(self, value: Value) -> Any:
        """A vector of one number as a number: an int if it is a constant."""
        return int(value.constant[0]) if value.constant is not None else Size(self, value)

    def size(self, x: Value, dim: int) -> Any:
        """A size of a tensor: a number, or a Size."""
        dim %= x.rank
        known = x.shape[dim]
        if isinstance(known, int):
            return known
        if (x, dim) not in self._sizes:
            self._sizes[x, dim] = Size(self, self.op("Shape", x, start=dim, end=dim + 1, shape=(1,)))
        return self._sizes[x, dim]

    def sizes(self, x: Value) -> list[Any]:
        """The sizes of a tensor."""
        return [self.size(x, dim) for dim in range(x.rank)]

    def smaller(self, a: Any, b: Any) -> Any:
        """The smaller of two numbers or Sizes."""
        return self.as_size(self.op("Min", self.ints([a]), self.ints([b])))

    def range(self, start: Any, end: Any, step: Any = 1) -> Value:
        """The numbers from one to before another."""
        count = (end - start) // step if all(isinstance(n, int) for n in (start, end, step)) else None
        return self.op("Range", *(self.number(n, torch.int64) for n in (start, end, step)), shape=[_unknown(count)])

    # ---------------------------------------------------------------- what many translations need

    def cast(self, x: Value, dtype: torch.dtype) -> Value:
        """A tensor in a dtype."""
        if x.dtype == dtype:
            return x
        return self.op("Cast", x, to=int(number_of(dtype)), dtype=dtype)

    def value(self, x: Any, dtype: torch.dtype) -> Value:
        """A tensor, number or Size in a dtype."""
        return self.cast(x, dtype) if isinstance(x, Value) else self.number(x, dtype)

    def reshape(self, x: Value, sizes: Sequence[Any]) -> Value:
        """A tensor in another shape; -1 stands for what is left."""
        shape = [n if isinstance(n, int) and n >= 0 else None for n in sizes]
        return self.op("Reshape", x, list(sizes), allowzero=1 if 0 in shape else None, shape=[_unknown(n) for n in shape])

    def unsqueeze(self, x: Value, *dims: int) -> Value:
        """A tensor with new dimensions at the places that they get."""
        shape = None
        if x.shape is not None:
            shape = list(x.shape)
            for dim in sorted(d % (x.rank + len(dims)) for d in dims):
                shape.insert(dim, 1)
        return self.op("Unsqueeze", x, list(dims), shape=shape)

    def squeeze(self, x: Value, *dims: int) -> Value:
        """A tensor without dimensions, whose sizes are 1."""
        shape = None
        if x.shape is not None:
            gone = {d % x.rank for d in dims}
            shape = [n for i, n in enumerate(x.shape) if i not in gone]
        return self.op("Squeeze", x, list(dims), shape=shape)

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        """A tensor whose dimensions are in another order."""
        if list(perm) == list(range(len(perm))):
            return x
        shape = None if x.shape is None else [x.shape[d] for d in perm]
        return self.op("Transpose", x, perm=list(perm), shape=shape)

    def swap(self, x: Value, a: int, b: int) -> Value:
        """A tensor with two dimensions exchanged."""
        perm = list(range(x.rank))
        perm[a], perm[b] = perm[b], perm[a]
        return self.transpose(x, perm)

    def slice(self, x: Value, dim: int, start: Any, end: Any, step: int = 1) -> Value:
        """A part of a tensor along a dimension."""
        return self.op("Slice", x, [start], [end], [dim], [step] if step != 1 else None)

    def full(self, sizes: Sequence[Any], number: Any, dtype: torch.dtype) -> Value:
        """A tensor of one number."""
        shape = [n if isinstance(n, int) else _unknown(None) for n in sizes]
        if isinstance(number, (Value, Size)):
            return self.op("Expand", self.value(number, dtype), list(sizes), shape=shape)
        if dtype == torch.bool:  # runtimes differ in whether they fill with truths
            return self.cast(self.full(sizes, int(bool(number)), torch.int64), torch.bool)
        fill = np.full(1, number, numpy_dtype(dtype))
        return self.op("ConstantOfShape", list(sizes), value=fill, dtype=dtype, shape=shape)


def _unknown(n: Any) -> Any:
    return SymbolicDim(None) if n is None else n
