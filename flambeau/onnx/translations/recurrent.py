"""Translations of recurrent networks: LSTM, GRU, RNN, kept whole, and their cells."""

from __future__ import annotations

from typing import Any

from flambeau.onnx._builder import Builder
from flambeau.onnx._graph import Value
from flambeau.onnx._registry import translation
from flambeau.onnx.translations._common import unsupported
from flambeau.onnx.translations.activation import dropped
from flambeau.onnx.translations.linear import linear


def _gates(b: Builder, x: Value, order: list[int]) -> Value:
    """A weight or bias whose gates are in ONNX's order."""
    if order == list(range(len(order))):
        return x
    parts = b.op("Split", x, axis=0, num_outputs=len(order), outputs=len(order))
    return b.op("Concat", *[parts[i] for i in order], axis=0, shape=x.shape)


def _network(
    b: Builder,
    op_type: str,
    order: list[int],
    x: Value,
    states: list[Value],
    params: list[Value],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    **attributes: Any,
) -> tuple[Value, ...]:
    directions = 2 if bidirectional else 1
    each = len(params) // (num_layers * directions)
    if each != (4 if has_biases else 2):
        raise unsupported(b, "with proj_size; put a linear layer behind it")
    hidden = params[1].shape[-1]
    x = b.swap(x, 0, 1) if batch_first else x
    layers = [states] if num_layers == 1 else list(zip(*(_layers(b, s, num_layers, directions) for s in states)))
    last: list[list[Value]] = [[] for _ in states]
    for layer in range(num_layers):
        own = [params[(layer * directions + d) * each :][:each] for d in range(directions)]
        wide = [_stacked(b, [_gates(b, p[i], order) for p in own]) for i in range(2)]
        bias = None
        if has_biases:
            rows = [b.op("Concat", *[_gates(b, p[i], order) for i in (2, 3)], axis=0, shape=(1,)) for p in own]
            bias = _stacked(b, rows)
        made = b.op(
            op_type,
            x,
            *wide,
            bias,
            None,
            *layers[layer],
            outputs=1 + len(states),
            hidden_size=hidden,
            direction="bidirectional" if bidirectional else "forward",
            **attributes,
        )
        for kept, state in zip(last, made[1:]):
            state.shape = [directions, 1, hidden]
            kept.append(state)
        shape = [*x.shape[:2], directions * hidden]
        made[0].shape = [x.shape[0], directions, x.shape[1], hidden]
        if directions == 1:
            x = b.squeeze(made[0], 1)
        else:
            x = b.op("Reshape", b.transpose(made[0], [0, 2, 1, 3]), [0, 0, directions * hidden])
        x.shape = shape
        if layer < num_layers - 1:
            x = dropped(b, x, dropout, train)
            x.shape = shape
    results = [kept[0] if num_layers == 1 else b.op("Concat", *kept, axis=0) for kept in last]
    return (b.swap(x, 0, 1) if batch_first else x), *results


def _layers(b: Builder, state: Value, layers: int, directions: int) -> tuple[Value, ...]:
    return b.op("Split", state, [directions] * layers, axis=0, outputs=layers)


def _stacked(b: Builder, rows: list[Value]) -> Value:
    made = [b.unsqueeze(row, 0) for row in rows]
    return made[0] if len(made) == 1 else b.op("Concat", *made, axis=0)


@translation("lstm.input")
def lstm(b: Builder, x: Value, hx: list[Value], params: list[Value], *settings: Any) -> tuple[Value, ...]:
    """LSTM; PyTorch's gates are input, forget, cell, output."""
    return _network(b, "LSTM", [0, 3, 1, 2], x, hx, params, *settings)


@translation("gru.input")
def gru(b: Builder, x: Value, hx: Value, params: list[Value], *settings: Any) -> tuple[Value, ...]:
    """GRU; PyTorch's gates are reset, update, new."""
    return _network(b, "GRU", [1, 0, 2], x, [hx], params, *settings, linear_before_reset=1)


def _rnn(name: str, activation: str) -> None:
    def write(b: Builder, x: Value, hx: Value, params: list[Value], *settings: Any) -> tuple[Value, ...]:
        return _network(b, "RNN", [0], x, [hx], params, *settings, activations=[activation] * (2 if settings[4] else 1))

    translation(f"{name}.input")(write)


_rnn("rnn_tanh", "Tanh")
_rnn("rnn_relu", "Relu")


# ---------------------------------------------------------------- cells


def _parts(b: Builder, x: Value, count: int) -> tuple[Value, ...]:
    return b.op("Split", x, axis=-1, num_outputs=count, outputs=count)


@translation("lstm_cell")
def lstm_cell(
    b: Builder, x: Value, hx: list[Value], w_ih: Value, w_hh: Value, b_ih: Value | None = None, b_hh: Value | None = None
) -> tuple[Value, Value]:
    """One step of an LSTM."""
    gates = b.op("Add", linear(b, x, w_ih, b_ih), linear(b, hx[0], w_hh, b_hh))
    i, f, g, o = _parts(b, gates, 4)
    cell = b.op("Add", b.op("Mul", b.op("Sigmoid", f), hx[1]), b.op("Mul", b.op("Sigmoid", i), b.op("Tanh", g)))
    return b.op("Mul", b.op("Sigmoid", o), b.op("Tanh", cell)), cell


@translation("gru_cell")
def gru_cell(
    b: Builder, x: Value, hx: Value, w_ih: Value, w_hh: Value, b_ih: Value | None = None, b_hh: Value | None = None
) -> Value:
    """One step of a GRU."""
    given, kept = _parts(b, linear(b, x, w_ih, b_ih), 3), _parts(b, linear(b, hx, w_hh, b_hh), 3)
    reset, update = (b.op("Sigmoid", b.op("Add", given[i], kept[i])) for i in range(2))
    new = b.op("Tanh", b.op("Add", given[2], b.op("Mul", reset, kept[2])))
    return b.op("Add", new, b.op("Mul", update, b.op("Sub", hx, new)))


def _rnn_cell(name: str, op_type: str) -> None:
    def write(
        b: Builder, x: Value, hx: Value, w_ih: Value, w_hh: Value, b_ih: Value | None = None, b_hh: Value | None = None
    ) -> Value:
        return b.op(op_type, b.op("Add", linear(b, x, w_ih, b_ih), linear(b, hx, w_hh, b_hh)))

    translation(name)(write)


_rnn_cell("rnn_tanh_cell", "Tanh")
_rnn_cell("rnn_relu_cell", "Relu")
