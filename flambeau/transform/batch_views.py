"""Batching rules of views: the same view of all examples, its dimensions one further."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base import geometry
from flambeau.base.geometry import wrap_dim
from flambeau.core.operator import view as views
from flambeau.core.tensor import indexing
from flambeau.core.tensor.tensor import Tensor
from flambeau.transform.batched import VIEWS, Batch, rule
from flambeau.transform.levels import each_tensor, invoke, not_for_all


def _view(*names: str) -> Callable:
    """Declare the rule of a view: a function (example, all examples, *arguments) -> the view of all examples."""

    def add(made: Callable) -> Callable:
        def answer(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
            return batch.wrap(made(args[0], args[0].value, *args[1:]))

        rule(*names, table=VIEWS)(answer)
        return made

    return add


def shifted(dim: int, ndim: int) -> int:
    """The dimension of all examples that is `dim` of one; IndexError if it has none such."""
    return wrap_dim(dim, ndim) + 1


_view("alias")(lambda x, value: value.alias())
_view("_conj")(lambda x, value: value.conj())
_view("_neg_view")(lambda x, value: value._neg_view())
_view("select")(lambda x, value, dim, index: value.select(shifted(dim, x._layout.ndim), index))
_view("unsqueeze")(lambda x, value, dim: value.unsqueeze(shifted(dim, x._layout.ndim + 1)))
_view("permute")(lambda x, value, dims: value.permute((0, *[shifted(d, x._layout.ndim) for d in dims])))


@rule("", table=VIEWS)
def _any(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A view that has no rule: its geometry says what is shown of an example, and so of all."""
    value = args[0].value
    own = value._layout
    shape, strides, offset = function.declared.geometry_of(own.shape[1:], own.strides[1:], *args[1:])  # type: ignore[attr-defined]
    shown = value.as_strided((own.shape[0], *shape), (own.strides[0], *strides), value.storage_offset() + offset)
    return batch.wrap(shown)


@_view("unfold")
def _(x: Any, value: Any, dim: int, size: int, step: int) -> Any:
    if not x._layout.ndim:
        return value.unsqueeze(1).unfold(1, size, step).select(1, 0)
    return value.unfold(shifted(dim, x._layout.ndim), size, step)


@_view("slice")
def _(x: Any, value: Any, dim: int, start: Any = None, end: Any = None, step: Any = 1) -> Any:
    return invoke(views.slice_, (value, shifted(dim, x._layout.ndim), start, end, step))


@_view("transpose")
def _(x: Any, value: Any, dim0: int, dim1: int) -> Any:
    ndim = x._layout.ndim
    if not ndim:
        wrap_dim(dim0, ndim), wrap_dim(dim1, ndim)
        return value.alias()
    return value.transpose(shifted(dim0, ndim), shifted(dim1, ndim))


@_view("t")
def _(x: Any, value: Any) -> Any:
    if x._layout.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {x._layout.ndim}D")
    return value.transpose(1, 2) if x._layout.ndim == 2 else value.alias()


@_view("squeeze")
def _(x: Any, value: Any, dims: Any = None) -> Any:
    shape, ndim = x._layout.shape, x._layout.ndim
    if dims is None:
        chosen = list(range(ndim))
    else:
        chosen = [wrap_dim(d, ndim) for d in (dims if isinstance(dims, tuple) else (dims,))]
    return value.squeeze(tuple([d + 1 for d in chosen if d < ndim and shape[d] == 1]))


