"""The derivative of PyTorch's kernel for recurrent layers on CPUs."""

from __future__ import annotations

from typing import Any

from flambeau.dispatcher.graphs import derivative
from flambeau.dispatcher.namespaces import ops

__all__: list[str] = []

aten: Any = ops.aten


@derivative("mkldnn_rnn_layer", node="MkldnnRnnLayerBackward0", differentiable=3)
def _(
    gs: Any, input: Any, weight0: Any, weight1: Any, weight2: Any, weight3: Any, hx_: Any, cx_: Any, reverse: Any,
    batch_sizes: Any, mode: Any, hidden_size: Any, num_layers: Any, has_biases: Any, bidirectional: Any, batch_first: Any,
    train: Any, outs: Any,
) -> Any:  # fmt: skip
    return aten.mkldnn_rnn_layer_backward.default(
        input,
        weight0,
        weight1,
        weight2,
        weight3,
        hx_,
        cx_,
        *outs[:3],
        *gs[:3],
        reverse,
        mode,
        hidden_size,
        num_layers,
        has_biases,
        train,
        bidirectional,
        batch_sizes,
        batch_first,
        outs[3],
    )
