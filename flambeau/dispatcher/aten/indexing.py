"""Indexing as PyTorch's operators: views one after another, then an index by tensors, with the symbols of sizes.

`indexed` is asked with what calls, or records, an operator; the lowering serves tensors whose sizes, or indices, have symbols.
Stands on lowerings; used by torch.export's rules, and loaded by dispatcher.dispatch_modes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.base.device import stand_ins_in_use
from flambeau.base.symbolic.numbers import is_symbolic_number, known_true
from flambeau.core.modes.modes import local
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.lowerings import lowering, packets
from flambeau.ops.creation.from_data import tensor

__all__ = ["indexed"]

Op = Callable[..., Any]
_END = 2**63 - 1


def indexed(op: Op, x: Any, index: Any) -> tuple[Any, list[Any]]:
    """What slices, numbers and new dimensions make of a tensor, and the tensors that are to index it."""
    items = list(index) if isinstance(index, tuple) else [index]
    if any(map(_names_symbols, items)) and not any(isinstance(i, (list, bool)) or _is_mask(i) for i in items):
        return _by_symbols(op, x, items), []
    taken = sum(_dimensions(i) for i in items)
    if taken > x.dim():
        raise IndexError(f"too many indices for tensor of dimension {x.dim()}")
    dim, tensors = 0, []
    for at, item in enumerate(items):
        if isinstance(item, list):
            item = op("lift", tensor, item)
        if item is Ellipsis:
            dim += x.dim() - dim - sum(_dimensions(i) for i in items[at + 1 :])
        elif item is None:
            x = op("unsqueeze", x, dim)
            dim += 1
        elif isinstance(item, bool):
            raise NotImplementedError("indexing by a Python bool in a graph is not implemented in flambeau; leave it out")
        elif isinstance(item, int):
            op("size", x, dim)
            x = op("select.int", x, dim, item)
        elif isinstance(item, slice):
            start, stop, step = (None if n is None else int(n) for n in (item.start, item.stop, item.step))
            op("size", x, dim)
            whole = start in (None, 0) and known_true(x.shape[dim] <= (_END if stop is None else stop))
            if index is item or not (whole and step in (None, 1)):
                x = op("slice.Tensor", x, dim, start or 0, _END if stop is None else stop, 1 if step is None else step)
            dim += 1
        elif isinstance(item, Tensor):
            tensors += [None] * (dim - len(tensors)) + [item]
            dim += item.dim() if item.dtype.name in ("bool", "uint8") else 1
        else:
            raise NotImplementedError(
                f"indexing by {item.__class__.__name__} in a graph is not implemented in flambeau; use a tensor"
            )
    return x, tensors


def _is_of_bools(item: list[Any]) -> bool:
    return bool(item) and (isinstance(item[0], bool) or (isinstance(item[0], list) and _is_of_bools(item[0])))


def _names_symbols(item: Any) -> bool:
    """Whether an index depends on symbols."""
    return any(map(is_symbolic_number, (item.start, item.stop, item.step) if isinstance(item, slice) else (item,)))


def _is_mask(item: Any) -> bool:
    return isinstance(item, Tensor)


def _by_symbols(op: Op, x: Any, items: list[Any]) -> Any:
    """What an index makes of a tensor that depends on symbols: as PyTorch rewrites it, bounds are handed on as they are."""
    if any(i is Ellipsis for i in items):
        at = next(n for n, i in enumerate(items) if i is Ellipsis)
        taken = sum(_dimensions(i) for i in items)
        items[at : at + 1] = [slice(None)] * (x.dim() - taken)
    dim = 0
    for item in items:
        if item is None:
            x = op("unsqueeze", x, dim)
            dim += 1
        elif isinstance(item, slice):
            step = 1 if item.step is None else item.step
            if not (item.start is None and item.stop is None and isinstance(step, int) and step == 1):
                x = op("slice.Tensor", x, dim, item.start, item.stop, step)
            dim += 1
        else:
            x = op("select.int", x, dim, item)
    return x


def _dimensions(item: Any) -> int:
    """How many dimensions an index is about."""
    if isinstance(item, list):
        inner = item[0] if item else 0
        return 1 + _dimensions(inner) if isinstance(inner, list) and _is_of_bools(inner) else 1
    if isinstance(item, Tensor) and item.dtype.name in ("bool", "uint8"):
        return item.dim()
    return int(item is not None and item is not Ellipsis)


@lowering
def __getitem__(own: Any, self: Tensor, index: Any) -> Any:
    """A part of a tensor with symbols."""
    items = index if isinstance(index, tuple) else (index,)
    if not any(map(is_symbolic_number, self.shape)) and not any(map(_names_symbols, items)):
        return NotImplemented
    if any(isinstance(i, (list, bool)) for i in items):
        return NotImplemented
    x, tensors = indexed(_call, self, index)
    if tensors:
        return _call("index.Tensor", x, tensors)
    return _call("alias", x) if x is self else x


def _call(name: str, *args: Any) -> Any:
    """An operator by its name; the size that PyTorch reads besides has no operator here."""
    if name == "size":
        return None
    packet, _, overload = name.partition(".")
    found = getattr(getattr(packets(), packet), overload or "default")
    stand_ins = stand_ins_in_use()
    if stand_ins is None or local.dispatch_modes:
        return found(*args)
    return stand_ins.mode.with_symbols(found, args, {})  # implementations of views index in their turn
