"""Sharding of views: each says which dimension of its operand each dimension of its result is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from flambeau.distributed.tensor._ops.registry import RESHAPES, OpCall, Way, localizes, partials, rule
from flambeau.distributed.tensor.placement_types import Shard

#: For each dimension of the result, the operand's that it is, which may be cut for that; None: it may not.
Dims = list[int | None]


def _view(*names: str) -> Callable[[Callable[[OpCall], Dims]], Callable[[OpCall], Dims]]:
    """Makes the rule of views from a function that maps their dimensions."""

    def register(dims: Callable[[OpCall], Dims]) -> Callable[[OpCall], Dims]:
        def view_rule(call: OpCall) -> Iterable[Way]:
            count = len(call.results)
            for result, source in enumerate(dims(call)):
                if source is not None:
                    yield Way((Shard(result),) * count, (Shard(source),))
            for partial in partials(call, 0):
                yield Way((partial,) * count, (partial,))

        rule(*names)(view_rule)
        return dims

    return register


@_view("alias", "detach", "_conj")
def _same(call: OpCall) -> Dims:
    return list(range(call.operands[0].ndim))


@_view("t", "numpy_T", "mT", "adjoint")
def _transposed(call: OpCall) -> Dims:
    return list(range(call.operands[0].ndim))[::-1]


@_view("transpose")
def _transpose(call: OpCall) -> Dims:
    dims: Dims = list(range(call.operands[0].ndim))
    if dims:
        first, second = call.dim("dim0"), call.dim("dim1")
        dims[first], dims[second] = dims[second], dims[first]
    return dims


@_view("permute")
def _permute(call: OpCall) -> Dims:
    count = call.operands[0].ndim
    return [dim % count for dim in call["dims"]]


@_view("view_as_real")
def _view_as_real(call: OpCall) -> Dims:
    return [*range(call.operands[0].ndim), None]


@_view("view_as_complex")
def _view_as_complex(call: OpCall) -> Dims:
    return list(range(call.operands[0].ndim - 1))


@_view("unsqueeze")
def _unsqueeze(call: OpCall) -> Dims:
    count = call.operands[0].ndim
    dims: Dims = list(range(count))
    dims.insert(call.dim("dim", count + 1), None)
    return dims


@_view("squeeze")
def _squeeze(call: OpCall) -> Dims:
    shape = call.operands[0].shape
    chosen = set(call.dims("dim"))
    return [dim for dim, size in enumerate(shape) if dim not in chosen or size != 1]


@_view("select")
def _select(call: OpCall) -> Dims:
    taken = call.dim("dim")
    return [dim for dim in range(call.operands[0].ndim) if dim != taken]


@_view("unbind")
def _unbind(call: OpCall) -> Dims:
    return _select(call)


@_view("slice")
def _slice(call: OpCall) -> Dims:
    cut = call.dim("dim")
    whole = call.results[0].shape[cut] == call.operands[0].shape[cut] and call["step"] == 1
    return [dim if dim != cut or whole else None for dim in range(call.operands[0].ndim)]


@_view("split", "split_with_sizes", "chunk", "unsafe_split", "unsafe_split_with_sizes", "flip", "roll")
def _along(call: OpCall) -> Dims:
    name = "dim" if "dim" in call.arguments else "dims"
    excluded = call.dims(name) if call.arguments[name] != [] else list(range(call.operands[0].ndim))
    return [dim if dim not in excluded else None for dim in range(call.operands[0].ndim)]


@_view("expand")
def _expand(call: OpCall) -> Dims:
    shape, result = call.operands[0].shape, call.results[0].shape
    new = len(result) - len(shape)
    return [dim - new if dim >= new and shape[dim - new] == size else None for dim, size in enumerate(result)]


@_view("repeat")
def _repeat(call: OpCall) -> Dims:
    new = len(call["repeats"]) - call.operands[0].ndim
    return [dim - new if dim >= new and times == 1 else None for dim, times in enumerate(call["repeats"])]


@_view("repeat_interleave")
def _repeat_interleave(call: OpCall) -> Dims:
    dims: Dims = list(range(len(call.results[0].shape)))
    if call.func._overloadname != "self_int" or call["dim"] is None:
        return [None] * len(dims)
    along = call.dim("dim")
    return [dim if dim != along or call.even(0, dim, call.operands[0].shape[dim]) else None for dim in range(len(dims))]


@_view(*RESHAPES)
def _reshape(call: OpCall) -> Dims:
    """Dimensions merge and split in groups of equal sizes; the outermost of a group may be cut, evenly."""
    shape, result = call.operands[0].shape, call.results[0].shape
    if call.func._overloadname == "dtype":
        return [*range(len(shape) - 1), None]
    dims: Dims = [None] * len(result)
    if 0 in shape:
        return dims
    for sources, targets in _groups(shape, result):
        if len(sources) == len(targets) == 1:  # it stays as it is, however unevenly it is cut
            dims[targets[0]] = sources[0]
            continue
        outer_source = next((dim for dim in sources if shape[dim] != 1), None)
        outer_target = next((dim for dim in targets if result[dim] != 1), None)
        if outer_source is None or outer_target is None:
            continue
        sizes = shape[outer_source], result[outer_target]
        same = sizes[0] == sizes[1]
        if same or all(call.even(0, outer_source, size) for size in sizes):
            dims[outer_target] = outer_source
    return dims


def _groups(shape: Sequence[int], result: Sequence[int]) -> Iterable[tuple[list[int], list[int]]]:
    """The dimensions of both, in the smallest groups that have as many elements."""
    i = j = 0
    while i < len(shape) or j < len(result):
        sources, targets, own, new = [], [], 1, 1
        while True:
            if own <= new and i < len(shape) and (own < new or not sources):
                sources.append(i)
                own *= shape[i]
                i += 1
            elif j < len(result) and (new < own or not targets):
                targets.append(j)
                new *= result[j]
                j += 1
            else:
                break
        yield sources, targets


localizes("size", "view", "_unsafe_view", "expand", "new_zeros", "new_ones", "new_full", "new_empty", "view_copy")
localizes("shape", "reshape")
