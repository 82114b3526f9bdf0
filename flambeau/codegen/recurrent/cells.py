"""The arithmetic of recurrent cells, in scalar expressions.

Stands on ir.scalar; used by gates.py, and for single calls by ops/nn/recurrent_cells.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from flambeau.ir import scalar as s
from flambeau.ir.scalar import Expr


class Cell(NamedTuple):
    """A kind of cell. Its gates' products with the hidden state have a part for each of `gates`; early: which kept values the new
    hidden state follows from.

    forward: of (product, projected input, hidden, cell), the first two a value per gate, it gives the `kept` values that the
    gradient needs, then the new hidden and cell states. backward: of (gradient, kept values, hidden, new hidden, cell, new cell,
    gradient of the new cell) it gives the gradients of the projected input, of the product (None where the same), of the cell,
    and what reaches the hidden state past the product.
    """

    gates: int
    kept: int
    early: tuple[int, ...]
    adds: bool  # the product is added to the projected input
    has_cell: bool
    forward: Callable
    backward: Callable


Values = Sequence[Expr]


def _lstm_forward(product: Values, projected: Values, hidden: Any, cell: Expr) -> tuple:
    i, f, g, o = (a + b for a, b in zip(product, projected, strict=True))
    i, f, g, o = s.sigmoid(i), s.sigmoid(f), s.tanh(g), s.sigmoid(o)
    new = f * cell + i * g
    return [i, f, g, o], o * s.tanh(new), new


def _lstm_backward(grad: Expr, kept: Values, hidden: Any, new_hidden: Any, cell: Expr, new_cell: Expr, grad_cell: Expr) -> tuple:
    i, f, g, o = kept
    bent = s.tanh(new_cell)
    total = grad_cell + grad * o * (1 - bent * bent)
    gates = [total * g * i * (1 - i), total * cell * f * (1 - f), total * i * (1 - g * g), grad * bent * o * (1 - o)]
    return gates, None, total * f, None


def _gru_forward(product: Values, projected: Values, hidden: Expr, cell: Any) -> tuple:
    reset, update, new = product
    reset = s.sigmoid(projected[0] + reset)
    update = s.sigmoid(projected[1] + update)
    candidate = s.tanh(projected[2] + reset * new)
    return [reset, update, candidate, new], candidate + update * (hidden - candidate), None


def _gru_backward(grad: Expr, kept: Values, hidden: Expr, new_hidden: Any, cell: Any, new_cell: Any, grad_cell: Any) -> tuple:
    reset, update, candidate, product = kept
    of_candidate = grad * (1 - update) * (1 - candidate * candidate)
    of_update = grad * (hidden - candidate) * update * (1 - update)
    of_reset = of_candidate * product * reset * (1 - reset)
    return [of_reset, of_update, of_candidate], [of_reset, of_update, of_candidate * reset], None, grad * update


def _tanh_forward(product: Values, projected: Values, hidden: Any, cell: Any) -> tuple:
    return [], s.tanh(product[0] + projected[0]), None


def _tanh_backward(grad: Expr, kept: Any, hidden: Any, new_hidden: Expr, cell: Any, new_cell: Any, grad_cell: Any) -> tuple:
    return [grad * (1 - new_hidden * new_hidden)], None, None, None


def _relu_forward(product: Values, projected: Values, hidden: Any, cell: Any) -> tuple:
    total = product[0] + projected[0]
    return [], s.where(total <= 0, 0, total), None


def _relu_backward(grad: Expr, kept: Any, hidden: Any, new_hidden: Expr, cell: Any, new_cell: Any, grad_cell: Any) -> tuple:
    return [s.where(new_hidden <= 0, 0, grad)], None, None, None


CELLS = {
    "LSTM": Cell(4, 4, (0, 1, 2, 3), True, True, _lstm_forward, _lstm_backward),
    "GRU": Cell(3, 4, (0, 1), False, False, _gru_forward, _gru_backward),
    "RNN_TANH": Cell(1, 0, (), True, False, _tanh_forward, _tanh_backward),
    "RNN_RELU": Cell(1, 0, (), True, False, _relu_forward, _relu_backward),
}
