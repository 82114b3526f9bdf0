"""Joining and rearranging tensors: cat, stack, repeat, tile, flip, roll, tril, triu, diag and their relatives.

Each is a handful of strided moves in one launch. Stands on codegen.gather_scatter.move and core.operator.define.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base import memory_order
from flambeau.base.dtype import dtype as DType
from flambeau.base.dtype import promote_types
from flambeau.base.geometry import wrap_dim
from flambeau.base.layout import Layout, contiguous_strides, register_cache
from flambeau.base.tracebacks import api_boundary
from flambeau.codegen.gather_scatter.move import Buffer, Move
from flambeau.core.autograd.inplace import owned
from flambeau.core.autograd.node import one_step
from flambeau.core.modes import overrides
from flambeau.core.modes.autocast import widest
from flambeau.core.modes.modes import active, local
from flambeau.core.operator.annotations import Tensors
from flambeau.core.operator.arguments import is_int, refused
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.facets import JOINED
from flambeau.core.operator.opdef import LISTS
from flambeau.core.operator.out_rules import APART, BEFORE_DTYPE, DISTINCT, Out, joined
from flambeau.core.operator.pointwise import common_device, zeros_plan
from flambeau.core.operator.publishing import NAMESPACE, renamed
from flambeau.core.operator.view import select, slice_
from flambeau.core.tensor.tensor import Tensor, empty_layout, tensor_from
from flambeau.ops.indexing.gather_plans import make_plan, zeros_and_move

_plans: dict[Any, Callable] = register_cache({})
_cats: dict[Any, Callable] = register_cache({})
MOST_INPUTS = 200


def _converted(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Raw tensors of the common dtype."""
    dtype = tensors[0]._layout.dtype
    for x in tensors[1:]:
        if x._layout.dtype is not dtype:
            dtype = promote_types(dtype, x._layout.dtype)
    return [x if x._layout.dtype is dtype else x.detach().to(dtype) for x in tensors]


def _is_list(name: str, tensors: Any) -> list[Tensor]:
    # What is no list but has elements by numbers may have no end of them.
    if isinstance(tensors, Tensor) or not (isinstance(tensors, (list, tuple)) or hasattr(tensors, "__iter__")):
        raise TypeError(f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not {type(tensors).__name__}")
    made = list(tensors)
    for i, x in enumerate(made):
        if not isinstance(x, Tensor) and not overrides.any_override((x,)):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {type(x).__name__}")
    return made


def _in_groups(out: Layout, moves: list[tuple[Move, Layout]]) -> Callable:
    """launch(None, *tensors) for any number of inputs."""
    if len(moves) <= MOST_INPUTS:
        return make_plan([m for m, _ in moves], [out], [layout for _, layout in moves])

    groups, alike = [], {}  # groups that only begin at other places of the result share a plan
    for first in range(0, len(moves), MOST_INPUTS):
        part = moves[first : first + MOST_INPUTS]
        start = part[0][0].other.offset
        key = tuple([(layout, m.sizes, m.place.strides, m.other.offset - start, m.other.strides) for m, layout in part])
        found = alike.get(key)
        if found is None:
            own = [
                Move(m.dtype, m.sizes, Buffer(1 + i, 0, m.place.strides), Buffer(0, m.other.offset - start, m.other.strides))
                for i, (m, _) in enumerate(part)
            ]
            reach = max(m.other.offset + memory_order.extent(m.sizes, m.other.strides) for m in own)
            written = Layout.contiguous((reach,), out.dtype, out.device)
            found = alike[key] = make_plan(own, [written], [layout for _, layout in part]), written
        groups.append((*found, start, first))

    def launch(target: Tensor | None, *tensors: Tensor) -> Tensor:
        made = empty_layout(out) if target is None else target
        for run, written, start, first in groups:
            run(tensor_from(made._storage, made._offset + start, written), *tensors[first : first + MOST_INPUTS])
        if target is None:
            made._storage.writes = 0
        return made

    return launch


def _joined_strides(shape: tuple[int, ...], layouts: Sequence[Layout]) -> tuple[int, ...]:
    """Strides of tensors put together along an existing dimension: channels_last if all of them are, else C order."""
    if len(shape) in (4, 5) and all(memory_order.suggests_channels_last(x.shape, x.strides) for x in layouts):
        return memory_order.channels_last_strides(shape)
    return contiguous_strides(shape)


def _cat_plan(tensors: list[Tensor], dim: int) -> tuple[Callable, list[Tensor]]:
    layouts = [x._layout for x in tensors]
    device = common_device(layouts)
    lead = None
    for i, layout in enumerate(layouts):
        if not layout.ndim:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
        if lead is None and tuple(layout.shape) != (0,):
            lead = layout
    lead = lead or layouts[0]
    at = wrap_dim(dim, lead.ndim)
    total = 0
    for i, layout in enumerate(layouts):
        if tuple(layout.shape) == (0,):
            continue
        if layout.ndim != lead.ndim:
            raise RuntimeError(f"Tensors must have same number of dimensions: got {lead.ndim} and {layout.ndim}")
        for d, (a, b) in enumerate(zip(lead.shape, layout.shape)):
            if d != at and a != b:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {at}. Expected size {a} but got size {b} for "
                    f"tensor number {i} in the list."
                )
        total += layout.shape[at]
    shape = tuple(total if d == at else n for d, n in enumerate(lead.shape))
    out = Layout.of(shape, _joined_strides(shape, [x for x in layouts if x.ndim == lead.ndim]), lead.dtype, device)
    moves = []
    offset = 0
    for i, layout in enumerate(layouts):
        sizes = layout.shape if layout.ndim == lead.ndim else (0,)
        strides = out.strides if layout.ndim == lead.ndim else (0,)
        moves.append(
            (Move(layout.dtype, sizes, Buffer(1 + i, 0, layout.strides), Buffer(0, offset * out.strides[at], strides)), layout)
        )
        if layout.ndim == lead.ndim and tuple(layout.shape) != (0,):
            offset += layout.shape[at]
    return _in_groups(out, moves)


