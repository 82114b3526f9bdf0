"""torch.lstm in PyTorch's operators: the kernel for CPUs, layer by layer.

Used by dispatch_modes.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.dtype import bfloat16, float16, float32
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.dispatcher.aten.lowerings import lowering, packets
from flambeau.dispatcher.aten.recurrence import LSTM

__all__ = ["lstm"]


@lowering
def lstm(own: Any, input: Any, *args: Any) -> Any:
    """An LSTM of float32, whose sequences have one length, by the kernel for CPUs."""
    if len(args) != 8 or not isinstance(args[2], bool):
        return NotImplemented  # packed
    (hidden, cell), weights, has_biases, num_layers, dropout, train, bidirectional, batch_first = args
    directions, per_cell = 1 + bidirectional, 4 if has_biases else 2
    fits = input.dtype in (float32, bfloat16, float16) and input.numel() and input.dim() == 3
    if not fits or len(weights) != per_cell * num_layers * directions:  # with projections there are more
        return NotImplemented
    aten = packets()
    x = aten.transpose.int(input, 0, 1) if batch_first else input
    size = hidden.shape[-1]
    finals: tuple[list[Any], list[Any]] = ([], [])
    for layer in range(num_layers):
        outputs = []
        for reverse in range(directions):
            at = layer * directions + reverse
            own_weights = list(weights[at * per_cell : (at + 1) * per_cell])
            own_weights += [input.new_zeros(4 * size) for _ in range(4 - per_cell)]
            state = [aten.select.int(x, 0, at) for x in (hidden, cell)]
            rest = (bool(reverse), [], LSTM, size, 1, has_biases, False, False, train)
            output, *last, _ = aten.mkldnn_rnn_layer.default(x, *own_weights, *state, *rest)
            outputs.append(output)
            for found, each in zip(finals, last):
                found.append(each)
        x = outputs[0] if directions == 1 else aten.cat.default(outputs, -1)
        if dropout > 0 and train and layer < num_layers - 1:
            x = NAMESPACE["dropout"](x, dropout, True)
    x = aten.transpose.int(x, 0, 1) if batch_first else x
    return x, *[aten.stack.default(found) for found in finals]
