"""Recurrent layers: aten.lstm, gru, rnn_tanh and rnn_relu, for sequences of one length and for packed ones; and the kernel by
which PyTorch computes an LSTM on the CPU, which modes below autograd see in its place.

Stands on the public functions, which take both lists of arguments.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.dtype import uint8
from flambeau.core.autograd import engine
from flambeau.core.modes.modes import enable_grad
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.dispatcher.aten.registry import IMPLEMENTATIONS, implementation

__all__ = ["LSTM"]


def _register(name: str) -> None:
    def dense(
        input: Any, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool,
        batch_first: bool,
    ) -> Any:  # fmt: skip
        return NAMESPACE[name](input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)

    def packed(
        data: Any, batch_sizes: Any, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float, train: bool,
        bidirectional: bool,
    ) -> Any:  # fmt: skip
        return NAMESPACE[name](data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional)

    IMPLEMENTATIONS[f"{name}.input"], IMPLEMENTATIONS[f"{name}.data"] = dense, packed


for _name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
    _register(_name)


# ---------------------------------------------------------------- one layer in one direction, PyTorch's kernel for CPUs

LSTM = 2  # the number of that kind of layer


@implementation()
def mkldnn_rnn_layer(
    input: Any, weight0: Any, weight1: Any, weight2: Any, weight3: Any, hx_: Any, cx_: Any, reverse: bool, batch_sizes: Any,
    mode: int, hidden_size: int, num_layers: int, has_biases: bool, bidirectional: bool, batch_first: bool, train: bool,
) -> Any:  # fmt: skip
    """(outputs, hidden, cell, memory that the gradients would be computed in) of a long short-term memory."""
    if mode != LSTM or num_layers != 1 or bidirectional:
        raise NotImplementedError(
            "aten::mkldnn_rnn_layer is not implemented in flambeau but for one layer of an LSTM in one direction; call torch.lstm"
        )
    weights = [weight0, weight1, weight2, weight3] if has_biases else [weight0, weight1]
    steps = input.flip(0) if reverse else input
    out, hidden, cell = NAMESPACE["lstm"](
        steps, (hx_.unsqueeze(0), cx_.unsqueeze(0)), weights, has_biases, 1, 0.0, train, False, False
    )
    return out.flip(0) if reverse else out, hidden[0], cell[0], NAMESPACE["empty"](0, dtype=uint8)


@implementation()
def mkldnn_rnn_layer_backward(
    input: Any, weight1: Any, weight2: Any, weight3: Any, weight4: Any, hx_: Any, cx_tmp: Any, output: Any, hy_: Any, cy_: Any,
    grad_output: Any, grad_hy: Any, grad_cy: Any, reverse: bool, mode: int, hidden_size: int, num_layers: int, has_biases: bool,
    train: bool, bidirectional: bool, batch_sizes: Any, batch_first: bool, workspace: Any,
) -> Any:  # fmt: skip
    """The gradients of the input, the weights, the hidden state and the cell."""
    given = (input, weight1, weight2, weight3, weight4, hx_, cx_tmp)
    with enable_grad():
        leaves = [x.detach().requires_grad_() for x in given]
        made = mkldnn_rnn_layer(
            *leaves, reverse, batch_sizes, mode, hidden_size, num_layers, has_biases, bidirectional, batch_first, train
        )
        wanted = [(x, g) for x, g in zip(made, (grad_output, grad_hy, grad_cy)) if g is not None]
        found = engine.grad([x for x, _ in wanted], leaves, [g for _, g in wanted], allow_unused=True)
    return tuple(x.new_zeros(x.shape) if g is None else g for x, g in zip(given, found))