@_view("diagonal")
def _(x: Any, value: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    return value.diagonal(offset, shifted(dim1, x._layout.ndim), shifted(dim2, x._layout.ndim))


@_view("expand")
def _(x: Any, value: Any, sizes: Any) -> Any:
    missing = len(sizes) - x._layout.ndim
    if missing > 0:
        value = value.reshape(value._layout.shape[:1] + (1,) * missing + x._layout.shape)
    elif missing < 0:
        geometry.expand_geometry(x._layout.shape, x._layout.strides, sizes)
    return value.expand((value._layout.shape[0], *sizes))


@_view("view", "reshape")
def _(x: Any, value: Any, sizes: Any) -> Any:
    return value.view((value._layout.shape[0], *geometry.infer_size(views.plain(sizes), x._layout.numel)))


@rule("as_strided")
def as_strided(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Any view of the memory that an example has. RuntimeError for one of other memory.

    An offset counts, as the tensor's own, from the beginning of the memory, where the first example lies.
    """
    named = dict(zip(("input", "size", "stride", "storage_offset"), args)) | kwargs
    value, size, stride = named["input"].value, tuple(named["size"]), tuple(named["stride"])
    first, own = value._offset, named["input"]._layout
    offset = first if named.get("storage_offset") is None else named["storage_offset"]
    if 0 not in own.shape and 0 not in size:
        last = [
            start + sum((n - 1) * s for n, s in zip(shape, strides))
            for start, shape, strides in ((offset, size, stride), (first, own.shape, own.strides))
        ]
        if offset < first or last[0] > last[1]:
            raise RuntimeError(
                f"result = tensor.as_strided({list(size)}, {list(stride)}, {offset}) can access memory outside of `tensor`. "
                f"`result` can access some memory in range [{offset}, {last[0] + 1}], but `tensor` can only access some memory "
                f"in range [{first}, {last[1] + 1}]. This is not supported inside of vmap, please try to rewrite the "
                "`as_strided` call as a sequence of PyTorch view operations"
            )
    return batch.wrap(value.as_strided((batch.size, *size), (value._layout.strides[0], *stride), offset))


@rule("view")
def view(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """`view` of sizes, or of a dtype."""
    x = args[0]
    rest = [*args[1:], *kwargs.values()]
    if len(rest) == 1 and not isinstance(rest[0], (int, tuple, list)):
        if not x._layout.ndim and rest[0].itemsize != x._layout.dtype.itemsize:
            raise RuntimeError(
                f"self.dim() cannot be 0 to view {x._layout.dtype.scalar_name} as {rest[0].scalar_name} (different element sizes)"
            )
        return batch.wrap(invoke(function, (x.value, rest[0])))
    sizes = tuple(rest[0]) if len(rest) == 1 and isinstance(rest[0], (tuple, list)) else tuple(rest)
    return batch.wrap(x.value.view((batch.size, *geometry.infer_size(views.plain(sizes), x._layout.numel))))


@rule("reshape")
def reshape(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A view where possible, else a copy."""
    x = args[0]
    rest = [*args[1:], *kwargs.values()]
    sizes = tuple(rest[0]) if len(rest) == 1 and isinstance(rest[0], (tuple, list)) else tuple(rest)
    return batch.wrap(x.value.reshape((batch.size, *geometry.infer_size(views.plain(sizes), x._layout.numel))))


@rule("reshape_as", "view_as")
def reshape_as(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The shape of another tensor."""
    shape = args[1]._layout.shape
    return args[0].reshape(shape) if function.__name__ == "reshape_as" else args[0].view(shape)


@rule("flatten")
def flatten(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Dimensions start_dim to end_dim as one."""
    x = args[0]
    given = dict(zip(("start_dim", "end_dim"), args[1:])) | kwargs
    ndim = x._layout.ndim
    start, end = wrap_dim(given.get("start_dim", 0), ndim), wrap_dim(given.get("end_dim", -1), ndim)
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    return x.reshape(1) if not ndim else batch.wrap(x.value.flatten(start + 1, end + 1))


@rule("split", "split_with_sizes", "chunk", "unbind", "tensor_split", "unsafe_split", "unsafe_chunk", "unsafe_split_with_sizes")
def parts(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The parts of all examples."""
    named = dict(kwargs)
    rest = list(args[1:])
    position = 0 if function.__name__ == "unbind" else 1
    dim = rest.pop(position) if len(rest) > position else named.pop("dim", 0)
    x = args[0]
    if not batch.has(x):
        raise not_for_all(f"{function.__name__}: the sizes of the parts can't depend on the example")
    if not x._layout.ndim:
        raise RuntimeError(f"{function.__name__} expects at least a 1-dimensional tensor")
    return tuple([batch.wrap(part) for part in invoke(function, (x.value, *rest), named | {"dim": shifted(dim, x._layout.ndim)})])


@rule("embed")
def embed(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Zeros with the gradients of all examples written into a view of them."""
    gradient, layout, view, *arguments = args
    whole = gradient.new_zeros(layout.shape)
    view(whole, *arguments).copy_(gradient)
    return whole


@rule("__getitem__")
def getitem(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """x[index]: the views of its ints and slices, then the tensors among its items."""
    input, index = args
    view, tensors = indexing.resolve(input, index)
    if not tensors:
        return invoke(views.alias, (view,)) if view is input else view
    return invoke(indexing.gathering(), (view, tensors))


@rule("__setitem__")
def setitem(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """x[index] = value."""
    input, index, value = args
    if not batch.has(input):
        raise batch.unfit(input, "index_put_" if any(each_tensor((index,))) else "inplace arithmetic")
    view, tensors = indexing.resolve(input, index)
    if not isinstance(value, Tensor):
        value = indexing.create.make_tensor(value, input._layout.dtype)
    if tensors:
        view.index_put_(tuple(tensors), value.to(view._layout.dtype))
    else:
        view.copy_(indexing.fitted(view, value))