@operator(method=False, function=False, out=Out(dtype=joined, overlap=DISTINCT), name="cat", autocast=widest, jvp=JOINED)
def _cat(tensors: Tensors, dim: int, sizes: tuple[int, ...]) -> Tensor:
    """cat, told how long each tensor is along `dim`."""
    key = (dim, *[x._layout for x in tensors])
    launch = _cats.get(key)
    if launch is None:
        tensors = _converted(tensors)
        key = (dim, *[x._layout for x in tensors])
        launch = _cats.get(key)
        if launch is None:
            launch = _cat_plan(tensors, dim)
            if all(x._layout.flavor is None for x in tensors):
                _cats[key] = launch
    return launch(None, *tensors)


@_cat.vjp
def _(g, dim, sizes, need):
    made, at, place = [], 0, dim if dim >= 0 else dim + g._layout.ndim
    for size, wanted in zip(sizes, need["tensors"]):
        made.append(
            None
            if not wanted
            else slice_(g, place, at, at + size, 1)
            if size >= 0
            else NAMESPACE["zeros"]((0,), dtype=g._layout.dtype, device=g._layout.device)
        )
        at += max(size, 0)
    return (made,)


def cat(tensors: Sequence[Tensor], dim: int = 0, *, axis: int | None = None, out: Tensor | None = None) -> Tensor:
    """The tensors one after the other along `dim`; they must agree in the other dimensions. dtypes are promoted."""
    if axis is not None:
        dim = axis
    if out is None and not active.count and tensors.__class__ in LISTS:
        try:
            launch = _cats[(dim, *[x._layout for x in tensors])]
        except (KeyError, AttributeError, TypeError):
            pass
        else:
            if not local.grad:
                return launch(None, *tensors)
            for x in tensors:
                if x._node is not None:
                    break
            else:
                return launch(None, *tensors)
            made = launch(None, *tensors)
            _cat.operator.record((tensors, dim, _sizes(tensors, dim)), made)
            return made
    return _cat_checked(tensors, dim, out)


def _sizes(tensors: Sequence[Tensor], dim: int) -> tuple[int, ...]:
    """How long each tensor is along `dim`; -1 stands for the empty vectors that fit to anything."""
    ndim = max([x._layout.ndim for x in tensors])
    at = dim + ndim if -ndim <= dim < 0 else dim
    return tuple([-1 if x._layout.ndim != ndim else x._layout.shape[at] if 0 <= at < ndim else 0 for x in tensors])


@api_boundary
def _cat_checked(tensors: Any, dim: int, out: Tensor | None) -> Tensor:
    given = _is_list("cat", tensors)
    if overrides.any_override(given):
        return overrides.dispatch(cat, [tensors, dim], {} if out is None else {"out": out}, given)
    if not given:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    if isinstance(dim, str):
        raise NotImplementedError(
            "cat along a named dimension: named tensors are not supported; pass the number of the dimension"
        )
    if not is_int(dim):
        raise refused("cat", "dim", "int", dim, 2)
    if all([x._layout.shape == (0,) for x in given]):
        dim = 0  # such tensors fit to anything, and lie along any dimension
    return _cat(given, dim, _sizes(given, dim), out=out)


NAMESPACE.update(cat=cat, concat=renamed(cat, "concat"), concatenate=renamed(cat, "concatenate"))


