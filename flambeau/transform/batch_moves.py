"""Batching rules of what moves elements through index tensors, and of cat and stack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base.dtype import bool_, uint8
from flambeau.base.geometry import wrap_dim
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor import indexing
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.elementwise.ternary import where
from flambeau.ops.indexing import index as indexing_index
from flambeau.ops.indexing import index_select as indexing_index_select
from flambeau.ops.indexing import scatter
from flambeau.ops.nn import embedding as nn_embedding
from flambeau.ops.views import cat as views_cat
from flambeau.transform.batch_rows import bound, call
from flambeau.transform.batched import Batch, rule
from flambeau.transform.levels import invoke

_MASKED = (
    "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over indexing with a "
    "boolean mask."
)


# ---------------------------------------------------------------- x[indices]


def _prepared(batch: Batch, input: Any, indices: Sequence[Any]) -> tuple[list[int], list[Any], int, int]:
    """(indexed dimensions, their index tensors, dimensions of the selection, the place of these in the result)."""
    made: list[Any] = list(indices)
    if any(i is not None and i._layout.dtype in (bool_, uint8) for i in made):
        if any(batch.has(i) for i in made if i is not None and i._layout.dtype in (bool_, uint8)):
            raise RuntimeError(_MASKED)
        indexing.check_masks(input, made)
        made = indexing.expand_masks(made)
    if len(made) > input._layout.ndim:
        raise IndexError(f"too many indices for tensor of dimension {input._layout.ndim} (got {len(made)})")
    dims = [d for d, i in enumerate(made) if i is not None]
    given = [made[d] for d in dims]
    return dims, given, max(i._layout.ndim for i in given), dims[0] if indexing.adjacent(made) else 0


def _positions(batch: Batch, given: list[Any], ndim: int, examples: bool) -> list[Any]:
    """Index tensors for all examples; `examples`: with the number of the example as the first of them."""
    aligned = [batch.aligned(i, ndim) for i in given]
    if not examples:
        return aligned
    if not any(batch.has(i) for i in given):
        return [None, *aligned]
    return [NAMESPACE["arange"](batch.size).reshape((-1,) + (1,) * ndim), *aligned]


@rule(indexing_index.gather_index)
def index(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """x[indices]: the indexed dimensions come first, and what is selected goes where it belongs."""
    input, indices = [*args, *kwargs.values()][:2]
    if all(i is None for i in indices):
        return input.clone()
    dims, given, ndim, place = _prepared(batch, input, indices)
    batched = batch.has(input)
    value = input.value if batched else input
    value = value.movedim(tuple([d + batched for d in dims]), tuple([k + batched for k in range(len(dims))]))
    made = invoke(indexing.gathering(), (value, tuple(_positions(batch, given, ndim, batched))))
    if ndim and place:
        made = made.movedim(tuple(range(1, ndim + 1)), tuple(range(place + 1, place + ndim + 1)))
    return batch.wrap(made)


@rule(indexing_index._index_put, "_index_put", "index_put_", "_index_put_")
def index_put(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """x[indices] = values."""
    named = dict(zip(("input", "indices", "values", "accumulate"), args)) | kwargs
    input, values = named["input"], named["values"]
    in_place = function.__name__.endswith("_")
    if in_place:
        batch.check_target(input, "index_put_")
    dims, given, ndim, place = _prepared(batch, input, named["indices"])
    target = input.value if in_place else batch.lift(input).clone()
    view = target.movedim(tuple([d + 1 for d in dims]), tuple([k + 1 for k in range(len(dims))]))
    positions = _positions(batch, given, ndim, True)
    shape = indexing.broadcast_indices(given)
    rest = [size for d, size in enumerate(input._layout.shape) if d not in dims]
    values = values.expand((*rest[:place], *shape, *rest[place:]))
    if ndim and place:
        values = values.movedim(tuple(range(place, place + ndim)), tuple(range(ndim)))
    view.index_put_(tuple(positions), batch.lift(values), bool(named.get("accumulate", False)))
    return input if in_place else batch.wrap(target)


@rule(indexing_index_select.index_select)
def index_select(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Slices along a dimension."""
    named = bound(function, args, kwargs)
    input, dim, chosen = named["input"], named["dim"], named["index"]
    if not batch.has(chosen) and input._layout.ndim:
        return batch.wrap(invoke(function, (input.value, wrap_dim(dim, input._layout.ndim) + 1, chosen)))
    if not input._layout.ndim:
        return index_select(batch, function, (input.unsqueeze(0), 0, chosen), {}).reshape(())
    if not chosen._layout.ndim:
        chosen = chosen.unsqueeze(0)
    return invoke(indexing.gathering(), (input, (*(None,) * wrap_dim(dim, input._layout.ndim), chosen)))


