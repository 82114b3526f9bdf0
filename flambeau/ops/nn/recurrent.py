"""A recurrent layer over all its time steps as one operator: the products with the hidden state and the cells' arithmetic.

Each block of time steps is one plan, whose steps alternate between a product and a fused pointwise kernel of the cell.
Stands on codegen.products.gemm and codegen.loops.schedule; used by flambeau.nn.modules.recurrence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout, register_cache
from flambeau.codegen.plan import Loops, Plan, elementwise
from flambeau.codegen.products.matrix import Matrix
from flambeau.codegen.products.steps import Contraction
from flambeau.codegen.recurrent.cells import CELLS
from flambeau.codegen.recurrent.sequence import Steps
from flambeau.codegen.recurrent.steps import Recur, RecurBackward
from flambeau.codegen.targets import lowered
from flambeau.core.modes import modes
from flambeau.core.operator.define import operator
from flambeau.core.operator.pointwise import RELEASE_FROM
from flambeau.core.tensor.tensor import Tensor, empty_layout, tensor_from
from flambeau.ir.loops import Loop, Nest, element
from flambeau.ir.scalar import Expr

BLOCK = 128  # time steps of one plan
FEW = 8  # rows of the batch in all steps, below which packing the weight costs more than it saves
_plans: dict[Any, Callable] = register_cache({})


class Spot(NamedTuple):
    """Where a (batch, size) operand of a cell's kernel lies: parameter slot, first element, strides."""

    slot: int
    start: int
    strides: tuple[int, int]


def cell_step(
    name: str, dtype: Any, shape: tuple[int, int], outputs: Sequence[tuple[Spot, Expr]], inputs: Sequence[Spot]
) -> Loops:
    nest = Nest(
        name,
        (dtype,) * len(outputs),
        (dtype,) * len(inputs),
        (Loop((), tuple((i, expression) for i, (_, expression) in enumerate(outputs))),),
        (),
    )
    spots = [*(spot for spot, _ in outputs), *inputs]
    return elementwise(
        nest,
        shape,
        [spot.strides for spot in spots],
        tuple(x.slot for x in spots),
        {j: x.start * dtype.itemsize for j, x in enumerate(spots)},
    )


def _few_steps(
    mode: str, dtype: DType, sizes: Steps, start: tuple, first_cell: tuple, columns: tuple, keep: bool, biased: bool
) -> list[Any]:
    """What `Recur` does, as products that read the weight where it lies and loops over their results, which go to slot 3.

    start, first_cell, columns: strides of the states before the first step, and of the projected input's columns.
    """
    cell, (_, steps, batch, size, weight, given, reverse) = CELLS[mode], sizes
    made: list[Any] = []
    wide, row, plane = cell.gates * size, (size, 1), batch * size
    previous, previous_cell = Spot(5, 0, start), Spot(6, 0, first_cell)
    for t in range(steps - 1, -1, -1) if reverse else range(steps):
        a = Matrix(previous.slot, (0, 0, *previous.strides), previous.start)
        addend = Matrix(8, (0, 0, 0, 1)) if biased else None
        transposed = Matrix(7, (0, 0, weight[1], weight[0]))
        made.append(Contraction(dtype, batch, wide, size, a, transposed, Matrix(3, (0, 0, wide, 1)), addend=addend))
        parts = range(cell.gates)
        inputs = [Spot(3, part * size, (wide, 1)) for part in parts]
        inputs += [Spot(4, t * given[0] + part * size * columns[0], (given[1], *columns)) for part in parts]
        inputs += [previous, *([previous_cell] if cell.has_cell else [])]
        values = [element(i, dtype) for i in range(len(inputs))]
        state, cell_state, *_ = *values[2 * cell.gates :], None
        kept, hidden, new_cell = cell.forward(values[: cell.gates], values[cell.gates : 2 * cell.gates], state, cell_state)
        previous = Spot(0, t * plane, row)
        outputs = [(previous, hidden)]
        if cell.has_cell:
            previous_cell = Spot(1, t * plane if keep else 0, row)
            outputs.append((previous_cell, new_cell))
        if keep:
            strides = (cell.kept * size, 1)
            outputs += [(Spot(2, t * plane * cell.kept + part * size, strides), x) for part, x in enumerate(kept)]
        made.append(cell_step(f"{mode.lower()}_step", dtype, (batch, size), outputs, inputs))
    return made