@operator(
    method=False,
    function=False,
    out=Out(dtype=joined, overlap=APART, fitted=BEFORE_DTYPE),
    name="stack",
    autocast=widest,
    jvp=JOINED,
)
def _stack(tensors: Tensors, dim: int = 0) -> Tensor:
    """Tensors of one shape along a new dimension."""
    given = _is_list("stack", tensors)
    if not given:
        raise RuntimeError("stack expects a non-empty TensorList")
    key = ("stack", dim, *[x._layout for x in given])
    launch = _plans.get(key)
    if launch is None:
        first = given[0]._layout
        for i, x in enumerate(given):
            if tuple(x._layout.shape) != tuple(first.shape):
                raise RuntimeError(
                    f"stack expects each tensor to be equal size, but got {list(first.shape)} at entry 0 and "
                    f"{list(x._layout.shape)} at entry {i}"
                )
        at = wrap_dim(dim, first.ndim + 1)
        common_device([x._layout for x in given])
        given = _converted(given)
        dtype = given[0]._layout.dtype
        if at == first.ndim or not first.numel:
            strides = contiguous_strides((*first.shape[:at], len(given), *first.shape[at:]))
        else:  # what was put together along dimension `at`, seen with that dimension split
            merged = tuple([n * len(given) if d == at else n for d, n in enumerate(first.shape)])
            own = _joined_strides(merged, [x._layout for x in given])
            strides = (*own[:at], own[at] * first.shape[at], *own[at:])
        out = Layout.of((*first.shape[:at], len(given), *first.shape[at:]), strides, dtype, first.device)
        own = (*strides[:at], *strides[at + 1 :])
        launch = _in_groups(
            out,
            [
                (Move(dtype, first.shape, Buffer(1 + i, 0, x._layout.strides), Buffer(0, i * out.strides[at], own)), x._layout)
                for i, x in enumerate(given)
            ],
        )
        if all(x is y for x, y in zip(tensors, given)):
            _plans[key] = launch
    return launch(None, *given)


@_stack.vjp
def _(g, dim, need):
    return ([select(g, dim, i) if wanted else None for i, wanted in enumerate(need["tensors"])],)


def stack(tensors: Sequence[Tensor], dim: int = 0, *, axis: int | None = None, out: Tensor | None = None) -> Tensor:
    """Tensors of one shape along a new dimension; dtypes are promoted."""
    if axis is not None:
        dim = axis
    if out is None and not active.count and tensors.__class__ in LISTS:
        try:
            launch = _plans[("stack", dim, *[x._layout for x in tensors])]
        except (KeyError, AttributeError, TypeError):
            pass
        else:
            if not local.grad:
                return launch(None, *tensors)
            for x in tensors:
                if x._node is not None:
                    break
            else:
                return launch(None, *tensors)
            made = launch(None, *tensors)
            _stack.operator.record((tensors, dim), made)
            return made
    return _stack_checked(tensors, dim, out)


@api_boundary
def _stack_checked(tensors: Any, dim: int, out: Tensor | None) -> Tensor:
    given = _is_list("stack", tensors)
    if overrides.any_override(given):
        return overrides.dispatch(stack, [tensors, dim], {} if out is None else {"out": out}, given)
    return _stack(given, dim, out=out)


NAMESPACE["stack"] = stack


def _raised(name: str, tensors: Any, least: Callable) -> list[Tensor]:
    given = _is_list(name, tensors)
    if not given:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return [least(x) for x in given]


def _seen(least: str | None, dim: Callable) -> Callable:
    """Plans of `cat` along dim(layouts) for tensors that are seen with more dimensions: their memory is the same."""

    def planned(tensors: Any) -> Callable | None:
        if not isinstance(tensors, (list, tuple)):
            return None
        raised = [(_as_column if least is None else NAMESPACE[least])(x)._layout for x in tensors]
        return _cats.get((dim(raised), *raised))

    return planned


@composite(
    method=False,
    planned=_seen("atleast_1d", lambda layouts: 0 if layouts[0].ndim == 1 else 1),
    out=Out(dtype=joined, step="cat", overlap=DISTINCT),
)
def hstack(tensors: Tensors) -> Tensor:
    """cat along the second dimension (the first for vectors)."""
    given = _raised("hstack", tensors, NAMESPACE["atleast_1d"])
    return cat(given, 0 if given[0]._layout.ndim == 1 else 1)


@composite(method=False, out=Out(dtype=joined, step="cat", overlap=DISTINCT), planned=_seen("atleast_2d", lambda layouts: 0))
def vstack(tensors: Tensors) -> Tensor:
    """cat along the first dimension, vectors as rows."""
    return cat(_raised("vstack", tensors, NAMESPACE["atleast_2d"]), 0)


