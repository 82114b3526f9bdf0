"""Transforms under way, and the tensors that carry them: `Level` and `Wrapped`.

A transform in progress is a Level on this thread's stack. The tensors it concerns are instances of a subclass of
Tensor that shows the shape the transformed function sees and has no memory of its own; operators reach it by
`__torch_function__`, so nothing costs anything while no transform is active. A call belongs to the innermost level
among its arguments; what that level computes it computes with public operators on what its tensors hold, which may
belong to levels further out. At the bottom lie plain tensors, and only those are in the graph.

Whatever reads memory past the interception finds none and fails: `NoData` recognises that.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from flambeau.base.aten_schemas import tagged
from flambeau.base.layout import Size
from flambeau.codegen.runtime import launch, messages
from flambeau.core.autograd.node import Node
from flambeau.core.modes import observing
from flambeau.core.modes.modes import local
from flambeau.core.operator.publishing import NAMESPACE, OPERATORS
from flambeau.core.tensor.storage import without_memory
from flambeau.core.tensor.tensor import Tensor, tensor_from

__all__ = [
    "Level",
    "Wrapped",
    "becomes_a_view",
    "deepest",
    "each_tensor",
    "has_no_data",
    "invoke",
    "lacks_data",
    "mapped",
    "operator_of",
    "stack",
]

NO_STORAGE = "Cannot access data pointer of Tensor that doesn't have storage"


class _Stack(threading.local):
    """The levels of this thread, innermost last."""

    def __init__(self) -> None:
        self.levels: list[Level] = []


stack = _Stack()


class Level:
    """One transform in progress; `depth` counts from 1. Used as a context."""

    depth = 0
    aside: Any = None  # the observer that sees nothing of what is transformed

    def __enter__(self) -> Any:
        self.aside = observing.put_aside()
        self.depth = len(stack.levels) + 1
        stack.levels.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        while stack.levels:
            level = stack.levels.pop()
            level.depth = 0  # what outlives its level belongs to none
            if level.aside is not None:
                local.observer, level.aside = level.aside, None
            if level is self:
                return

    def answer(self, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The result of an operator call whose innermost wrapped argument belongs to this level."""
        raise NotImplementedError


class Wrapped(Tensor):
    """A tensor as a transformed function sees it. `level` it belongs to; `held`: the tensor that has its gradient."""

    level: Any  # the Level
    answered_first = True  # before classes that answer operators below autograd

    @property
    def held(self) -> Any:
        """The tensor one level further out whose place in the graph is this one's."""
        raise NotImplementedError

    @property
    def _node(self) -> Node | None:  # type: ignore[override]
        return self.held._node

    @_node.setter
    def _node(self, node: Node | None) -> None:
        raise RuntimeError(messages.NO_DATA)  # only plain tensors are in the graph

    @property
    def _index(self) -> int:  # type: ignore[override]
        return self.held._index

    @_index.setter
    def _index(self, index: int) -> None:
        raise RuntimeError(messages.NO_DATA)

    @classmethod
    def __torch_function__(cls, func: Callable, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        func = getattr(func, "as_view", func)  # rules are those of the declared views below public functions
        level = deepest([*args, *keywords.values()])
        if level is None:
            return invoke(func, mapped(remainder, tuple(args)), mapped(remainder, keywords))
        return level.answer(func, args, keywords)

    def remains(self) -> Any:
        """What there is of it after the end of its transform. RuntimeError if nothing is."""
        raise RuntimeError(
            "a tensor of a transform that has ended was used; return it from the transformed function instead of storing "
            "it elsewhere"
        )

    @property
    def _version(self) -> int:
        return self.held._version

    # What it is can be told without asking anybody.
    shape, dtype, device, ndim = Tensor.shape, Tensor.dtype, Tensor.device, Tensor.ndim
    nbytes, itemsize = Tensor.nbytes, Tensor.itemsize
    size, stride, dim, numel, nelement, ndimension = (
        Tensor.size,
        Tensor.stride,
        Tensor.dim,
        Tensor.numel,
        Tensor.nelement,
        Tensor.ndimension,
    )
    element_size, is_floating_point, is_complex, is_signed = (
        Tensor.element_size,
        Tensor.is_floating_point,
        Tensor.is_complex,
        Tensor.is_signed,
    )
    data = property(lambda self: self.held.data, doc="It without its tangent and graph.")
    requires_grad = property(lambda self: self.held.requires_grad)
    is_leaf = property(lambda self: self.held.is_leaf)
    grad_fn = property(lambda self: self.held.grad_fn)
    __len__, __hash__ = Tensor.__len__, Tensor.__hash__

    def __iter__(self) -> Iterator[Any]:
        if not self._layout.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))  # type: ignore[attr-defined]

    def storage_offset(self) -> int:
        """Where what it holds begins in its memory: the first of all examples, or the value."""
        return self.held.storage_offset()

    def data_ptr(self) -> int:
        """RuntimeError: it has no memory of its own."""
        raise RuntimeError(NO_STORAGE)

    untyped_storage = __array__ = numpy = data_ptr  # type: ignore[assignment]