def _blocks(count: int, from_end: bool) -> list[tuple[int, int]]:
    made = [(at, min(BLOCK, count - at)) for at in range(0, count, BLOCK)]
    return made[::-1] if from_end else made


def _part(x: Tensor, at: int, steps: int) -> Tensor:
    layout = x._layout
    if steps >= layout.shape[0]:  # or it has no steps
        return x
    return tensor_from(
        x._storage,
        x._offset + at * layout.strides[0],
        Layout.of((steps, *layout.shape[1:]), layout.strides, layout.dtype, layout.device),
    )


def _plane(x: Tensor, at: int) -> Tensor:
    layout = x._layout
    return tensor_from(
        x._storage,
        x._offset + at * layout.strides[0],
        Layout.of(layout.shape[1:], layout.strides[1:], layout.dtype, layout.device),
    )


@operator(method=False, function=False, differentiable=2)
def _recurrent_layer(
    mode: str,
    projected: Tensor,
    hidden: Tensor,
    cell: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    reverse: bool,
    keep: bool,
) -> tuple[Tensor, ...]:
    """(outputs (T, batch, size), last cell state, kept values, cells) of a layer; (T, batch, gates) projected input."""
    layout, rule = projected._layout, CELLS[mode]
    dtype, device = layout.dtype, layout.device
    count, batch, _ = layout.shape
    size = weight._layout.shape[1]
    few = count * batch < FEW
    held, wide = (count if keep else 1), rule.kept * size

    def fresh(*shape: int) -> Tensor:
        return empty_layout(Layout.contiguous(shape, dtype, device))

    out, cells = fresh(count, batch, size), fresh(held, batch, size) if rule.has_cell else fresh(0)
    kept = fresh(count, batch, wide) if keep and wide else fresh(0)
    rest = [weight, *([] if bias is None else [bias])]
    if few:
        product = fresh(batch, rule.gates * size)
    else:
        projected, hidden = _rows(projected), hidden.contiguous()
        cell = cell.contiguous() if rule.has_cell else hidden
    state, cell_state = hidden, cell if rule.has_cell else hidden
    given = projected._layout.strides
    for at, steps in _blocks(count, reverse):
        results = [_part(out, at, steps), _part(cells, at, steps) if keep else cells, _part(kept, at, steps)]
        results += [product] if few else []
        operands = [_part(projected, at, steps), state, cell_state, *rest]
        key = (mode, few, bias is None, reverse, keep, *[x._layout for x in operands])
        launch = _plans.get(key)
        if launch is None:
            sizes = Steps(mode, steps, batch, size, weight._layout.strides, given[:2], reverse)
            made = (
                _few_steps(
                    mode, dtype, sizes, state._layout.strides, cell_state._layout.strides, given[2:], keep, bias is not None
                )
                if few
                else [Recur(dtype, sizes, keep, bias is not None)]
            )
            launch = _plans[key] = _lowered(made, sizes, results, operands)
        launch(*results, *operands)
        last = at if reverse else at + steps - 1
        state = _plane(out, last)
        cell_state = _plane(cells, last if keep else 0) if rule.has_cell else state
    return out, (cell_state.clone() if rule.has_cell else fresh(0)), kept, cells


def _lowered(made: list[Any], sizes: Steps, results: Sequence[Tensor], operands: Sequence[Tensor]) -> Callable:
    work = sizes.count * sizes.batch * sizes.size * CELLS[sizes.mode].gates
    layouts = ([x._layout for x in xs] for xs in (results, operands))
    return lowered(Plan(made, *layouts, release=work >= RELEASE_FROM))


def _rows(x: Tensor) -> Tensor:
    """With the elements of a row side by side."""
    return x if x._layout.strides[2] == 1 else x.contiguous()