@rule(indexing_index_select.take)
def take(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Elements by their number."""
    input, chosen = [*args, *kwargs.values()]
    return invoke(indexing.gathering(), (input.reshape(-1), (chosen,)))


@rule(
    indexing_index_select.index_add,
    indexing_index_select.index_copy,
    indexing_index_select.index_fill,
    indexing_index_select.index_reduce,
    "index_add_",
    "index_copy_",
    "index_fill_",
    "index_reduce_",
)
def write_slices(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Slices written or added along a dimension; with an index per example, by way of x[index] = values."""
    name = function.__name__
    names = ("input", "dim", "index", "value" if name.startswith("index_fill") else "source", "reduce")
    named = dict(zip(names, args)) | kwargs
    input, dim, chosen = named["input"], named["dim"], named["index"]
    if name.endswith("_"):
        batch.check_target(input, name)
        input.copy_(write_slices(batch, getattr(NAMESPACE[name[:-1]], "__wrapped__", NAMESPACE[name[:-1]]), args, kwargs))
        return input
    if not input._layout.ndim or (batch.has(chosen) and name == "index_reduce") or isinstance(named.get("alpha", 1), Tensor):
        return batch.loop(function, args, kwargs)
    dim = wrap_dim(dim, input._layout.ndim)
    if not batch.has(chosen) and not isinstance(named.get("value"), Tensor):
        for key in ("input", "source"):
            if key in named:
                if not named[key]._layout.ndim:
                    return batch.loop(function, args, kwargs)
                named[key] = batch.lift(named[key])
        positional = [named.pop(n) for n in names if n in named]
        positional[1] = dim + 1
        return batch.wrap(invoke(function, positional, named))
    source = named.get("source", named.get("value"))
    if not isinstance(source, Tensor):
        source = NAMESPACE["full"]((), source, dtype=input._layout.dtype)
    if name == "index_add" and named.get("alpha", 1) != 1:
        source = source * named["alpha"]
    if source._layout.ndim:
        source = source.movedim(dim, 0) if source._layout.ndim > dim else source
    if chosen._layout.ndim == 0:
        chosen = chosen.unsqueeze(0)
    moved = input.movedim(dim, 0).index_put((chosen,), source.to(input._layout.dtype), name == "index_add")
    return moved.movedim(0, dim)


@rule(scatter.gather, scatter.scatter, scatter.scatter_add, scatter.scatter_reduce)
def gather(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Elements taken from, or put to, places along a dimension."""
    named = bound(function, args, kwargs)
    tensors = {n: x for n, x in named.items() if isinstance(x, Tensor)}
    if isinstance(named.get("value"), Tensor):
        return batch.loop(function, args, kwargs)
    ndim = max(x._layout.ndim for x in tensors.values())
    for n, x in tensors.items():
        named[n] = batch.lift(x)
        if x._layout.ndim == 0:
            named[n] = named[n].unsqueeze(1)
    result = call(function, named | {"dim": wrap_dim(named["dim"], max(ndim, 1)) + 1})
    wanted = tensors["index" if function is scatter.gather else "input"]._layout.ndim
    return batch.wrap(result if wanted else result.select(1, 0))


@rule(nn_embedding._embedding, declared=True)
def embedding(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Rows of a table; the row at padding_idx gets no gradient."""
    named = bound(function, args, kwargs)
    weight, places = named["weight"], named["indices"]
    if not batch.has(weight):
        return batch.wrap(call(function, named | {"indices": places.value}))
    rows = invoke(indexing.gathering(), (weight, (places,)))
    if named["padding_idx"] >= 0:
        rows = where((places == named["padding_idx"]).unsqueeze(-1), rows.detach(), rows)
    return rows


@rule(nn_embedding._backward)
def embedding_backward(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The gradient of a table of rows."""
    named = bound(function, args, kwargs)
    grad, places = named["grad"], named["indices"]
    if named["scale_grad_by_freq"]:
        return batch.loop(function, args, kwargs)
    width = grad._layout.shape[-1]
    if named["padding_idx"] >= 0:
        grad = grad.masked_fill((places == named["padding_idx"]).unsqueeze(-1), 0)
    zeros = NAMESPACE["zeros"](named["count"], width, dtype=grad._layout.dtype)
    return zeros.index_put((places.reshape(-1),), grad.reshape(-1, width), True)


# ---------------------------------------------------------------- cat and stack


@rule(views_cat._cat)
def cat(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Tensors one behind the other; empty vectors don't count."""
    named = dict(zip(("tensors", "dim"), args)) | kwargs
    given = [x for x in named["tensors"] if x._layout.shape != (0,)] or list(named["tensors"])
    return batch.wrap(views_cat.cat([batch.lift(x) for x in given], wrap_dim(named.get("dim", 0), given[0]._layout.ndim) + 1))


@rule(views_cat._stack)
def stack(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Tensors side by side in a new dimension."""
    named = dict(zip(("tensors", "dim"), args)) | kwargs
    given = named["tensors"]
    return batch.wrap(
        views_cat.stack([batch.lift(x) for x in given], wrap_dim(named.get("dim", 0), given[0]._layout.ndim + 1) + 1)
    )


@rule(scatter.select_scatter, scatter.slice_scatter, scatter.diagonal_scatter)
def scatter_view(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A copy of a tensor with another written into a view of it."""
    named = bound(function, args, kwargs)
    ndim = named["input"]._layout.ndim
    for name in ("dim", "dim1", "dim2"):
        if name in named:
            named[name] = wrap_dim(named[name], ndim) + 1
    return batch.wrap(call(function, named | {"input": batch.lift(named["input"]), "src": batch.lift(named["src"])}))
