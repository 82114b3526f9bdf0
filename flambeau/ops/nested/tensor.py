"""Nested tensors: a batch of tensors that differ in size, packed one after the other.

There are two layouts. A `Strided` one (`torch.strided`) lies in a buffer of one dimension and has a size and strides for each of
its tensors. A `Jagged` one (`torch.jagged`) is a plain tensor in which one dimension joins the rows of all of them, with the
offsets at which each begins; the lengths are one symbolic size of its shape. As a sparse tensor (ops.sparse), a nested one
holds a plain tensor and has its place in the graph: **only plain tensors are in the graph**, so that an operator on nested
tensors is written in operators on what they hold and has the derivatives of every order that those have.

What answers a call is found by the function's name in the `rules` of the class, which the other modules of this room fill;
anything else raises the words of PyTorch's dispatcher. Nothing of the room is loaded before a program makes a nested tensor.
Stands on core and the operators; used by the room flambeau.nested, by namespace and by nn.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, ClassVar

from flambeau.base import layout as layouts
from flambeau.base.aten_schemas import table
from flambeau.base.dtype import get_default_dtype
from flambeau.base.geometry import wrap_dim
from flambeau.base.layout import Layout, Size, contiguous_strides
from flambeau.base.naming import public_module
from flambeau.base.symbolic.nested_int import nested_int
from flambeau.base.symbolic.numbers import SymInt
from flambeau.codegen.runtime import launch
from flambeau.core.autograd.node import AccumulateGrad, rename
from flambeau.core.modes.autocast import autocasting, cast_arguments
from flambeau.core.modes.overrides import redispatch
from flambeau.core.operator.publishing import NAMESPACE, OPERATORS
from flambeau.core.operator.unsupported import not_run
from flambeau.core.tensor.delegate import HeldTensor
from flambeau.core.tensor.tensor import Tensor, tensor_from

Rule = Callable[..., Any]


def renamed(tensor: Any, name: str) -> Any:
    """The tensor, the last step to which is called `name` as in PyTorch."""
    node = tensor._node
    if node is not None and type(node) is not AccumulateGrad:
        rename(node, name)
    return tensor


def function(name: str) -> Callable[..., Any]:
    """The public function of that name, as dense tensors have it."""
    return NAMESPACE.get(name) or OPERATORS[name].public  # type: ignore[no-any-return]


def first_nested(arguments: Any) -> Any:
    """The first nested tensor among arguments and in their lists."""
    for x in arguments:
        if isinstance(x, NestedTensor):
            return x
        if isinstance(x, (list, tuple)):
            found = first_nested(x)
            if found is not None:
                return found
    return None


class NestedTensor(HeldTensor):
    """What the two layouts have in common."""

    rules: ClassVar[dict[str, Rule]] = {}
    is_nested = True
    is_sparse = is_sparse_csr = is_quantized = is_mkldnn = volatile = False
    is_xpu = is_mps = is_ipu = is_maia = is_mtia = is_vulkan = is_xla = False
    name = None
    _viewed: Any = None
    _replay: Callable[[Any], Any] | None = None

    @property
    def _base(self) -> Any:
        """The tensor of which this is a view; None of one that isn't."""
        return self._viewed

    def _is_view(self) -> bool:
        """Whether it is a view."""
        return self._viewed is not None

    def _view_func(self, new_base: Any) -> Any:
        """The same view of another tensor of the base's shape. NotImplementedError of a view of a view."""
        if self._replay is None:
            raise NotImplementedError("_view_func() of a nested tensor which is a view of a view: repeat the calls that made it")
        return self._replay(new_base)

    @classmethod
    def __torch_function__(cls, func: Callable, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        name = getattr(func, "__name__", str(func))
        held = first_nested([*args, *given.values()])
        found = type(held).rule_of(name, func)
        if found is not None:
            operator = getattr(func, "operator", None)
            if operator is not None and autocasting(operator):
                with cast_arguments(operator, args, given) as (values, named):
                    return found(*values, **named)
            if isinstance(given.get("out"), Tensor):
                return given["out"].copy_(found(*args, **{key: x for key, x in given.items() if key != "out"}))
            return found(*args, **given)
        if getattr(func, "operator", None) is None and name not in OPERATORS and not hasattr(Tensor, name):
            return redispatch(func, types, args, given)  # a function of Python, made of others
        raise held.refused(name, args)

    @classmethod
    def rule_of(cls, name: str, func: Callable) -> Rule | None:
        """What answers a function on tensors of this class."""
        return cls.rules.get(name)

    def refused(self, name: str, args: Sequence[Any]) -> NotImplementedError:
        """The error of an operator that doesn't exist for the layout."""
        raise NotImplementedError

    def numel(self) -> int:
        """The number of elements of all tensors together."""
        raise NotImplementedError

    nelement = numel
    nbytes = property(lambda self: self.numel() * self.element_size(), doc="The bytes of all elements together.")

    def backward(
        self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
    ) -> None:
        """Add up the gradients of the leaves behind this tensor, weighted with a gradient of its shape."""
        if self.requires_grad and gradient is None and self.numel() != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        if self.requires_grad and gradient is None:
            gradient = self.like(NAMESPACE["ones_like"](self._entries))
        super().backward(gradient, retain_graph, create_graph, inputs)


def blank(cls: type, shape: Sequence[int], entries: Tensor) -> Any:
    """A tensor of a class, of which only the dimensions, the dtype and what it holds are known."""
    layout = Layout.contiguous(tuple(shape), entries._layout.dtype, entries._layout.device)
    made = tensor_from(launch.new_storage(-1), 0, layout.in_memory().with_flavor(cls))
    made.__class__ = cls
    made._entries = entries
    return made


def view_of(made: Any, base: Any, replay: Callable[[Any], Any] | None = None) -> Any:
    """`made`, as a view of `base` or of what that is a view of. replay: what makes the same view of another base."""
    if made is not base:
        under = base._base
        made._viewed = base if under is None else under
        made._replay = replay if under is None else None
    return made


def _adder(cls: type) -> Callable[..., Callable[[Rule], Rule]]:
    def rule(*names: str) -> Callable[[Rule], Rule]:
        def add(function: Rule) -> Rule:
            for name in names:
                cls.rules[name] = function  # type: ignore[attr-defined]
            return function

        return add

    return rule


# ---------------------------------------------------------------- torch.strided


class Strided(NestedTensor):
    """Tensors in a buffer. `_entries`: the buffer (one dimension); `_sizes`, `_strides`: of each tensor; `_starts`: the element
    of the buffer at which each begins."""

    rules: ClassVar[dict[str, Rule]] = {}
    layout = layouts.strided
    _sizes: list[tuple[int, ...]]
    _strides: list[tuple[int, ...]]
    _starts: list[int]

    def refused(self, name: str, args: Sequence[Any]) -> NotImplementedError:
        lines = table().get("aten::" + name, {})
        second = args[1] if len(args) > 1 else None
        overload = {"default": ""}.get(kind := _overload(list(lines), second), "." + kind)
        return NotImplementedError(not_run(name + overload, "NestedTensorCPU"))

    def like(self, entries: Tensor) -> Strided:
        return strided(entries, self._sizes, self._strides, self._starts)

    def aligned(self, other: Any) -> Tensor:
        if not isinstance(other, Strided) or other._sizes != self._sizes:
            raise RuntimeError("a gradient of a nested tensor must be nested and of the same sizes")
        if other._strides == self._strides and other._starts == self._starts and other.fills_buffer:
            return other._entries
        if self.in_order:
            return packed(pieces(other))._entries
        made = NAMESPACE["zeros_like"](self._entries)
        for own, given in zip(pieces(self.like(made)), pieces(other)):
            own.copy_(given)
        return made

    @property
    def in_order(self) -> bool:
        """Whether the tensors are contiguous and lie in the buffer one after the other."""
        start = 0
        for size, steps, at in zip(self._sizes, self._strides, self._starts):
            if at != start or steps != contiguous_strides(size):
                return False
            start += _product(size)
        return True

    @property
    def fills_buffer(self) -> bool:
        """Whether every element of the buffer belongs to a tensor, so that it can be computed with as a whole."""
        return self._entries._layout.numel == self.numel()

    # ---- sizes
    def numel(self) -> int:
        return sum(map(_product, self._sizes))

    nelement = numel

    def size(self, dim: int | None = None) -> Any:
        """The size of a dimension in which all tensors agree. RuntimeError for another, and for all of them."""
        if dim is None:
            raise RuntimeError("Internal error: NestedTensorImpl doesn't support sizes. Please file an issue.")
        at = wrap_dim(dim, self._layout.ndim)
        if at == 0:
            return len(self._sizes)
        found = {size[at - 1] for size in self._sizes}
        if len(found) != 1:
            raise RuntimeError(f"Given dimension {at} is irregular and does not have a size.")
        return found.pop()

    shape = property(lambda self: self.size())

    def __len__(self) -> int:
        return self.size()  # type: ignore[no-any-return]

    def stride(self, dim: int | None = None) -> Any:
        """RuntimeError: each tensor has its own."""
        raise RuntimeError("Internal error: NestedTensorImpl doesn't support strides. Please file an issue.")

    def is_contiguous(self, memory_format: Any = layouts.contiguous_format) -> bool:
        """Whether the tensors are contiguous and lie one after the other."""
        return self.in_order


def _overload(known: list[str], second: Any) -> str:
    """The name of the overload that is meant, among those that there are."""
    wanted = "Tensor" if isinstance(second, Tensor) else "Tensor_Scalar" if second is not None else "default"
    for name in (wanted, "Scalar" if second is not None else "default", "default", *known):
        if name in known:
            return name
    return "default"


def _product(size: Sequence[int]) -> int:
    count = 1
    for n in size:
        count *= n
    return count


def strided(entries: Tensor, sizes: list[Any], strides: list[Any] | None = None, starts: list[int] | None = None) -> Strided:
    """The tensor with these parts, which nobody checks; by default its tensors lie one after the other."""
    made: Strided = blank(Strided, (len(sizes), *[1] * (len(sizes[0]) if sizes else 0)), entries)
    made._sizes = sizes
    made._strides = [tuple(contiguous_strides(size)) for size in sizes] if strides is None else strides
    if starts is None:
        starts, at = [], 0
        for size in sizes:
            starts.append(at)
            at += _product(size)
    made._starts = starts
    return made


def pieces(x: Strided) -> list[Tensor]:
    """The tensors, views of the buffer."""
    if not x._sizes:
        return []
    buffer = x._entries
    if x.in_order and x.fills_buffer:
        parts = buffer.split([_product(size) for size in x._sizes])
        return [part.view(size) for part, size in zip(parts, x._sizes)]
    offset = buffer.storage_offset()
    return [buffer.as_strided(size, steps, offset + at) for size, steps, at in zip(x._sizes, x._strides, x._starts)]


def packed(tensors: Sequence[Tensor]) -> Strided:
    """The nested tensor of these, copied to a buffer."""
    buffer = NAMESPACE["cat"]([t.reshape(-1) for t in tensors])
    return strided(buffer, [tuple(t._layout.shape) for t in tensors])


# ---------------------------------------------------------------- torch.jagged


class Ragged:
    """The rows of jagged tensors: where each begins (`offsets`: int64, one more than there are rows) and, where there are holes
    between them, its length. Tensors with the same rows share it, and so the size that stands for the lengths."""

    _numbers: ClassVar[dict[int, tuple[Any, int]]] = {}
    _last: ClassVar[int] = 0

    def __init__(self, offsets: Tensor, lengths: Tensor | None = None, least: int | None = None, most: int | None = None):
        self.offsets, self.lengths, self._least, self._most = offsets, lengths, least, most
        self.size = nested_int(self.number(offsets if lengths is None else lengths))
        self._bounds: list[tuple[int, int]] | None = None

    @classmethod
    def number(cls, rows: Tensor) -> int:
        """The number of the nested int that stands for what a tensor of offsets or lengths holds."""
        if id(rows) not in cls._numbers:
            Ragged._last += 1
            cls.give_number(rows, Ragged._last)
        return cls._numbers[id(rows)][1]

    @classmethod
    def give_number(cls, rows: Tensor, number: int) -> None:
        """Have a tensor of offsets or lengths hold what another with this number holds."""
        key = id(rows)
        cls._numbers[key] = (weakref.ref(rows, lambda _: cls._numbers.pop(key, None)), number)

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """Where each row begins, and its length."""
        if self._bounds is None:
            starts = self.offsets.tolist()
            lengths = [b - a for a, b in pairwise(starts)] if self.lengths is None else self.lengths.tolist()
            self._bounds = list(zip(starts, lengths))
        return self._bounds

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.offsets._layout.shape[0] - 1

    @property
    def most(self) -> int:
        """The length of the longest row."""
        if self._most is None:
            self._most = max((n for _, n in self.bounds), default=0)
        return self._most

    @property
    def least(self) -> int:
        """The length of the shortest row."""
        if self._least is None:
            self._least = min((n for _, n in self.bounds), default=0)
        return self._least

    @property
    def known(self) -> dict[str, Tensor]:
        """What is known of the lengths, as PyTorch keeps it: as the shapes of empty tensors."""
        return {
            name: self.offsets.new_empty((n, 0), dtype=get_default_dtype())
            for name, n in (("min_seqlen", self._least), ("max_seqlen", self._most))
            if n is not None
        }

    @property
    def known_most(self) -> int | None:
        """The length of the longest row if it has been asked for or given."""
        return self._most

    @property
    def known_least(self) -> int | None:
        """The length of the shortest row if it has been asked for or given."""
        return self._least


class Jagged(NestedTensor):
    """Rows in a plain tensor. `_entries`: that tensor, without the batch's dimension; `_rows`: where the rows are in it;
    `_ragged_idx`: the dimension, the batch's counted, along which they lie."""

    rules: ClassVar[dict[str, Rule]] = {}
    layout = layouts.jagged
    _rows: Ragged
    _ragged_idx: int

    def __new__(
        cls, values: Tensor, offsets: Tensor, *, lengths: Tensor | None = None, requires_grad: bool = False, **metadata: Any
    ) -> Any:
        """The tensor of these values and rows.

        _ragged_idx: along which dimension the rows lie (1); _metadata_cache: what is known of their lengths.
        """
        known = metadata.get("_metadata_cache") or {}
        rows = Ragged(offsets, lengths, _shown(known.get("min_seqlen")), _shown(known.get("max_seqlen")))
        made = jagged(values.detach(), rows, metadata.get("_ragged_idx", 1))
        return made.requires_grad_() if requires_grad else made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    @classmethod
    def rule_of(cls, name: str, func: Callable) -> Rule | None:
        found = cls.rules.get(name)
        if found is None and (name in _pointwise() or (name.endswith("_") and name[:-1] in _pointwise())):
            return lambda *args, **kwargs: cls.rules["pointwise"](func, *args, **kwargs)
        return found

    def refused(self, name: str, args: Sequence[Any]) -> NotImplementedError:
        lines = table().get("aten::" + name, {})
        return NotImplementedError(f"aten.{name}.{_overload(list(lines), args[1] if len(args) > 1 else None)}")

    def like(self, entries: Tensor) -> Jagged:
        return jagged(entries, self._rows, self._ragged_idx)

    def aligned(self, other: Any) -> Tensor:
        if not isinstance(other, Jagged) or other.shape != self.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[0] has a shape of {tuple(other.shape)} and output[0] has a shape of "
                f"{tuple(self.shape)}."
            )
        return other._entries

    # ---- parts
    _metadata_cache = property(lambda self: self._rows.known, doc="What is known of the rows' lengths.")
    _values = property(lambda self: self._entries, doc="The rows of all tensors.")
    _offsets = property(lambda self: self._rows.offsets, doc="Where each row begins, and the last ends.")
    _lengths = property(lambda self: self._rows.lengths, doc="The rows' lengths where there are holes between them; or None.")
    _max_seqlen = property(lambda self: self._rows.most, doc="The length of the longest row.")
    _min_seqlen = property(lambda self: self._rows.least, doc="The length of the shortest row.")
    _maybe_max_seqlen = property(lambda self: self._rows.known_most, doc="The same, if it is known without a look.")
    _maybe_min_seqlen = property(lambda self: self._rows.known_least, doc="The same, if it is known without a look.")

    _max_seqlen_tensor = property(lambda self: self._rows.known.get("max_seqlen"), doc="It as the shape of an empty tensor.")
    _min_seqlen_tensor = property(lambda self: self._rows.known.get("min_seqlen"), doc="It as the shape of an empty tensor.")

    def _get_max_seqlen(self) -> int:
        return self._rows.most

    def _get_min_seqlen(self) -> int:
        return self._rows.least

    def offsets(self) -> Tensor:
        """Where each row begins, and the last ends: int64 (tensors + 1)."""
        return self._rows.offsets

    def lengths(self) -> Tensor | None:
        """The rows' lengths where there are holes between them; None where there are none."""
        return self._rows.lengths

    # ---- sizes
    @property
    def shape(self) -> Size:
        """The sizes; that of the rows is a nested int."""
        values = self._entries._layout.shape
        at = self._ragged_idx - 1
        return Size((self._rows.count, *values[:at], self._rows.size, *values[at + 1 :]))

    def size(self, dim: int | None = None) -> Any:
        """The sizes, or that of one dimension."""
        return self.shape if dim is None else self.shape[wrap_dim(dim, self._layout.ndim)]

    def __len__(self) -> int:
        return self._rows.count

    def numel(self) -> int:
        values = self._entries._layout
        if self._rows.lengths is None:
            return values.numel
        rows = values.shape[self._ragged_idx - 1]
        return sum(n for _, n in self._rows.bounds) * (values.numel // rows if rows else 0)

    nelement = numel

    def stride(self, dim: int | None = None) -> Any:
        """The strides; the batch's is a multiple of the rows' size."""
        steps = self._entries._layout.strides
        every = (self._rows.size * steps[self._ragged_idx - 1], *steps)
        return every if dim is None else every[wrap_dim(dim, len(every))]

    def storage_offset(self) -> int:
        """That of the values."""
        return self._entries.storage_offset()  # type: ignore[no-any-return]

    def is_contiguous(self, memory_format: Any = layouts.contiguous_format) -> bool:
        """Whether the values are contiguous, and there are no holes between the rows."""
        return self._rows.lengths is None and self._entries.is_contiguous()


Jagged.__name__ = Jagged.__qualname__ = "NestedTensor"
Jagged.__module__ = public_module("nested._internal.nested_tensor")
Strided.__name__ = Strided.__qualname__ = "Tensor"  # PyTorch has no class for it: `type(x)` prints as torch.Tensor does
Strided.__module__ = Tensor.__module__


def _shown(cached: Any) -> int | None:
    """A length that PyTorch keeps as the shape of an empty tensor."""
    return cached if cached is None or isinstance(cached, int) else int(cached.shape[0])


_POINTWISE: set[str] = set()


def _pointwise() -> set[str]:
    """The names of the functions that compute element by element."""
    if not _POINTWISE:
        for name, overloads in table().items():
            if name.startswith("aten::") and any("pointwise" in line.rpartition(" | ")[2].split() for line in overloads.values()):
                _POINTWISE.add(name[6:])
        _POINTWISE.update("_rdiv rsub __pow__ __rpow__ __invert__ __and__ __or__ __xor__ multiply subtract divide".split())
    return _POINTWISE


def jagged(entries: Tensor, rows: Ragged, ragged_idx: int = 1) -> Jagged:
    """The tensor with these parts, which nobody checks."""
    shape = list(entries._layout.shape)
    if 0 < ragged_idx <= len(shape):
        shape[ragged_idx - 1] = 1
    made: Jagged = blank(Jagged, (rows.count, *shape), entries)
    made._rows, made._ragged_idx = rows, ragged_idx
    return made


def row_views(x: Jagged) -> list[Tensor]:
    """The tensors, views of the values."""
    along = x._ragged_idx - 1
    if not 0 <= along < x._entries._layout.ndim:
        raise RuntimeError(f"unbind(): nested tensor ragged_idx out of bounds (should be >= 1), got {x._ragged_idx}")
    extent = x._entries._layout.shape[along]
    if any(start + length > extent or length < 0 or start < 0 for start, length in x._rows.bounds):
        raise RuntimeError("unbind(): nested tensor offsets and lengths do not match ragged_idx dimension")
    if x._rows.lengths is None and x._rows.bounds and x._rows.bounds[0][0] == 0 and sum(n for _, n in x._rows.bounds) == extent:
        return list(x._entries.split([n for _, n in x._rows.bounds], along))
    return [x._entries.narrow(along, start, length) for start, length in x._rows.bounds]


def is_ragged(size: Any) -> bool:
    """Whether a size stands for the lengths of rows."""
    return isinstance(size, SymInt) and size.node.is_nested_int()


rule_of_strided, rule_of_jagged = _adder(Strided), _adder(Jagged)
__all__ = ["Jagged", "NestedTensor", "Ragged", "Strided", "jagged", "packed", "pieces", "row_views", "strided"]