@functools.cache
def operator_of(function: Callable) -> Any:
    """The declaration behind a function that calls are known by, or None."""
    declared = getattr(function, "operator", None)
    function = getattr(function, "__wrapped__", function)
    if declared is None:  # a function that only chooses among operators
        found = OPERATORS.get(getattr(function, "__name__", ""))
        if found is not None and (
            found.public is function or getattr(found.public, "__globals__", {}).get(found.name) is function
        ):
            declared = found
    return declared


def becomes_a_view(name: str) -> bool:
    """Whether a tensor is a view of what it was after the in-place operator of that name."""
    return name[:-1] in NAMESPACE and tagged(name, "inplace_view") and name != "as_strided_"  # whose strides are told


def blank(cls: type, layout: Any) -> Any:
    """An instance of a class of wrapped tensors with this layout and no memory."""
    made = tensor_from(launch.new_storage(-1), 0, layout.in_memory().with_flavor(cls))
    made.__class__ = cls
    return made


def each_tensor(arguments: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among arguments and in their lists, tuples and dicts."""
    for x in arguments:
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, (list, tuple)):
            yield from each_tensor(x)
        elif isinstance(x, dict):
            yield from each_tensor(x.values())


def deepest(arguments: Iterable[Any]) -> Level | None:
    """The innermost level that a tensor among the arguments belongs to."""
    found: Level | None = None
    for x in each_tensor(arguments):
        if isinstance(x, Wrapped) and x.level.depth and (found is None or x.level.depth > found.depth):
            found = x.level
    return found


def mapped(function: Callable[[Any], Any], given: Any) -> Any:
    """`given` with function(x) in the place of each tensor x in it."""
    if isinstance(given, Tensor):
        return function(given)
    if isinstance(given, (list, tuple)) and not isinstance(given, Size):
        made = [mapped(function, x) for x in given]
        return type(given)(*made) if hasattr(given, "_fields") else type(given)(made)
    if isinstance(given, dict):
        return {key: mapped(function, x) for key, x in given.items()}
    return given


def remainder(x: Any) -> Any:
    """A tensor itself, or what remains of one whose transform has ended."""
    return x.remains() if isinstance(x, Wrapped) and not x.level.depth else x


def not_for_all(words: str) -> RuntimeError:
    """The error of what can be done for one example, but not for all at once: a branch on a value, a number taken out,
    ...

    Inside an operator's body it is a reason to run that for each example.
    """
    error = RuntimeError(words)
    error.for_one = True  # type: ignore[attr-defined]
    return error


def has_no_data(error: BaseException) -> bool:
    """Whether an error says that memory was read of a tensor that has none."""
    return isinstance(error, RuntimeError) and error.args == (messages.NO_DATA,)


def lacks_data(result: Any) -> bool:
    """Whether a tensor of a result is a view of a wrapped tensor's memory, made past the interception."""
    return any(
        not isinstance(x, Wrapped) and without_memory(x._storage) and x._layout.device.type != "meta"
        for x in each_tensor((result,))
    )


def invoke(function: Callable, args: Sequence[Any], kwargs: dict[str, Any] | None = None) -> Any:
    """function(*args, **kwargs) for any function or method of tensors, also one that doesn't look for overrides itself."""
    keywords = kwargs or {}
    level = deepest([*args, *keywords.values()])
    return function(*args, **keywords) if level is None else level.answer(function, args, keywords)


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """What a tensor inside a transform holds: all examples, or the value without its tangent; for looking at, not to
    compute with."""
    while isinstance(tensor, Wrapped):
        tensor = tensor.held
        if not recurse:
            break
    return tensor