@composite(method=False, out=Out(dtype=joined), planned=_seen("atleast_2d", lambda layouts: 0))
def row_stack(tensors: Tensors) -> Tensor:
    """vstack."""
    return cat(_raised("vstack", tensors, NAMESPACE["atleast_2d"]), 0)


@composite(method=False, out=Out(dtype=joined, step="cat", overlap=DISTINCT), planned=_seen("atleast_3d", lambda layouts: 2))
def dstack(tensors: Tensors) -> Tensor:
    """cat along the third dimension."""
    return cat(_raised("dstack", tensors, NAMESPACE["atleast_3d"]), 2)


@composite(method=False, out=Out(dtype=joined, step="cat", overlap=DISTINCT), planned=_seen(None, lambda layouts: 1))
def column_stack(tensors: Tensors) -> Tensor:
    """cat along the second dimension, vectors as columns."""
    return cat(_raised("column_stack", tensors, _as_column), 1)


def _as_column(x: Tensor) -> Tensor:
    return x.reshape(x._layout.numel, 1) if x._layout.ndim <= 1 else x


# ---------------------------------------------------------------- products


@composite(method=False, node="BlockDiagBackward0")
def block_diag(*tensors: Any) -> Tensor:
    """A matrix with the given matrices (vectors as rows, numbers as 1 x 1) along its diagonal and zeros elsewhere."""
    given = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
    if not given:
        return NAMESPACE["empty"]((1, 0), device=None)
    for i, x in enumerate(given):
        if x._layout.ndim > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {x._layout.ndim} dimensions"
            )
    given = [NAMESPACE["atleast_2d"](x) for x in given]
    dtype = given[0]._layout.dtype
    for x in given:
        dtype = promote_types(dtype, x._layout.dtype)
    if any(x._layout.flavor is not None for x in given):
        return _block_rows(given, dtype)
    given = [x if x._layout.dtype is dtype else x.to(dtype) for x in given]
    return _blocks(given, tuple([tuple(x._layout.shape) for x in given]))


def _block_rows(given: list[Tensor], dtype: DType) -> Tensor:
    """block_diag of matrices in other operators."""
    columns = sum(x._layout.shape[1] for x in given)
    rows, at = [], 0
    for x in given:
        m, n = x._layout.shape
        row = [x.new_zeros((m, at), dtype=dtype), x, x.new_zeros((m, columns - at - n), dtype=dtype)]
        rows.append(cat([y for y in row if y._layout.shape[1]] or row[1:2], 1))
        at += n
    return cat(rows, 0)


@operator(method=False, function=False, name="block_diag")
def _blocks(tensors: Tensors, shapes: tuple[tuple[int, ...], ...]) -> Tensor:
    """Matrices of one dtype along the diagonal of zeros."""
    layouts = [x._layout for x in tensors]
    known = _plans.get(("block_diag", *layouts))
    if known is None:
        lead = layouts[0]
        out = Layout.contiguous((sum(x.shape[0] for x in layouts), sum(x.shape[1] for x in layouts)), lead.dtype, lead.device)
        moves, row, column = [], 0, 0
        for layout in layouts:
            corner = row * out.strides[0] + column
            moves.append(
                (
                    Move(layout.dtype, layout.shape, Buffer(1 + len(moves), 0, layout.strides), Buffer(0, corner, out.strides)),
                    layout,
                )
            )
            row, column = row + layout.shape[0], column + layout.shape[1]
        if len(moves) <= MOST_INPUTS:
            known = zeros_and_move(out, layouts, [m for m, _ in moves])
        else:
            zeros, place = zeros_plan(out), _in_groups(out, moves)

            def known(target: None, *tensors: Tensor) -> Tensor:
                made = zeros(None)
                place(made, *tensors)
                made._storage.writes = 0
                return made

        _plans["block_diag", *layouts] = known
    return known(None, *tensors)


@_blocks.vjp
def _(g, shapes, need):
    made, row, column = [], 0, 0
    for (m, n), wanted in zip(shapes, need["tensors"]):
        made.append(g.narrow(0, row, m).narrow(1, column, n) if wanted else None)
        row, column = row + m, column + n
    return (made,)


@one_step("UnsafeViewBackward0")
def _joined(products: Tensor, shape: list[int]) -> Tensor:
    return owned(products.reshape(shape))


@composite(out=Out(step="mul", fitted=BEFORE_DTYPE))
def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: every element of `input` times all of `other`."""
    a, b = list(input._layout.shape), list(other._layout.shape)
    ndim = max(len(a), len(b))
    a, b = [1] * (ndim - len(a)) + a, [1] * (ndim - len(b)) + b
    left = input.reshape([x for n in a for x in (n, 1)])
    right = other.reshape([x for n in b for x in (1, n)])
    return _joined(left * right, [m * n for m, n in zip(a, b)])
