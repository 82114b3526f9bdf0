"""A recurrent layer over all its time steps as one operator: the products with the hidden state and the cells' arithmetic.

Each block of time steps is one plan, whose steps alternate between a product and a fused pointwise kernel of the cell.
Stands on codegen.products.gemm and codegen.loops.schedule; used by flambeau.nn.modules.recurrence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from flambeau.base.layout import Layout, register_cache
from flambeau.codegen.plan import Loops, Plan, elementwise
from flambeau.codegen.products.matrix import Matrix
from flambeau.codegen.products.steps import Contraction
from flambeau.codegen.targets import lowered
from flambeau.core.modes import modes
from flambeau.core.operator.define import operator
from flambeau.core.operator.pointwise import RELEASE_FROM
from flambeau.core.tensor.tensor import Tensor, empty_layout, tensor_from
from flambeau.ir import scalar as s
from flambeau.ir.loops import Loop, Nest, element
from flambeau.ir.scalar import Expr

BLOCK = 32  # time steps of one plan
_plans: dict[Any, Callable] = register_cache({})


class Cell(NamedTuple):
    """The arithmetic of a kind of cell, in scalar expressions.

    A step keeps `columns` rows of values: the product with the hidden state is written to the last `gates` of them, `forward`
    (kept values, projected input, hidden, cell) gives what takes their place, then the new hidden and cell states. `backward`
    (gradient, kept, previous hidden, new hidden, previous cell, new cell, gradient of the cell) gives the gradients of the
    projected input, of the product (None where the same), of the previous cell, and the direct one of the previous hidden.
    """

    gates: int
    columns: int
    adds: bool  # the product is added to the projected input
    has_cell: bool
    forward: Callable
    backward: Callable


def _lstm_forward(kept: list[Expr], projected: list[Expr], hidden: Expr, cell: Expr) -> tuple:
    i, f, g, o = s.sigmoid(kept[0]), s.sigmoid(kept[1]), s.tanh(kept[2]), s.sigmoid(kept[3])
    new = f * cell + i * g
    return [i, f, g, o], o * s.tanh(new), new


def _lstm_backward(grad, kept, hidden, new_hidden, cell, new_cell, grad_cell) -> tuple:
    i, f, g, o = kept
    bent = s.tanh(new_cell)
    total = grad_cell + grad * o * (1 - bent * bent)
    gates = [total * g * i * (1 - i), total * cell * f * (1 - f), total * i * (1 - g * g), grad * bent * o * (1 - o)]
    return gates, None, total * f, None


def _gru_forward(kept: list[Expr], projected: list[Expr], hidden: Expr, cell: Any) -> tuple:
    _, reset, update, new = kept
    reset = s.sigmoid(projected[0] + reset)
    update = s.sigmoid(projected[1] + update)
    candidate = s.tanh(projected[2] + reset * new)
    return [reset, update, candidate, None], candidate + update * (hidden - candidate), None


def _gru_backward(grad, kept, hidden, new_hidden, cell, new_cell, grad_cell) -> tuple:
    reset, update, candidate, product = kept
    of_candidate = grad * (1 - update) * (1 - candidate * candidate)
    of_update = grad * (hidden - candidate) * update * (1 - update)
    of_reset = of_candidate * product * reset * (1 - reset)
    return [of_reset, of_update, of_candidate], [of_reset, of_update, of_candidate * reset], None, grad * update


def _tanh_forward(kept: list[Expr], projected: list[Expr], hidden: Expr, cell: Any) -> tuple:
    return [None], s.tanh(kept[0]), None


def _tanh_backward(grad, kept, hidden, new_hidden, cell, new_cell, grad_cell) -> tuple:
    return [grad * (1 - new_hidden * new_hidden)], None, None, None


def _relu_forward(kept: list[Expr], projected: list[Expr], hidden: Expr, cell: Any) -> tuple:
    return [None], s.where(kept[0] <= 0, 0, kept[0]), None


def _relu_backward(grad, kept, hidden, new_hidden, cell, new_cell, grad_cell) -> tuple:
    return [s.where(new_hidden <= 0, 0, grad)], None, None, None


CELLS = {
    "LSTM": Cell(4, 4, True, True, _lstm_forward, _lstm_backward),
    "GRU": Cell(3, 4, False, False, _gru_forward, _gru_backward),
    "RNN_TANH": Cell(1, 1, True, False, _tanh_forward, _tanh_backward),
    "RNN_RELU": Cell(1, 1, True, False, _relu_forward, _relu_backward),
}


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


def _forward_plan(
    mode: str,
    dtype: Any,
    device: Any,
    steps: int,
    batch: int,
    size: int,
    projected: tuple,
    weight: tuple,
    start: tuple,
    first_cell: tuple,
    biased: bool,
    reverse: bool,
    keep: bool,
    given: Sequence[Layout],
) -> Callable:
    """launch(outputs, kept, cells, projected, hidden, cell or hidden, weight, [bias]) for a block of steps."""
    cell = CELLS[mode]
    wide, gates = cell.columns * size, cell.gates * size
    held = steps if keep else 1
    results = [Layout.contiguous(x, dtype, device) for x in ((steps, batch, size), (held, batch, wide), (held, batch, size))]
    plan: list = []
    previous, previous_cell = Spot(4, 0, start), Spot(5, 0, first_cell)
    order = range(steps - 1, -1, -1) if reverse else range(steps)
    row = (size, 1)
    for t in order:
        kept_at = t * batch * wide if keep else 0
        skip = wide - gates
        addend = None
        if cell.adds:
            addend = Matrix(3, (0, 0, projected[1], projected[2]), t * projected[0])
        elif biased:
            addend = Matrix(7, (0, 0, 0, 1))
        plan.append(
            Contraction(
                dtype,
                batch,
                gates,
                size,
                Matrix(previous.slot, (0, 0, *previous.strides), previous.start),
                Matrix(6, (0, 0, weight[1], weight[0])),
                Matrix(1, (0, 0, wide, 1), kept_at + skip),
                addend=addend,
            )
        )
        inputs = [Spot(1, kept_at + c * size, (wide, 1)) for c in range(cell.columns)]
        kept = list(inputs)
        if not cell.adds:
            inputs += [Spot(3, t * projected[0] + c * size * projected[2], projected[1:]) for c in range(cell.gates)]
        values = [element(i, dtype) for i in range(len(inputs))]
        extra = [previous] + ([previous_cell] if cell.has_cell else [])
        states = [element(len(inputs) + i, dtype) for i in range(len(extra))] + [None]
        made, hidden, new_cell = cell.forward(values[: cell.columns], values[cell.columns :], states[0], states[1])
        here = Spot(0, t * batch * size, row)
        outputs = [(here, hidden)]
        if keep:
            outputs += [(spot, e) for spot, e in zip(kept, made) if e is not None]
        if cell.has_cell:
            here_cell = Spot(2, t * batch * size if keep else 0, row)
            outputs.append((here_cell, new_cell))
            previous_cell = here_cell
        plan.append(cell_step(f"{mode.lower()}_step", dtype, (batch, size), outputs, [*inputs, *extra]))
        previous = here
    return lowered(Plan(plan, results, given, release=steps * batch * size * gates >= RELEASE_FROM))


def _backward_plan(
    mode: str,
    dtype: Any,
    device: Any,
    steps: int,
    batch: int,
    size: int,
    g: tuple,
    weight: tuple,
    start: tuple,
    first_cell: tuple,
    reverse: bool,
    given: Sequence[Layout],
) -> Callable:
    """launch(gates, product gates, hidden gradient, cell gradient, direct gradient, g, outputs, kept, cells, hidden, cell,
    weight) for a block of steps. The hidden and cell gradients come in with those of the state after the block."""
    cell = CELLS[mode]
    wide, gates = cell.columns * size, cell.gates * size
    shapes = ((steps, batch, gates), (steps, batch, gates), (batch, size), (batch, size), (batch, size))
    results = [Layout.contiguous(x, dtype, device) for x in shapes]
    plan: list = []
    row = (size, 1)
    plane = batch * size
    for t in range(steps) if reverse else range(steps - 1, -1, -1):
        before = t + 1 if reverse else t - 1
        inside = 0 <= before < steps
        inputs = [Spot(5, t * g[0], g[1:]), Spot(2, 0, row)]
        inputs += [Spot(7, t * batch * wide + c * size, (wide, 1)) for c in range(cell.columns)]
        inputs += [Spot(6, before * plane, row) if inside else Spot(9, 0, start), Spot(6, t * plane, row)]
        if cell.has_cell:
            inputs += [
                Spot(8, before * plane, row) if inside else Spot(10, 0, first_cell),
                Spot(8, t * plane, row),
                Spot(3, 0, row),
            ]
        e = [element(i, dtype) for i in range(len(inputs))]
        rest = [*e[2 + cell.columns :], None, None, None]
        made, product, of_cell, direct = cell.backward(e[0] + e[1], e[2 : 2 + cell.columns], *rest[:5])
        outputs = [(Spot(0, t * batch * gates + c * size, (gates, 1)), x) for c, x in enumerate(made)]
        if product is not None:
            outputs += [(Spot(1, t * batch * gates + c * size, (gates, 1)), x) for c, x in enumerate(product)]
        if of_cell is not None:
            outputs.append((Spot(3, 0, row), of_cell))
        if direct is not None:
            outputs.append((Spot(4, 0, row), direct))
        plan.append(cell_step(f"{mode.lower()}_step_backward", dtype, (batch, size), outputs, inputs))
        gradient = Matrix(0 if product is None else 1, (0, 0, gates, 1), t * batch * gates)
        plan.append(
            Contraction(
                dtype,
                batch,
                size,
                gates,
                gradient,
                Matrix(11, (0, 0, *weight)),
                Matrix(2, (0, 0, size, 1)),
                addend=None if direct is None else Matrix(4, (0, 0, size, 1)),
            )
        )
    return lowered(Plan(plan, results, given, release=steps * batch * size * gates >= RELEASE_FROM))


def _blocks(count: int, from_end: bool) -> list[tuple[int, int]]:
    made = [(at, min(BLOCK, count - at)) for at in range(0, count, BLOCK)]
    return made[::-1] if from_end else made


def _part(x: Tensor, at: int, steps: int) -> Tensor:
    layout = x._layout
    if steps == layout.shape[0]:
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
    layout = projected._layout
    dtype, device = layout.dtype, layout.device
    count, batch, _ = layout.shape
    size = weight._layout.shape[1]
    rule = CELLS[mode]
    held = count if keep else 1
    out = empty_layout(Layout.contiguous((count, batch, size), dtype, device))
    kept = empty_layout(Layout.contiguous((held, batch, rule.columns * size), dtype, device))
    cells = empty_layout(Layout.contiguous((held, batch, size), dtype, device)) if rule.has_cell else kept
    ready = weight.t().contiguous().t() if count * batch >= 8 else weight
    state, cell_state = hidden, cell if rule.has_cell else hidden
    for at, steps in _blocks(count, reverse):
        key = (mode, steps, layout.strides, state._layout, cell_state._layout, ready._layout, bias is None, reverse, keep)
        results = (_part(out, at, steps), _part(kept, at, steps) if keep else kept, _part(cells, at, steps) if keep else cells)
        given = [_part(projected, at, steps), state, cell_state, ready, *([] if bias is None else [bias])]
        launch = _plans.get(key)
        if launch is None:
            launch = _plans[key] = _forward_plan(
                mode,
                dtype,
                device,
                steps,
                batch,
                size,
                layout.strides,
                ready._layout.strides,
                state._layout.strides,
                cell_state._layout.strides,
                bias is not None,
                reverse,
                keep,
                [x._layout for x in given],
            )
        launch(*results, *given)
        last = at if reverse else at + steps - 1
        state = _plane(out, last)
        if rule.has_cell:
            cell_state = _plane(cells, last if keep else 0)
    return out, (cell_state.clone() if rule.has_cell else empty_layout(Layout.contiguous((0,), dtype, device))), kept, cells


@_recurrent_layer.vjp
def _(gs, outs, mode, projected, hidden, cell, weight, bias, reverse, need):
    if modes.local.grad:
        return _composed[0](gs, mode, projected, hidden, cell, weight, bias, reverse)
    out, _, kept, cells = outs
    layout = out._layout
    dtype, device = layout.dtype, layout.device
    count, batch, size = layout.shape
    rule = CELLS[mode]
    g, g_cell = gs[0], gs[1]
    g = empty_layout(layout).zero_() if g is None else g
    wide = (count, batch, rule.gates * size)
    gates = empty_layout(Layout.contiguous(wide, dtype, device))
    product = gates if rule.adds else empty_layout(Layout.contiguous(wide, dtype, device))
    g_hidden = empty_layout(hidden._layout.dense()).zero_()
    g_state = g_hidden
    if rule.has_cell:
        g_state = empty_layout(hidden._layout.dense()).zero_() if g_cell is None else g_cell.clone()
    direct = g_hidden if rule.adds else empty_layout(hidden._layout.dense())
    for at, steps in _blocks(count, not reverse):
        before = at + steps if reverse else at - 1
        inside = 0 <= before < count
        state = _plane(out, before) if inside else hidden
        cell_state = state if not rule.has_cell else _plane(cells, before) if inside else cell
        key = ("backward", mode, steps, g._layout.strides, state._layout, cell_state._layout, weight._layout, reverse)
        given = [
            _part(g, at, steps),
            _part(out, at, steps),
            _part(kept, at, steps),
            _part(cells, at, steps),
            state,
            cell_state,
            weight,
        ]
        launch = _plans.get(key)
        if launch is None:
            launch = _plans[key] = _backward_plan(
                mode,
                dtype,
                device,
                steps,
                batch,
                size,
                g._layout.strides,
                weight._layout.strides,
                state._layout.strides,
                cell_state._layout.strides,
                reverse,
                [x._layout for x in given],
            )
        launch(_part(gates, at, steps), _part(product, at, steps), g_hidden, g_state, direct, *given)
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
