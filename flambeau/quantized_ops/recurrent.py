"""Recurrent layers and cells with packed weights: torch.quantized_lstm, torch.quantized_gru and torch.ops.quantized's cells.

The products of a whole sequence with the input's weights are one; those with the hidden state's are one for each step. Stands on
linear.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau as torch
from flambeau.quantized_ops.linear import dynamic
from flambeau.quantized_ops.packed import CellParams, HalfLinearParams, LinearParams

__all__ = ["OPERATORS", "quantized_gru", "quantized_lstm"]

F = torch.nn.functional


def _lstm_gates(gates: Any, c: Any) -> tuple[Any, Any]:
    i, f, g, o = gates.chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru_gates(given: Any, hidden: Any, h: Any) -> Any:
    (ri, zi, ni), (rh, zh, nh) = given.chunk(3, -1), hidden.chunk(3, -1)
    z = (zh + zi).sigmoid()
    n = ni + (rh + ri).sigmoid() * nh
    n = n.tanh()
    return (h - n) * z + n


class _Layer:
    """One direction of one layer: the two products of a cell."""

    def __init__(self, params: CellParams) -> None:
        self.params = params

    def given(self, x: Any) -> Any:
        return dynamic(x, self.params.ih, self.params.reduce_range)

    def hidden(self, h: Any) -> Any:
        return dynamic(h, self.params.hh, self.params.reduce_range)


def _through(layer: _Layer, x: Any, state: tuple[Any, ...], backwards: bool, lstm: bool) -> tuple[Any, tuple[Any, ...]]:
    """A sequence (time, batch, in) through one direction: (time, batch, hidden) and the last state."""
    given = layer.given(x).unbind(0)
    made: list[Any] = []
    for step in reversed(given) if backwards else given:
        state = (
            _lstm_gates(step + layer.hidden(state[0]), state[1])
            if lstm
            else (_gru_gates(step, layer.hidden(state[0]), state[0]),)
        )
        made.append(state[0])
    return torch.stack(made[::-1] if backwards else made), state


def _packed_through(
    layer: _Layer, x: Any, sizes: Sequence[int], state: tuple[Any, ...], backwards: bool, lstm: bool
) -> tuple[Any, tuple[Any, ...]]:
    """Packed sequences (rows, in), of which the steps have these sizes, through one direction."""
    steps = list(layer.given(x).split(list(sizes), 0))
    order = range(len(steps))[::-1] if backwards else range(len(steps))
    made: list[Any] = [None] * len(steps)
    for n in order:
        count = sizes[n]
        now = tuple(v[:count] for v in state)
        new = (
            _lstm_gates(steps[n] + layer.hidden(now[0]), now[1])
            if lstm
            else (_gru_gates(steps[n], layer.hidden(now[0]), now[0]),)
        )
        made[n] = new[0]
        state = tuple(torch.cat([a, b[count:]]) for a, b in zip(new, state))
    return torch.cat(made), state


def _layers(
    x: Any,
    states: tuple[Any, ...],
    params: Sequence[CellParams],
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    sizes: Any,
    lstm: bool,
) -> tuple[Any, ...]:
    ways = 2 if bidirectional else 1
    last: list[tuple[Any, ...]] = []
    for n in range(layers):
        outputs = []
        for way in range(ways):
            at = n * ways + way
            state = tuple(s[at] for s in states)
            layer = _Layer(params[at])
            run = (
                _through(layer, x, state, way == 1, lstm)
                if sizes is None
                else _packed_through(layer, x, sizes, state, way == 1, lstm)
            )
            outputs.append(run[0])
            last.append(run[1])
        x = torch.cat(outputs, -1) if bidirectional else outputs[0]
        if dropout and train and n < layers - 1:
            x = F.dropout(x, dropout, True)
    return (x, *[torch.stack([state[i] for state in last]) for i in range(len(states))])


def _network(lstm: bool) -> Any:
    def run(input: Any, *args: Any, **given: Any) -> Any:
        given.pop("dtype", None)
        given.pop("use_dynamic", None)
        if isinstance(args[0], torch.Tensor) and not given.get("batch_first") and args[0].dtype is torch.int64:
            sizes, hx, params, _biases, layers, dropout, train, bidirectional, *_ = args
            states = tuple(hx) if lstm else (hx,)
            with torch.no_grad():
                return _layers(input, states, params, layers, dropout, train, bidirectional, sizes.tolist(), lstm)
        hx, params, _biases, layers, dropout, train, bidirectional, batch_first, *_ = (*args, *given.values())
        states = tuple(hx) if lstm else (hx,)
        with torch.no_grad():
            x = input.transpose(0, 1) if batch_first else input
            out, *last = _layers(x, states, params, layers, dropout, train, bidirectional, None, lstm)
            return (out.transpose(0, 1) if batch_first else out, *last)

    return run


quantized_lstm, quantized_gru = _network(True), _network(False)


def _product(x: Any, packed: Any) -> Any:
    return dynamic(x, packed, reduce_range=True)  # as PyTorch's cells do


def _lstm_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, bias_ih: Any, bias_hh: Any) -> tuple[Any, Any]:
    return _lstm_gates(_product(input, w_ih) + _product(hx[0], w_hh), hx[1])


def _gru_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
    return _gru_gates(_product(input, w_ih), _product(hx, w_hh), hx)


def _simple_cell(function: Any) -> Any:
    return lambda input, hx, w_ih, w_hh, b_ih, b_hh: function(_product(input, w_ih) + _product(hx, w_hh))


def _cell_params(w_ih: Any, w_hh: Any, bias_ih: Any, bias_hh: Any, reduce_range: bool = False) -> CellParams:
    return CellParams(w_ih, w_hh, bias_ih, bias_hh, reduce_range)


def _half_cell_params(w_ih: HalfLinearParams, w_hh: HalfLinearParams) -> CellParams:
    return CellParams(w_ih, w_hh, w_ih.bias(), w_hh.bias(), False)


def _static_cell_params(w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> CellParams:
    return CellParams(LinearParams(w_ih, b_ih), LinearParams(w_hh, b_hh), b_ih, b_hh, False)


#: The kernels by operator.
OPERATORS: dict[str, Any] = {
    "quantized_lstm_cell_dynamic": _lstm_cell,
    "quantized_gru_cell_dynamic": _gru_cell,
    "quantized_rnn_relu_cell_dynamic": _simple_cell(torch.relu),
    "quantized_rnn_tanh_cell_dynamic": _simple_cell(torch.tanh),
    "make_quantized_cell_params": _static_cell_params,
    "make_quantized_cell_params_dynamic": _cell_params,
    "make_quantized_cell_params_fp16": _half_cell_params,
}
