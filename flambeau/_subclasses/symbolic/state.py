"""The expressions of a fake tensor's sizes and strides, and the blocks in which tensors show numbers only."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from flambeau.base.symbolic.expressions import Expr, as_expr
from flambeau.base.symbolic.numbers import is_symbolic_number
from flambeau.core.tensor.tensor import Tensor

__all__ = [
    "Sizes", "as_number", "describe", "env_of", "expr_of", "kept", "leaves", "offset_of", "only_numbers", "plain_sizes",
    "sizes_of", "stride_exprs", "strides_of", "symbolic_of",
]  # fmt: skip


class _Local(threading.local):
    plain = 0


_local = _Local()


class plain_sizes:
    """Context: tensors show the numbers of the example, and no guard comes of asking for a size."""

    def __enter__(self) -> None:
        _local.plain += 1

    def __exit__(self, *exception: object) -> None:
        _local.plain -= 1


def only_numbers() -> bool:
    """Whether this thread is in such a block."""
    return bool(_local.plain)


class Sizes:
    """What is known of a fake tensor's sizes: expressions in an environment; layout: the one that they describe."""

    __slots__ = ("env", "layout", "offset", "sizes", "strides")

    def __init__(self, env: Any, layout: Any, sizes: Sequence[Expr], strides: Sequence[Expr], offset: Expr) -> None:
        self.env, self.layout, self.offset = env, layout, offset
        self.sizes, self.strides = tuple(sizes), tuple(strides)


def symbolic_of(t: Tensor) -> Sizes | None:
    """The expressions of a tensor's sizes; None where they are numbers, or only numbers are shown."""
    if _local.plain:
        return None
    return kept(t)


def kept(t: Tensor) -> Sizes | None:
    """The same, also where only numbers are shown."""
    found = t.__dict__.get("_symbolic")
    return found if found is not None and found.layout is t._layout else None


def sizes_of(t: Tensor) -> tuple[Expr, ...]:
    """The sizes of a tensor as expressions."""
    found = kept(t)
    return tuple(map(as_expr, t._layout.shape)) if found is None else tuple([found.env.replace(e) for e in found.sizes])


def strides_of(t: Tensor) -> tuple[Expr, ...]:
    """The strides of a tensor as expressions."""
    found = kept(t)
    return tuple(map(as_expr, t._layout.strides)) if found is None else tuple([found.env.replace(e) for e in found.strides])


def offset_of(t: Tensor) -> Expr:
    """The offset of a tensor in its storage."""
    found = kept(t)
    return as_expr(t._offset) if found is None else found.env.replace(found.offset)  # type: ignore[no-any-return]


def as_number(env: Any, e: Expr) -> Any:
    """An expression as an int, or as a SymInt."""
    return env.create_symintnode(env.replace(e))


def expr_of(x: Any) -> Expr:
    """A number, symbolic or not, as an expression."""
    return x.node.expr if is_symbolic_number(x) else as_expr(x)  # type: ignore[no-any-return]


def describe(
    t: Tensor, env: Any, sizes: Sequence[Expr], strides: Sequence[Expr] | None = None, offset: Expr | None = None
) -> None:
    """Let a fake tensor know the expressions of its sizes. Nothing is kept where all are numbers."""
    strides = stride_exprs(sizes, t._layout.shape, t._layout.strides) if strides is None else strides
    offset = as_expr(t._offset) if offset is None else offset
    if all(e.is_number for e in (*sizes, *strides, offset)):
        t.__dict__.pop("_symbolic", None)
    else:
        t.__dict__["_symbolic"] = Sizes(env, t._layout, sizes, strides, offset)


def stride_exprs(sizes: Sequence[Expr], numbers: Sequence[int], strides: Sequence[int]) -> list[Expr]:
    """Strides as products of sizes, as they are for a dense tensor of these sizes in the order of these strides."""
    made: dict[int, Expr] = {}
    last: tuple[Expr, int] | None = None
    order = sorted(range(len(sizes)), key=lambda i: (strides[i], numbers[i] != 1 and i == 0, -i))
    for i in order:
        made[i] = last[0] if last is not None and last[1] == strides[i] and strides[i] > 1 else as_expr(strides[i])
        last = made[i] * sizes[i], strides[i] * numbers[i]
    return [made[i] for i in range(len(sizes))]


def env_of(values: Iterable[Any]) -> Any:
    """The environment of the symbols among the arguments of a call; None without."""
    for x in leaves(values):
        if isinstance(x, Tensor):
            found = kept(x)
            if found is not None:
                return found.env
        elif is_symbolic_number(x):
            return x.node.shape_env
    return None


def leaves(values: Iterable[Any]) -> Iterator[Any]:
    """The values, and what their lists hold."""
    for x in values:
        if isinstance(x, (list, tuple)):
            yield from leaves(x)
        elif isinstance(x, slice):
            yield from (x.start, x.stop, x.step)
        else:
            yield x
