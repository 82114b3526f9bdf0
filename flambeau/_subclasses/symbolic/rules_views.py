"""Rules of views: new shapes for the same elements, slices, parts. See `rules`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau._subclasses.symbolic.rules import Call, broadcast, rule
from flambeau._subclasses.symbolic.state import expr_of, sizes_of
from flambeau.base.symbolic.expressions import ONE, ZERO, Expr, integer, product, rebuild

_END = 2**63 - 1


@rule("view", "reshape", "_unsafe_view", "view_copy", "_reshape_alias")
def _reshaped(call: Call) -> Any:
    name = "shape" if "shape" in call.given else "size"
    if name not in call.given:  # to another dtype
        return None
    return [_with_elements(call, call.sizes(), call.exprs(name))]


def _with_elements(call: Call, own: Sequence[Expr], wanted: Sequence[Expr]) -> tuple[Expr, ...]:
    """A shape with one size left out as -1, which the number of elements tells."""
    numel = product(*own)
    open_ = [i for i, e in enumerate(wanted) if e == integer(-1)]
    made = list(wanted)
    if open_:
        rest = product(*[e for e in wanted if e != integer(-1)])
        call.needs("Eq", rebuild("Mod", (numel, rest)), ZERO)
        made[open_[0]] = rebuild("FloorDiv", (call.env.replace(numel), call.env.replace(rest)))
    else:
        call.needs("Eq", numel, product(*wanted))
    return tuple(map(call.env.replace, made))


@rule("flatten.using_ints")
def _flattened(call: Call) -> Any:
    own = call.sizes()
    if not own:
        return [(ONE,)]
    first, last = call.axis("start_dim"), call.axis("end_dim")
    return [own] if first == last else [(*own[:first], product(*own[first : last + 1]), *own[last + 1 :])]


@rule("unflatten.int")
def _unflattened(call: Call) -> Any:
    own, dim = call.sizes(), call.axis()
    return [(*own[:dim], *_with_elements(call, [own[dim]], call.exprs("sizes")), *own[dim + 1 :])]


@rule("slice")
def _sliced(call: Call) -> Any:
    own, dim = call.sizes(), call.axis()
    size, step = own[dim], int(call["step"])
    start = _bound(call, call["start"], size, ZERO)
    end = _bound(call, call["end"], size, size)
    if call.surely("Eq", start, ZERO) and call.surely("Eq", end, size):
        length = size
    else:
        start = start if call.holds("Le", start, size) else size
        end = start if call.holds("Lt", end, start) else end if end == size or not call.holds("Gt", end, size) else size
        length = end - start
    if step != 1:
        length = rebuild("FloorDiv", (length + (step - 1), integer(step)))
    return [(*own[:dim], call.env.replace(length), *own[dim + 1 :])]


def _bound(call: Call, value: Any, size: Expr, default: Expr) -> Expr:
    if value is None:
        return default
    e = expr_of(value)
    if e.is_number and e.value >= _END:
        return size
    if call.holds("Lt", e, ZERO):
        e = e + size
        if call.holds("Lt", e, ZERO):
            return ZERO
    return e


@rule("narrow")
def _narrowed(call: Call) -> Any:
    own, dim = call.sizes(), call.axis()
    return [(*own[:dim], expr_of(call["length"]), *own[dim + 1 :])]


@rule("select")
def _selected(call: Call) -> Any:
    own, dim, index = call.sizes(), call.axis(), expr_of(call["index"])
    call.holds("Ge", own[dim], -index) and call.holds("Gt", own[dim], index)
    return [(*own[:dim], *own[dim + 1 :])]


@rule("index")
def _indexed(call: Call) -> Any:
    """The sizes of the indices together are where the indexed dimensions were; in front where those aren't side by side."""
    own, indices = call.sizes(), call["indices"]
    given = [i for i, x in enumerate(indices) if x is not None]
    if not given or any(indices[i].dtype.name in ("bool", "uint8") for i in given):
        return None
    found = broadcast(call, [sizes_of(indices[i]) for i in given])
    rest = [n for i, n in enumerate(own) if i not in given]
    at = given[0] if given[-1] - given[0] + 1 == len(given) else 0
    return [(*rest[:at], *found, *rest[at:])]


@rule("split", "chunk")
def _parts(call: Call) -> Any:
    own, dim = call.sizes(), call.axis()
    size = own[dim]
    if call.name == "chunk":
        step = rebuild("FloorDiv", (size + (int(call["chunks"]) - 1), integer(int(call["chunks"]))))
    else:
        step = expr_of(call["split_size"])
    count = call.env.specialized_count(rebuild("FloorDiv", (size + step - 1, step)))
    made = [step] * (count - 1) + [size - step * (count - 1)]
    return [(*own[:dim], call.env.replace(n), *own[dim + 1 :]) for n in made]


@rule("split_with_sizes")
def _parts_of_sizes(call: Call) -> Any:
    own, dim = call.sizes(), call.axis()
    parts = call.exprs("split_sizes")
    total = parts[0]
    for p in parts[1:]:
        total = total + p
    call.holds("Eq", total, own[dim])
    return [(*own[:dim], n, *own[dim + 1 :]) for n in parts]


@rule("transpose", "permute", "t", "swapaxes", "unsqueeze", "squeeze", "movedim")
def _moved(call: Call) -> Any:
    own = list(call.sizes())
    if call.name == "permute":
        return [tuple([own[d] for d in call["dims"]])]
    if call.name == "transpose" and "dim0" in call.given:
        a, b = call.axis("dim0"), call.axis("dim1")
        own[a], own[b] = own[b], own[a]
        return [tuple(own)]
    if call.name == "unsqueeze":
        own.insert(call.axis(extra=1), ONE)
        return [tuple(own)]
    return None
