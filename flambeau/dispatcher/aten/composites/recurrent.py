"""Recurrent networks, one step after another, as graphs that are taken apart have them.

Batches of packed sequences (`aten.lstm.data`) are left to the public function. Inputs are (steps, batch, features).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.dispatcher.aten.composites.registry import aten, composite, in_graphs

__all__: list[str] = []
#: (part of the input, state, weights of the state) -> the new state.
Step = Callable[[Any, tuple[Any, ...], Sequence[Any]], tuple[Any, ...]]


def _linear(x: Any, weight: Any, bias: Any) -> Any:
    return aten.linear.default(x, weight, bias)


def _simple_step(activation: Any) -> Step:
    def step(part: Any, state: tuple[Any, ...], own: Sequence[Any]) -> tuple[Any, ...]:
        return (activation(aten.add.Tensor(_linear(state[0], *own), part)),)

    return step


def _lstm_step(part: Any, state: tuple[Any, ...], own: Sequence[Any]) -> tuple[Any, ...]:
    hidden, cell, *projection = _with_projection(state, own)
    gates = aten.add.Tensor(_linear(hidden, *own[:2]), part)
    parts = aten.split.Tensor(gates, gates.shape[-1] // 4, 2)
    admit, keep = aten.sigmoid.default(parts[0]), aten.sigmoid.default(parts[1])
    new, show = aten.tanh.default(parts[2]), aten.sigmoid.default(parts[3])
    cell = aten.add.Tensor(aten.mul.Tensor(keep, cell), aten.mul.Tensor(admit, new))
    hidden = aten.mul.Tensor(show, aten.tanh.default(cell))
    return (_linear(hidden, projection[0], None) if projection else hidden), cell


def _with_projection(state: tuple[Any, ...], own: Sequence[Any]) -> tuple[Any, ...]:
    return (*state, *own[2:])


def _gru_step(part: Any, state: tuple[Any, ...], own: Sequence[Any]) -> tuple[Any, ...]:
    hidden = state[0]
    given = aten.split.Tensor(part, part.shape[-1] // 3, 1)
    kept = _linear(hidden, *own)
    kept = aten.split.Tensor(kept, kept.shape[-1] // 3, 2)
    reset = aten.sigmoid.default(aten.add.Tensor(kept[0], given[0]))
    update = aten.sigmoid.default(aten.add.Tensor(kept[1], given[1]))
    new = aten.tanh.default(aten.add.Tensor(given[2], aten.mul.Tensor(kept[2], reset)))
    return (aten.add.Tensor(aten.mul.Tensor(aten.sub.Tensor(hidden, new), update), new),)


def _layer(x: Any, state: tuple[Any, ...], weights: Sequence[Any], step: Step, state_first: bool, reverse: bool) -> Any:
    """The outputs of all steps in their order, and the last state."""
    if state_first:
        state = tuple(aten.unsqueeze.default(s, 0) for s in state)
    given = _linear(x, weights[0], weights[2])
    if not state_first:
        state = tuple(aten.unsqueeze.default(s, 0) for s in state)
    if reverse:
        given = aten.flip.default(given, [0])
    outputs = []
    for part in aten.unbind.int(given, 0):
        state = step(part, state, [weights[1], weights[3], *weights[4:]])
        outputs.append(state[0])
    if reverse:
        outputs.reverse()
    made = aten.cat.default(outputs, 0)
    return made, tuple(aten.squeeze.dim(s, 0) for s in state)


def _network(
    x: Any,
    state: Sequence[Any],
    params: Sequence[Any],
    step: Step,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    *,
    state_first: bool = False,
) -> tuple[Any, ...]:
    """The outputs, and each part of the last states of all layers."""
    parts = [aten.unbind.int(s, 0) for s in state]
    directions = 2 if bidirectional else 1
    each = len(params) // (num_layers * directions)
    if batch_first:
        x = aten.transpose.int(x, 0, 1)
    last: list[tuple[Any, ...]] = []
    for i in range(num_layers):
        made = []
        for d in range(directions):
            at = i * directions + d
            own = list(params[at * each : (at + 1) * each])
            if not has_biases:
                own[2:2] = [None, None]
            result, end = _layer(x, tuple(p[at] for p in parts), own, step, state_first, d == 1)
            made.append(result)
            last.append(end)
        x = aten.cat.default(made, made[0].dim() - 1) if bidirectional else made[0]
        if dropout and train and i < num_layers - 1:
            x = aten.native_dropout.default(x, dropout, True)[0]
    if batch_first:
        x = aten.transpose.int(x, 0, 1)
    return (x, *[aten.stack.default([end[k] for end in last], 0) for k in range(len(parts))])


@in_graphs("lstm.input")
def lstm(input: Any, hx: Any, params: Any, *how: Any) -> Any:
    return _network(input, hx, params, _lstm_step, *how, state_first=True)


@in_graphs("gru.input")
def gru(input: Any, hx: Any, params: Any, *how: Any) -> Any:
    return _network(input, [hx], params, _gru_step, *how)


@in_graphs("rnn_tanh.input")
def rnn_tanh(input: Any, hx: Any, params: Any, *how: Any) -> Any:
    return _network(input, [hx], params, _simple_step(aten.tanh.default), *how)


@in_graphs("rnn_relu.input")
def rnn_relu(input: Any, hx: Any, params: Any, *how: Any) -> Any:
    return _network(input, [hx], params, _simple_step(aten.relu.default), *how)


# ---------------------------------------------------------------- one step, as PyTorch's dispatcher has it


def _over(name: str, x: Any, *rest: Any) -> Any:
    """An operator in place, but where gradients are recorded: parts of one tensor count their writes together here."""
    packet = getattr(aten, name if x.requires_grad else name + "_")
    return packet.Tensor(x, *rest) if rest else packet.default(x)


@composite("lstm_cell.default")
def lstm_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    hidden, cell = hx
    kept = aten.linear.default(hidden, w_hh, b_hh)
    gates = _over("add", kept, aten.linear.default(input, w_ih, b_ih))
    admit, keep, new, show = aten.unsafe_chunk.default(gates, 4, 1)
    admit, keep, new = _over("sigmoid", admit), _over("sigmoid", keep), _over("tanh", new)
    show = _over("sigmoid", show)
    cell = _over("add", aten.mul.Tensor(keep, cell), aten.mul.Tensor(admit, new))
    return aten.mul.Tensor(show, aten.tanh.default(cell)), cell


@composite("gru_cell.default")
def gru_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    given = aten.unsafe_chunk.default(aten.linear.default(input, w_ih, b_ih), 3, 1)
    kept = aten.unsafe_chunk.default(aten.linear.default(hx, w_hh, b_hh), 3, 1)
    reset = _over("sigmoid", _over("add", kept[0], given[0]))
    update = _over("sigmoid", _over("add", kept[1], given[1]))
    new = _over("tanh", aten.add.Tensor(given[2], _over("mul", kept[2], reset)))
    return _over("add", _over("mul", aten.sub.Tensor(hx, new), update), new)


def _plain_cell(name: str) -> None:
    @composite(f"rnn_{name}_cell.default")
    def cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
        kept = aten.linear.default(hx, w_hh, b_hh)
        return getattr(aten, name).default(_over("add", kept, aten.linear.default(input, w_ih, b_ih)))


_plain_cell("tanh")
_plain_cell("relu")
