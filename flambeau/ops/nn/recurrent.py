"""A recurrent layer over all its time steps as one operator: the products with its weights and the cells' arithmetic.

A block of time steps is one plan: a step `Recur` (codegen.recurrent), or where there is little work, products with the weight
where it lies and a fused pointwise kernel of the cell, in turns. Used by flambeau.nn.modules.recurrence.
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
from flambeau.codegen.recurrent.sequence import Steps, joins_input
from flambeau.codegen.recurrent.steps import Recur, RecurBackward
from flambeau.codegen.targets import lowered
from flambeau.core.modes import modes
from flambeau.core.operator.define import operator
from flambeau.core.operator.pointwise import RELEASE_FROM
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor, empty_layout, tensor_from
from flambeau.ir.loops import Loop, Nest, element
from flambeau.ir.scalar import Expr
from flambeau.ops.linalg.linear import linear

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
    cell, (_, steps, batch, size, weight, given, reverse) = CELLS[mode], sizes[:7]
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
    input: Tensor,
    input_weight: Tensor,
    input_bias: Tensor | None,
    hidden: Tensor,
    cell: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    reverse: bool,
    keep: bool,
) -> tuple[Tensor, ...]:
    """(outputs (T, batch, size), last cell state, kept values, cells) of a layer over (T, batch, features)."""
    layout, rule = input._layout, CELLS[mode]
    dtype, device = layout.dtype, layout.device
    count, batch, features = layout.shape
    size = weight._layout.shape[1]
    few, joined = count * batch < FEW, joins_input(mode, batch)
    held, wide = (count if keep else 1), rule.kept * size

    def fresh(*shape: int) -> Tensor:
        return empty_layout(Layout.contiguous(shape, dtype, device))

    if joined:  # the cells have no other bias
        given = _rows(input)
        bias = fresh(rule.gates * size).zero_() if input_bias is None else input_bias.contiguous()
        rest = [weight, bias, input_weight]
    else:
        given = linear(input, input_weight, input_bias)
        given = given if few else _rows(given)
        rest = [weight, *([] if bias is None else [bias])]
    out, cells = fresh(count, batch, size), fresh(held, batch, size) if rule.has_cell else fresh(0)
    kept = fresh(count, batch, wide) if keep and wide else fresh(0)
    if few:
        product = fresh(batch, rule.gates * size)
    else:
        hidden = hidden.contiguous()
        cell = cell.contiguous() if rule.has_cell else hidden
    state, cell_state = hidden, cell if rule.has_cell else hidden
    strides, biased = given._layout.strides, len(rest) == 2
    for at, steps in _blocks(count, reverse):
        results = [_part(out, at, steps), _part(cells, at, steps) if keep else cells, _part(kept, at, steps)]
        results += [product] if few else []
        operands = [_part(given, at, steps), state, cell_state, *rest]
        key = (mode, few, reverse, keep, *[x._layout for x in operands])
        launch = _plans.get(key)
        if launch is None:
            sizes = Steps(mode, steps, batch, size, weight._layout.strides, strides[:2], reverse)
            if few:
                of_states = state._layout.strides, cell_state._layout.strides
                made = _few_steps(mode, dtype, sizes, *of_states, strides[2:], keep, biased)
            elif joined:
                sizes = sizes._replace(inputs=features, input_weight=input_weight._layout.strides)
                made = [Recur(dtype, sizes, keep, False)]
            else:
                made = [Recur(dtype, sizes, keep, biased)]
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
def _(gs, outs, mode, input, input_weight, input_bias, hidden, cell, weight, bias, reverse, need):
    if modes.local.grad:
        return _composed[0](gs, mode, input, input_weight, input_bias, hidden, cell, weight, bias, reverse)
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
    flat, flat_product = (x.reshape(-1, wide[2]) for x in (gates, product))
    g_input_bias = flat.sum(0) if input_bias is not None and need["input_bias"] else None
    g_bias = flat_product.sum(0) if bias is not None and need["bias"] else None
    g_input_weight = g_weight = None
    before = _states_before(out, hidden, reverse) if need["weight"] else None
    if before is not None and need["input_weight"] and rule.adds:
        # the long gradient is packed once for both weights
        features = input._layout.shape[2]
        before = NAMESPACE["cat"]([input, before], 2).reshape(count * batch, -1)
        both = flat.t().mm(before)
        g_input_weight, g_weight = both[:, :features].contiguous(), both[:, features:].contiguous()
    else:
        if need["input_weight"]:
            g_input_weight = flat.t().mm(input.reshape(count * batch, -1))
        if before is not None:
            g_weight = flat_product.t().mm(before.view(count * batch, size))
    before = None  # its memory is enough for the gradient of the input
    g_input = flat.mm(input_weight).view(input._layout.shape) if need["input"] else None
    return g_input, g_input_weight, g_input_bias, g_hidden, g_state if rule.has_cell else None, g_weight, g_bias


def _states_before(out: Tensor, hidden: Tensor, reverse: bool) -> Tensor:
    """The hidden state before each step, (T, batch, size)."""
    if out._layout.shape[0] == 1:
        return hidden.unsqueeze(0)
    steps = out._layout.shape[0] - 1
    rest = _part(out, 1 if reverse else 0, steps)
    return NAMESPACE["cat"]([rest, hidden.unsqueeze(0)] if reverse else [hidden.unsqueeze(0), rest])


Composed = Callable[..., tuple]
_composed: list[Composed] = []


def register_composed(gradients: Composed) -> None:
    """Take gradients(gs, mode, input, input_weight, input_bias, hidden, cell, weight, bias, reverse), which can be differentiated
    again, into use.
    """
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
    mode: str,
    input: Tensor,
    state: Sequence[Tensor],
    input_weight: Tensor,
    weight: Tensor,
    input_bias: Tensor | None,
    bias: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The outputs (T, batch, size) of a layer and its last state, by the one operator."""
    cell = state[1] if len(state) > 1 else None
    if bias is not None:
        bias = bias.contiguous()
        if CELLS[mode].adds:
            input_bias, bias = bias if input_bias is None else input_bias + bias, None
    given = (input, *state, input_weight, weight, input_bias, bias)
    keep = modes.local.grad and any([x is not None and x._node is not None for x in given])
    out, last_cell, _, _ = _recurrent_layer(mode, input, input_weight, input_bias, state[0], cell, weight, bias, reverse, keep)
    last = out[0] if reverse else out[-1]
    return out, (last,) if cell is None else (last, last_cell)
