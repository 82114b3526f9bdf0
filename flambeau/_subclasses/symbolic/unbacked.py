"""Operators whose results only a run tells: numbers of tensors, and results with as many elements as values say.

Each gives a number, or a tensor, with a new symbol. Used by run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau._subclasses.symbolic.rules import Call
from flambeau._subclasses.symbolic.state import describe, expr_of, offset_of, plain_sizes, sizes_of, strides_of
from flambeau.base.symbolic.expressions import ZERO, Expr, as_expr, product, rebuild
from flambeau.base.symbolic.numbers import plain_value
from flambeau.core.tensor import fakes
from flambeau.core.tensor.tensor import Tensor

__all__ = ["UNBACKED"]

UNBACKED: dict[str, Callable[[Call], Any]] = {}
_MOST = 2**63 - 2


def _unbacked(*names: str) -> Callable[[Callable[[Call], Any]], Callable[[Call], Any]]:
    def keep(function: Callable[[Call], Any]) -> Callable[[Call], Any]:
        UNBACKED.update(dict.fromkeys(names, function))
        return function

    return keep


@_unbacked("item", "_local_scalar_dense")
def _number(call: Call) -> Any:
    x = call["self"]
    if not fakes.is_fake(x._layout) or fakes.known_value(x) is not None:
        return NotImplemented
    if x.dtype.is_complex:
        return NotImplemented
    writes, number = x.__dict__.get("_item", (None, None))
    if writes != x._storage.writes:  # the same number each time, until something is written to the tensor
        kind = "symfloat" if x.dtype.is_floating_point else "symbool" if x.dtype.name == "bool" else "symint"
        number = getattr(call.env, f"create_unbacked_{kind}")()
        x.__dict__["_item"] = x._storage.writes, number
    return number


def _sized(call: Call, like: Tensor, shape: list[Any], dtype: Any) -> Tensor:
    """A tensor with sizes of which some are symbols that are new."""
    env = call.env
    exprs = [as_expr(n) if isinstance(n, int) else n for n in shape]
    numbers = [int(env.value_of(e)) for e in exprs]
    stand_ins: Any = like._layout.device.stand_ins
    with plain_sizes(), stand_ins.mode:
        made = torch.empty(numbers, dtype=dtype, device=like.device)
    describe(made, env, exprs)
    return made


def _elements(call: Call, x: Tensor) -> int:
    """The most elements that a tensor has."""
    return int(min(call.env.bound_sympy(product(*sizes_of(x))).upper, _MOST))


def _count(call: Call, most: Any = _MOST, low: int = 0) -> Any:
    made = call.env.create_unbacked_symint(stand_in=low + 2 if low else None).node._expr
    call.env.constrain_size(made, low, most)
    return made


@_unbacked("nonzero")
def _nonzero(call: Call) -> Any:
    x = call["self"]
    if not fakes.is_fake(x._layout):
        return NotImplemented
    return _sized(call, x, [_count(call, _elements(call, x)), as_expr(x._layout.ndim)], torch.int64)


@_unbacked("where", "nonzero_numpy")
def _places(call: Call) -> Any:
    """The indices of what isn't zero, one tensor for each dimension."""
    x = call["condition" if call.name == "where" else "self"]
    if len(call.given) != 1 or not fakes.is_fake(x._layout):
        return NotImplemented
    count = _count(call, _elements(call, x))
    return [_sized(call, x, [count], torch.int64) for _ in range(max(x._layout.ndim, 1))]


@_unbacked("_unique2", "unique_consecutive", "unique_dim", "unique_dim_consecutive")
def _different(call: Call) -> Any:
    """What is different, where each element or row is among it, and how often it is there."""
    x = call["self"]
    if not fakes.is_fake(x._layout):
        return NotImplemented
    whole, along = list(sizes_of(x)), call["dim"]
    if along is None:
        count = _count(call, _elements(call, x))
        shape, inverse = [count], whole
    else:
        dim = call.axis()
        count = _count(call, int(whole[dim]) if whole[dim].is_number else _MOST)
        shape, inverse = [*whole[:dim], count, *whole[dim + 1 :]], [whole[dim]]
    none = [as_expr(0)]
    return (
        _sized(call, x, shape, x.dtype),
        _sized(call, x, inverse if call["return_inverse"] else none, torch.int64),
        _sized(call, x, [count] if call["return_counts"] else none, torch.int64),
    )


