"""Recurrent layers: aten.lstm, gru, rnn_tanh and rnn_relu, for sequences of one length and for packed ones.

Stands on the public functions, which take both lists of arguments.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.operator.variants import NAMESPACE
from flambeau.dispatcher.aten.registry import IMPLEMENTATIONS

__all__: list[str] = []


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
