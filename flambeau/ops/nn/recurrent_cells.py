"""The arithmetic of one step of a recurrent layer, one operator for each kind of cell; the products are the caller's.

Stands on ops.nn.recurrent, whose formulas of the cells it lays over the parts of the two products; used by
flambeau.nn.modules.recurrence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base.layout import Layout, register_cache
from flambeau.codegen.plan import Plan
from flambeau.codegen.recurrent.cells import CELLS
from flambeau.codegen.targets import lowered
from flambeau.core.modes import modes
from flambeau.core.operator.define import operator
from flambeau.core.operator.pointwise import RELEASE_FROM
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.operator.variants import pointwise
from flambeau.core.tensor.tensor import Tensor
from flambeau.ir import scalar as s
from flambeau.ir.loops import element
from flambeau.ir.scalar import constant
from flambeau.ops.nn.recurrent import Spot, cell_step

_plans: dict[Any, Callable] = register_cache({})


def _parts(slot: int, layout: Layout, count: int) -> list[Spot]:
    """Where the `count` equal parts of the columns of a matrix lie."""
    size = layout.shape[1] // count
    return [Spot(slot, part * size * layout.strides[1], layout.strides) for part in range(count)]


def _plan(
    name: str, results: Sequence[tuple[int, Sequence[Any]]], given: Sequence[tuple[Layout, int]], size: int, formula: Callable
) -> Callable:
    """launch(results, given): the matrices of so many parts that formula(*parts of each given matrix) gives for each result."""
    batch, (first, _) = given[0][0].shape[0], given[0]
    made = [Layout.contiguous((batch, parts * size), first.dtype, first.device) for parts in results]
    inputs = [spot for k, (layout, parts) in enumerate(given) for spot in _parts(len(made) + k, layout, parts)]
    elements = iter([element(i, first.dtype) for i in range(len(inputs))])
    values = formula(*[[next(elements) for _ in range(parts)] for _, parts in given])
    spots = [spot for k, layout in enumerate(made) for spot in _parts(k, layout, results[k])]
    step = cell_step(name, first.dtype, (batch, size), list(zip(spots, values, strict=True)), inputs)
    return lowered(Plan([step], made, [layout for layout, _ in given], release=batch * size * 64 >= RELEASE_FROM))


def _kept(name: str, results: Sequence[int], given: Sequence[tuple[Tensor, int]], formula: Callable) -> Any:
    """The results of the plan for these (matrix, number of parts)."""
    key = (name, *[x._layout for x, _ in given])
    launch = _plans.get(key)
    if launch is None:
        layouts = [(x._layout, parts) for x, parts in given]
        size = layouts[0][0].shape[1] // layouts[0][1]
        launch = _plans[key] = _plan(name, results, layouts, size, formula)
    return launch(*(None,) * len(results), *[x for x, _ in given])


# ---------------------------------------------------------------- simple cells


@pointwise(name="tanh_cell_step", function=False, method=False, inplace=False, node="Tanh")
def tanh_cell_step(projected: Tensor, product: Tensor):
    """The hyperbolic tangent of the sum of both products."""
    return s.tanh(projected + product)


@tanh_cell_step.vjp
def _(g, out):
    change = g * (1 - out * out)
    return change, change


@pointwise(name="relu_cell_step", function=False, method=False, inplace=False, node="Relu")
def relu_cell_step(projected: Tensor, product: Tensor):
    """The sum of both products, or 0 where it is negative."""
    total = projected + product
    return s.where(total <= 0, 0, total)


@relu_cell_step.vjp
def _(g, out):
    change = s.where(out <= 0, 0, g)
    return change, change


# ---------------------------------------------------------------- long short-term memory


@operator(method=False, function=False, differentiable=2)
def lstm_cell_step(projected: Tensor, product: Tensor, cell: Tensor) -> tuple[Tensor, ...]:
    """(hidden, cell, gates after their functions) of the products with the input and with the hidden state."""

    def formula(projected: list, product: list, cell: list) -> list:
        gates, hidden, new = CELLS["LSTM"].forward(product, projected, None, cell[0])
        return [hidden, new, *gates]

    return _kept("lstm_cell_step", (1, 1, 4), ((projected, 4), (product, 4), (cell, 1)), formula)


@lstm_cell_step.vjp
def _(gs, outs, projected, product, cell):
    g, g_cell = gs[0], gs[1]
    if modes.local.grad:
        return _lstm_gradients(g, g_cell, projected + product, cell)
    given = [(outs[2], 4), (cell, 1), (outs[1], 1), *[(x, 1) for x in (g, g_cell) if x is not None]]

    def formula(kept: list, cell: list, new_cell: list, *gradients: list) -> list:
        rest, zero = [x for (x,) in gradients], constant(0, cell[0].dtype)
        first, second = (x is not None for x in (g, g_cell))
        grad, grad_cell = rest[0] if first else zero, rest[-1] if second else zero
        gates, _, of_cell, _ = CELLS["LSTM"].backward(grad, kept, None, None, cell[0], new_cell[0], grad_cell)
        return [*gates, of_cell]

    name = "lstm_cell_backward" + "_hidden" * (g is not None) + "_cell" * (g_cell is not None)
    gates, of_cell = _kept(name, (4, 1), given, formula)
    return gates, gates, of_cell


def _lstm_gradients(g: Tensor | None, g_cell: Tensor | None, gates: Tensor, cell: Tensor) -> tuple[Tensor, ...]:
    """The gradients in operators, for gradients of gradients."""
    tanh, sigmoid = NAMESPACE["tanh"], NAMESPACE["sigmoid"]
    i, f, c, o = gates.chunk(4, -1)
    i, f, c, o = sigmoid(i), sigmoid(f), tanh(c), sigmoid(o)
    bent = tanh(f * cell + i * c)
    g = NAMESPACE["zeros_like"](cell) if g is None else g
    total = g * o * (1 - bent * bent)
    total = total if g_cell is None else total + g_cell
    made = NAMESPACE["cat"](
        [total * c * i * (1 - i), total * cell * f * (1 - f), total * i * (1 - c * c), g * bent * o * (1 - o)], -1
    )
    return made, made, total * f


# ---------------------------------------------------------------- gated recurrent units


@operator(method=False, function=False, differentiable=1)
def gru_cell_step(projected: Tensor, product: Tensor, hidden: Tensor) -> tuple[Tensor, ...]:
    """(hidden, gates after their functions) of the products with the input and with the hidden state."""

    def formula(projected: list, product: list, hidden: list) -> list:
        (*gates, _), new, _ = CELLS["GRU"].forward(product, projected, hidden[0], None)
        return [new, *gates]

    return _kept("gru_cell_step", (1, 3), ((projected, 3), (product, 3), (hidden, 1)), formula)


@gru_cell_step.vjp
def _(g, outs, projected, product, hidden):
    if modes.local.grad:
        return _gru_gradients(g, projected, product, hidden)

    def formula(kept: list, product: list, hidden: list, g: list) -> list:
        of_projected, of_product, _, direct = CELLS["GRU"].backward(g[0], [*kept, product[2]], hidden[0], None, None, None, None)
        return [*of_projected, *of_product, direct]

    return _kept("gru_cell_backward", (3, 3, 1), ((outs[1], 3), (product, 3), (hidden, 1), (g, 1)), formula)


def _gru_gradients(g: Tensor, projected: Tensor, product: Tensor, hidden: Tensor) -> tuple[Tensor, ...]:
    """The gradients in operators, for gradients of gradients."""
    sigmoid, cat = NAMESPACE["sigmoid"], NAMESPACE["cat"]
    (a, b, c), (d, e, n) = projected.chunk(3, -1), product.chunk(3, -1)
    reset, update = sigmoid(a + d), sigmoid(b + e)
    candidate = NAMESPACE["tanh"](c + reset * n)
    of_candidate = g * (1 - update) * (1 - candidate * candidate)
    of_update = g * (hidden - candidate) * update * (1 - update)
    of_reset = of_candidate * n * reset * (1 - reset)
    return cat([of_reset, of_update, of_candidate], -1), cat([of_reset, of_update, of_candidate * reset], -1), g * update