@_recurrent_layer.vjp
def _(gs, outs, mode, projected, hidden, cell, weight, bias, reverse, need):
    if modes.local.grad:
        return _composed[0](gs, mode, projected, hidden, cell, weight, bias, reverse)
    out, _, kept, cells = outs
    layout, rule = out._layout, CELLS[mode]
    dtype, device = layout.dtype, layout.device
    count, batch, size = layout.shape
    g, g_cell = gs[0], gs[1]
    g = empty_layout(layout).zero_() if g is None else _rows(g)
    wide = (count, batch, rule.gates * size)
    hidden = hidden.contiguous()
    dense = hidden._layout
    gates = empty_layout(Layout.contiguous(wide, dtype, device))
    product = gates if rule.adds else empty_layout(gates._layout)
    g_hidden = empty_layout(dense).zero_()
    direct = g_hidden if rule.adds else empty_layout(dense).zero_()
    g_state = g_hidden
    if rule.has_cell:
        cell = cell.contiguous()
        g_state = empty_layout(dense).zero_() if g_cell is None else empty_layout(dense).copy_(g_cell)
    for at, steps in _blocks(count, not reverse):
        before = at + steps if reverse else at - 1
        inside = 0 <= before < count
        state = _plane(out, before) if inside else hidden
        cell_state = state if not rule.has_cell else _plane(cells, before) if inside else cell
        results = [_part(gates, at, steps), _part(product, at, steps), g_hidden, g_state, direct]
        operands = [*(_part(x, at, steps) for x in (g, out, kept, cells)), state, cell_state, weight]
        key = ("backward", mode, reverse, *[x._layout for x in operands])
        launch = _plans.get(key)
        if launch is None:
            sizes = Steps(mode, steps, batch, size, weight._layout.strides, g._layout.strides[:2], reverse)
            launch = _plans[key] = _lowered([RecurBackward(dtype, sizes)], sizes, results, operands)
        launch(*results, *operands)
    if not rule.adds:
        g_hidden += direct
    g_weight = g_bias = None
    if need["weight"]:
        edge = count - 1 if reverse else 0
        g_weight = _plane(product, edge).t().mm(hidden)
        if count > 1:
            later = _part(product, 0 if reverse else 1, count - 1).reshape(-1, wide[2])
            earlier = _part(out, 1 if reverse else 0, count - 1).reshape(-1, size)
            g_weight += later.t().mm(earlier)
    if bias is not None and need["bias"]:
        g_bias = product.reshape(-1, wide[2]).sum(0)
    return gates, g_hidden, g_state if rule.has_cell else None, g_weight, g_bias


Composed = Callable[..., tuple]
_composed: list[Composed] = []


def register_composed(gradients: Composed) -> None:
    """Take gradients(gs, mode, projected, hidden, cell, weight, bias, reverse), which can be differentiated again, into use."""
    _composed[:] = [gradients]


def fits(tensors: Sequence[Tensor | None], plain: Any) -> bool:
    """Whether the operator takes these: plain float tensors on the CPU, nothing empty, no mode."""
    if modes.active.count:
        return False
    dtype = tensors[0]._layout.dtype
    if dtype.name not in ("float32", "float64"):
        return False
    for x in tensors:
        if x is not None:
            layout = x._layout
            if x.__class__ not in plain or layout.dtype is not dtype or layout.device.type != "cpu" or not layout.numel:
                return False
    return True


def recurrent_layer(
    mode: str, projected: Tensor, state: Sequence[Tensor], weight: Tensor, bias: Tensor | None, reverse: bool
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The outputs (T, batch, size) of a layer and its last state, by the one operator."""
    cell = state[1] if len(state) > 1 else None
    bias = bias if bias is None else bias.contiguous()
    keep = modes.local.grad and any([x is not None and x._node is not None for x in (projected, *state, weight, bias)])
    out, last_cell, _, _ = _recurrent_layer(mode, projected, state[0], cell, weight, bias, reverse, keep)
    last = out[0] if reverse else out[-1]
    return out, (last,) if cell is None else (last, last_cell)
