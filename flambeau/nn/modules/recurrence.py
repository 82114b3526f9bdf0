"""The arithmetic of recurrent layers, one time step at a time, in tensor operators.

`rnn_tanh`, `rnn_relu`, `gru` and `lstm` have the arguments of PyTorch's functions of those names; so have the
`*_cell` functions. Used by `rnn.py`. A layer over equally long sequences is one operator (flambeau.ops.nn.recurrent); otherwise
the input's product with weight_ih is one contraction over all steps, and the rest a call of a step function (`STEPS`) per step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.core.modes import interception
from flambeau.core.modes.autocast import cast_arguments, lower
from flambeau.core.modes.modes import active, local
from flambeau.core.modes.overrides import PLAIN
from flambeau.core.operator.facets import described, record_of
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.ops.nn.recurrent import fits, recurrent_layer, register_composed
from flambeau.ops.nn.recurrent_cells import gru_cell_step, lstm_cell_step, relu_cell_step, tanh_cell_step

# A state is (hidden,) or, for LSTM, (hidden, cell). Each hidden: (batch, hidden_size or proj_size).
State = tuple[Tensor, ...]


def _tanh_step(projected: Tensor, state: State, weight_hh: Tensor, bias_hh: Tensor | None, _: Any) -> State:
    product = F.linear(state[0], weight_hh, bias_hh)
    if product.dtype.itemsize < 4:  # the sum is rounded
        return (flambeau.tanh(projected + product),)
    return (tanh_cell_step(projected, product),)


def _relu_step(projected: Tensor, state: State, weight_hh: Tensor, bias_hh: Tensor | None, _: Any) -> State:
    product = F.linear(state[0], weight_hh, bias_hh)
    if product.dtype.itemsize < 4:
        return (flambeau.relu(projected + product),)
    return (relu_cell_step(projected, product),)


def _one_kernel(projected: Tensor, product: Tensor, state: Tensor, gates: int) -> bool:
    """Whether a step's arithmetic on these can be one operator (flambeau.ops.nn.recurrent_cells)."""
    shape = product._layout.shape
    return (
        len(shape) == 2
        and projected._layout.shape == shape
        and fits((projected, product, state), PLAIN)
        and state._layout.shape == (shape[0], shape[1] // gates)
        and shape[1] % gates == 0
    )


def _gru_step(projected: Tensor, state: State, weight_hh: Tensor, bias_hh: Tensor | None, _: Any) -> State:
    hidden = state[0]
    product = F.linear(hidden, weight_hh, bias_hh)
    if _one_kernel(projected, product, hidden, 3):
        return gru_cell_step(projected, product, hidden)[:1]
    reset_input, update_input, new_input = projected.chunk(3, -1)
    reset_hidden, update_hidden, new_hidden = product.chunk(3, -1)
    reset = flambeau.sigmoid(reset_input + reset_hidden)
    update = flambeau.sigmoid(update_input + update_hidden)
    new = flambeau.tanh(new_input + reset * new_hidden)
    return (new + update * (hidden - new),)


def _lstm_step(projected: Tensor, state: State, weight_hh: Tensor, bias_hh: Tensor | None, weight_hr: Tensor | None) -> State:
    hidden, cell = state
    product = F.linear(hidden, weight_hh, bias_hh)
    if _one_kernel(projected, product, cell, 4):
        hidden, cell, _ = lstm_cell_step(projected, product, cell)
    else:
        input_gate, forget_gate, candidate, output_gate = (projected + product).chunk(4, -1)
        cell = flambeau.sigmoid(forget_gate) * cell + flambeau.sigmoid(input_gate) * flambeau.tanh(candidate)
        hidden = flambeau.sigmoid(output_gate) * flambeau.tanh(cell)
    if weight_hr is not None:
        hidden = F.linear(hidden, weight_hr)
    return hidden, cell


STEPS: dict[str, Callable[..., State]] = {"RNN_TANH": _tanh_step, "RNN_RELU": _relu_step, "GRU": _gru_step, "LSTM": _lstm_step}


def _unpack_weights(weights: list[Tensor], has_biases: bool) -> tuple:
    """(w_ih, w_hh, b_ih, b_hh, w_hr) of one layer and direction; absent ones are None."""
    w_ih, w_hh, *rest = weights
    b_ih, b_hh = (rest.pop(0), rest.pop(0)) if has_biases else (None, None)
    return w_ih, w_hh, b_ih, b_hh, (rest[0] if rest else None)


def run_dense(step: Callable, steps: list[Tensor], state: State, rest: tuple, reverse: bool) -> tuple[Tensor, State]:
    """All time steps of equally long sequences: (T, batch, hidden) outputs and the last state."""
    outputs = []
    for projected in reversed(steps) if reverse else steps:
        state = step(projected, state, *rest)
        outputs.append(state[0])
    if reverse:
        outputs.reverse()
    return flambeau.stack(outputs), state


def _run_packed(step: Callable, steps: list[Tensor], start: State, rest: tuple, reverse: bool) -> tuple[Tensor, State]:
    """The same for sequences sorted by falling length: step t holds those longer than t, in the first rows."""
    outputs = []
    if reverse:
        # From the back the batch grows: a sequence joins with its own initial state.
        size = steps[-1].size(0)
        state = tuple(tensor[:size] for tensor in start)
        for projected in reversed(steps):
            if projected.size(0) > size:
                joining = slice(size, projected.size(0))
                state = tuple(flambeau.cat([tensor, first[joining]]) for tensor, first in zip(state, start))
                size = projected.size(0)
            state = step(projected, state, *rest)
            outputs.append(state[0])
        outputs.reverse()
        return flambeau.cat(outputs), state
    # From the front it shrinks: the last state of a finished sequence is put aside.
    state = start
    size = steps[0].size(0)
    finished: list[State] = []
    for projected in steps:
        if projected.size(0) < size:
            kept = projected.size(0)
            finished.append(tuple(tensor[kept:] for tensor in state))
            state = tuple(tensor[:kept] for tensor in state)
            size = kept
        state = step(projected, state, *rest)
        outputs.append(state[0])
    finished.append(state)
    final = tuple(flambeau.cat(parts) for parts in zip(*reversed(finished)))
    return flambeau.cat(outputs), final


def _composed_gradients(gs, mode, input, input_weight, input_bias, hidden, cell, weight, bias, reverse) -> tuple:
    """Gradients that can be differentiated again: those of the same layer in tensor operators."""
    given = [
        x if x is None else x.view_as(x) if x._node is not None else x.detach().requires_grad_()
        for x in (input, input_weight, input_bias, hidden, cell, weight, bias)
    ]
    state = (given[3],) if cell is None else (given[3], given[4])
    projected = F.linear(given[0], given[1], given[2])
    outputs, final = run_dense(STEPS[mode], list(projected.unbind(0)), state, (given[5], given[6], None), reverse)
    pairs = [(y, g) for y, g in ((outputs, gs[0]), (final[-1], gs[1] if cell is not None else None)) if g is not None]
    wanted = [x for x in given if x is not None]
    found = iter(
        flambeau.autograd.grad([y for y, _ in pairs], wanted, [g for _, g in pairs], create_graph=True, allow_unused=True)
    )
    return tuple([None if x is None else next(found) for x in given])


register_composed(_composed_gradients)


def run_layers(
    mode: str,
    input: Tensor,
    batch_sizes: Tensor | None,
    states: State,
    weights: list[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Tensor, State]:
    """A stack of recurrent layers.

    Args:
        input: (T, batch, features), or packed data (rows, features) with batch_sizes (T).
        states: the initial states, each (num_layers * directions, batch, size).
        weights: flat, per layer and direction: w_ih, w_hh, [b_ih, b_hh,] [w_hr].

    Returns (T, batch, directions * size) or packed (rows, directions * size), and the final states.
    """
    if active.count and mode != "GRU" and local.autocast_enabled.get("cpu"):
        with cast_arguments(record_of("lstm"), (input, states, weights), {}) as ((input, states, weights), _):
            return run_layers(mode, input, batch_sizes, states, weights, has_biases, num_layers, dropout, train, bidirectional)
    if batch_sizes is None and not input.shape[0]:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    step = STEPS[mode]
    directions = 2 if bidirectional else 1
    per_cell = len(weights) // (num_layers * directions)
    sizes = None if batch_sizes is None else batch_sizes.tolist()
    run = run_dense if sizes is None else _run_packed
    starts = [state.unbind(0) for state in states]
    finals: list[State] = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            position = layer * directions + direction
            own = weights[position * per_cell : (position + 1) * per_cell]
            w_ih, w_hh, b_ih, b_hh, w_hr = _unpack_weights(own, has_biases)
            start = tuple(tensors[position] for tensors in starts)
            if sizes is None and w_hr is None and fits((input, *own, *start), PLAIN):
                output, final = recurrent_layer(mode, input, start, w_ih, w_hh, b_ih, b_hh, direction == 1)
                if mode != "LSTM" and directions == 1 and layer == num_layers - 1 and output.requires_grad:
                    output = output.clone()  # programs may write to it, as in PyTorch: the gradient reads the layer's own
                outputs.append(output)
                finals.append(final)
                continue
            projected = F.linear(input, w_ih, b_ih)
            steps = list(projected.unbind(0) if sizes is None else projected.split(sizes))
            output, final = run(step, steps, start, (w_hh, b_hh, w_hr), reverse=direction == 1)
            outputs.append(output)
            finals.append(final)
        input = outputs[0] if directions == 1 else flambeau.cat(outputs, -1)
        if dropout > 0 and train and layer < num_layers - 1:
            input = F.dropout(input, dropout, training=True)
    return input, tuple(flambeau.stack(tensors) for tensors in zip(*finals))


def _layer_function(mode: str, *args: Any) -> tuple[Tensor, ...]:
    """Dispatch on PyTorch's two argument lists: dense ends with batch_first, packed has batch_sizes second."""
    packed = not isinstance(args[3], bool)  # dense: has_biases is fourth; packed: the list of weights is
    if packed:
        data, batch_sizes, hx, weights, has_biases, num_layers, dropout, train, bidirectional = args
        batch_first = False
    else:
        data, hx, weights, has_biases, num_layers, dropout, train, bidirectional, batch_first = args
        batch_sizes = None
    states = (hx,) if isinstance(hx, Tensor) else tuple(hx)
    if batch_first:
        data = data.transpose(0, 1)
    output, finals = run_layers(
        mode, data, batch_sizes, states, list(weights), has_biases, num_layers, dropout, train, bidirectional
    )
    if batch_first:
        output = output.transpose(0, 1)
    return output, *finals


@described(autocast=lower)
def rnn_tanh(*args: Any) -> tuple[Tensor, Tensor]:
    """(input, hx, weights, has_biases, num_layers, dropout, train, bidirectional, batch_first), or packed
    (data, batch_sizes, hx, weights, ..., bidirectional). Returns (output, hidden)."""
    return _layer_function("RNN_TANH", *args)


@described(autocast=lower)
def rnn_relu(*args: Any) -> tuple[Tensor, Tensor]:
    """`rnn_tanh` with relu."""
    return _layer_function("RNN_RELU", *args)


def gru(*args: Any) -> tuple[Tensor, Tensor]:
    """A gated recurrent unit; arguments and results as `rnn_tanh`."""
    return _layer_function("GRU", *args)


@described(autocast=lower)
def lstm(*args: Any) -> tuple[Tensor, Tensor, Tensor]:
    """A long short-term memory; hx is (hidden, cell). Returns (output, hidden, cell)."""
    return _layer_function("LSTM", *args)


def _cell(mode: str, input: Tensor, state: State, w_ih: Tensor, w_hh: Tensor, b_ih: Any, b_hh: Any) -> State:
    if input.size(-1) != w_ih.size(1):
        raise RuntimeError(f"input has inconsistent input_size: got {input.size(-1)} expected {w_ih.size(1)}")
    for position, tensor in enumerate(state):
        if input.dim() > 1 and input.size(0) != tensor.size(0):
            raise RuntimeError(f"Input batch size {input.size(0)} doesn't match hidden{position} batch size {tensor.size(0)}")
        if tensor.size(-1) != w_hh.size(1):
            raise RuntimeError(f"hidden{position} has inconsistent hidden_size: got {tensor.size(-1)}, expected {w_hh.size(1)}")
    return STEPS[mode](F.linear(input, w_ih, b_ih), state, w_hh, b_hh, None)


def rnn_tanh_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih=None, b_hh=None) -> Tensor:
    """tanh(W_ih x + b_ih + W_hh h + b_hh). x (N, input_size), h (N, hidden_size)."""
    return _cell("RNN_TANH", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


def rnn_relu_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih=None, b_hh=None) -> Tensor:
    """`rnn_tanh_cell` with relu."""
    return _cell("RNN_RELU", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


def gru_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih=None, b_hh=None) -> Tensor:
    """One step of a gated recurrent unit. x (N, input_size), h (N, hidden_size)."""
    return _cell("GRU", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


def lstm_cell(input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih=None, b_hh=None) -> tuple[Tensor, Tensor]:
    """One step of a long short-term memory; hx and the result are (hidden, cell)."""
    return _cell("LSTM", input, tuple(hx), w_ih, w_hh, b_ih, b_hh)


# By name, for the operators of PyTorch's dispatcher that they answer.
NAMESPACE.update({f.__name__: f for f in (rnn_tanh, rnn_relu, gru, lstm)})
interception.provide(lambda: [rnn_tanh, rnn_relu, gru, lstm, rnn_tanh_cell, rnn_relu_cell, gru_cell, lstm_cell])
