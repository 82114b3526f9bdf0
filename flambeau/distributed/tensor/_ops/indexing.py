"""Sharding of joining, gathering, scattering and embedding."""

from __future__ import annotations

from collections.abc import Iterable

from flambeau.distributed.tensor._ops.registry import OpCall, P, R, S, Way, localizes, outer_dims, partials, rule


@rule("cat")
def cat(call: OpCall) -> Iterable[Way]:
    """Every dimension but the joined one; sums of all."""
    ndim = max(spec.ndim for spec in call.operands)
    if all(spec.ndim == ndim for spec in call.operands):
        for dim in outer_dims(call, [call.dim("dim", ndim)]):
            yield Way((S(dim),), (S(dim),) * len(call.operands))
    for partial in partials(call):
        yield Way((partial,), (partial,) * len(call.operands))


@rule("stack")
def stack(call: OpCall) -> Iterable[Way]:
    """Every dimension of the operands, which may move one to the right."""
    ndim = call.operands[0].ndim
    new = call.dim("dim", ndim + 1)
    for dim in range(ndim):
        yield Way((S(dim + (dim >= new)),), (S(dim),) * len(call.operands))
    for partial in partials(call, norms=True):
        yield Way((partial,), (partial,) * len(call.operands))


@rule("embedding")
def embedding(call: OpCall) -> Iterable[Way]:
    """Indices, or the features of the table. (Rows of the table: `_embedding_rows`.)"""
    indices = call.operand("indices")
    assert indices is not None
    for dim in range(indices.ndim):
        yield call.way(S(dim), indices=S(dim))
    yield call.way(S(indices.ndim), weight=S(1))


@rule("embedding_dense_backward")
def embedding_backward(call: OpCall) -> Iterable[Way]:
    """The table's gradient: a sum over indices, or cut by features."""
    indices = call.operand("indices")
    assert indices is not None
    for dim in range(indices.ndim):
        yield call.way(P, grad_output=S(dim), indices=S(dim))
    yield call.way(S(1), grad_output=S(indices.ndim))
    for partial in partials(call, 0):
        yield call.way(partial, grad_output=partial)


@rule("index_select")
def index_select(call: OpCall) -> Iterable[Way]:
    """Dimensions that nothing is selected of; or the index."""
    chosen = call.dim("dim")
    for dim in outer_dims(call, [chosen]):
        yield call.way(S(dim), self=S(dim))
    yield call.way(S(chosen), index=S(0))


@rule("gather", "take_along_dim")
def gather(call: OpCall) -> Iterable[Way]:
    """Dimensions that nothing is gathered along, if both have as many; or the index."""
    chosen = call.dim("dim")
    index = call.operand("index")
    assert index is not None
    for dim in outer_dims(call, [chosen]):
        if call.operands[0].shape[dim] == index.shape[dim]:
            yield call.way(S(dim), self=S(dim), index=S(dim))
    if index.ndim:
        yield call.way(S(chosen), index=S(chosen))


@rule("scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_")
def scatter(call: OpCall) -> Iterable[Way]:
    """Dimensions that nothing is scattered along, if all have as many."""
    chosen = call.dim("dim")
    for dim in outer_dims(call, [chosen]):
        if all(spec.ndim > dim and spec.shape[dim] == call.operands[0].shape[dim] for spec in call.operands):
            yield Way((S(dim),), (S(dim),) * len(call.operands))


@rule("index_add", "index_add_", "index_copy", "index_copy_", "index_fill", "index_fill_")
def index_write(call: OpCall) -> Iterable[Way]:
    """Dimensions that are not indexed."""
    chosen = call.dim("dim")
    source = call.operand("source")
    for dim in outer_dims(call, [chosen]):
        yield call.way(S(dim), self=S(dim), **({"source": S(dim)} if source is not None and source.ndim else {}))


@rule("index")
def index(call: OpCall) -> Iterable[Way]:
    """Dimensions after the indexed ones, or the indices' own where one alone is given."""
    given = call["indices"]
    used = [place for place, found in enumerate(given) if found is not None]
    results = call.results[0].shape
    source = call.operands[0]
    if used != list(range(len(used))):
        return
    behind = len(results) - (source.ndim - len(used))
    for dim in range(len(used), source.ndim):
        yield call.way(S(behind + dim - len(used)), self=S(dim))
    if len(used) == 1:
        for dim in range(call.operands[given[0]].ndim):
            yield call.way(S(dim), indices=S(dim))


@rule("index_put", "index_put_", "_index_put_impl_")
def index_put(call: OpCall) -> Iterable[Way]:
    """Dimensions behind the indexed ones, where the values have them."""
    given = call["indices"]
    used = [place for place, found in enumerate(given) if found is not None]
    source, values = call.operands[0], call.operand("values")
    assert values is not None
    if used != list(range(len(used))):
        return
    for dim in range(len(used), source.ndim):
        own = dim - source.ndim + values.ndim
        broadcast = own < 0 or values.shape[own] == 1
        yield call.way(S(dim), self=S(dim), values=R if broadcast else S(own))


@rule("slice_backward", "select_backward")
def view_backward(call: OpCall) -> Iterable[Way]:
    """A gradient put into zeros: the dimensions that were not cut."""
    count = len(call.results[0].shape)
    chosen = call.dim("dim", count)
    selected = call.func._opname == "select_backward"
    for dim in range(count):
        if dim != chosen:
            yield Way((S(dim),), (S(dim - (selected and dim > chosen)),))
    for partial in partials(call):
        yield Way((partial,), (partial,))


localizes("input_sizes", "slice_backward", "select_backward")


@rule("slice_scatter", "select_scatter")
def view_scatter(call: OpCall) -> Iterable[Way]:
    """A tensor with a part of it replaced: the dimensions that were not cut."""
    chosen = call.dim("dim")
    selected = call.func._opname == "select_scatter"
    for dim in outer_dims(call, [chosen]):
        yield call.way(S(dim), self=S(dim), src=S(dim - (selected and dim > chosen)))


@rule("bucketize", "isin", "searchsorted")
def by_value(call: OpCall) -> Iterable[Way]:
    """Each value is looked up by itself."""
    index = 1 if call.func._opname == "searchsorted" else 0
    if index == 1 and call.operands[0].ndim != 1:
        return
    for dim in range(call.operands[index].ndim):
        yield Way((S(dim),), tuple(S(dim) if k == index else R for k in range(len(call.operands))))