@_unbacked("repeat_interleave")
def _repeated(call: Call) -> Any:
    """Rows, or the index of each, as often as each is repeated."""
    repeats, size, form = call["repeats"], call["output_size"], call.overload._overloadname
    if form == "self_int" or not fakes.is_fake(repeats._layout):
        return NotImplemented
    count = _count(call) if size is None else expr_of(size)
    if form == "Tensor":
        return _sized(call, repeats, [count], repeats.dtype)
    x = call["self"]
    whole = list(sizes_of(x))
    shape = [count] if call["dim"] is None else [*whole[: call.axis()], count, *whole[call.axis() + 1 :]]
    return _sized(call, x, shape, x.dtype)


@_unbacked("bincount")
def _counted(call: Call) -> Any:
    """How often each number is there."""
    x = call["self"]
    if not fakes.is_fake(x._layout):
        return NotImplemented
    count = _count(call, low=int(call["minlength"] or 0))
    weights = call["weights"]
    kind = torch.int64 if weights is None else weights.dtype if weights.dtype == torch.float32 else torch.float64
    return _sized(call, x, [count], kind)


@_unbacked("select")
def _selected(call: Call) -> Any:
    """A part whose place only a run tells: where it begins is unknown, too."""
    index = expr_of(call["index"])
    if call.overload._overloadname != "int" or not call.env.unbacked_in(index):
        return NotImplemented
    x, dim = call["self"], call.axis()
    own, steps = list(sizes_of(x)), list(strides_of(x))
    with plain_sizes():
        made = call.overload(x, dim, 0)
    begin = call.env.create_unbacked_symint(stand_in=made._offset).node._expr
    call.env.constrain_size(begin)
    describe(made, call.env, own[:dim] + own[dim + 1 :], steps[:dim] + steps[dim + 1 :], begin)
    return made


@_unbacked("masked_select")
def _masked(call: Call) -> Any:
    x = call["self"]
    if not fakes.is_fake(x._layout):
        return NotImplemented
    return _sized(call, x, [_count(call, _elements(call, x))], x.dtype)


def _bound(env: Any, value: Any, size: Expr, missing: Expr) -> Expr | None:
    """Where a slice begins or ends in a dimension; None if it isn't known from which side that is counted."""
    e = missing if value is None else expr_of(value)
    if env.decide(rebuild("Lt", (e, ZERO))):
        return env.simplify(rebuild("Max", (ZERO, e + size)))  # type: ignore[no-any-return]
    if not env.decide(rebuild("Ge", (e, ZERO))):
        return None
    if env.decide(rebuild("Le", (e, size))):
        return e
    return size if env.decide(rebuild("Gt", (e, size))) else rebuild("Min", (size, e))


@_unbacked("slice")
def _sliced(call: Call) -> Any:
    bounds = [expr_of(call[n]) for n in ("start", "end") if call[n] is not None]
    if not any(call.env.unbacked_in(e) for e in bounds):
        return NotImplemented
    made = _sliced_by_bounds(call)
    return _sliced_somewhere(call) if made is None else made


def _sliced_by_bounds(call: Call) -> Any:
    """A slice whose ends are counted from a side that is known; None where it isn't, or for steps."""
    dim, env = call.axis(), call.env
    own, steps = list(sizes_of(call["self"])), strides_of(call["self"])
    start, end = _bound(env, call["start"], own[dim], ZERO), _bound(env, call["end"], own[dim], own[dim])
    if start is None or end is None or call["step"] not in (None, 1):
        return None
    length = end - start
    own[dim] = length if env.decide(rebuild("Ge", (length, ZERO))) else rebuild("Max", (ZERO, length))
    made = _with_numbers(call)
    describe(made, env, own, steps, offset_of(call["self"]) + start * steps[dim])
    return made


def _with_numbers(call: Call) -> Any:
    with plain_sizes():
        return call.overload(*[plain_value(x) for x in call.args], **{k: plain_value(x) for k, x in call.kwargs.items()})


def _sliced_somewhere(call: Call) -> Any:
    dim = call.axis()
    own = list(call.sizes())
    made = _with_numbers(call)
    most = own[dim].value if own[dim].is_number else _MOST
    number = call.env.create_unbacked_symint(stand_in=made._layout.shape[dim]).node._expr
    call.env.constrain_size(number, 0, most)
    own[dim] = number
    describe(made, call.env, own, strides_of(call["self"]))
    return made


@_unbacked("index")
def _by_mask(call: Call) -> Any:
    """An index by one mask of the front dimensions."""
    x, indices = call["self"], call["indices"]
    masks = [i for i in indices if isinstance(i, Tensor) and i.dtype.name in ("bool", "uint8")]
    if not masks or not fakes.is_fake(x._layout):
        return NotImplemented
    if len(indices) != 1:
        raise NotImplementedError(f"{call.overload} by a mask beside other indices is not implemented in flambeau; use one mask")
    ndim = masks[0]._layout.ndim
    rest = list(sizes_of(x))[ndim:]
    return _sized(call, x, [_count(call), *rest], x.dtype)
