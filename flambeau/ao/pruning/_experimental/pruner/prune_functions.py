"""Takes masked rows out of a layer, and what they would be multiplied by out of the next one. Stands on nn.utils.parametrize.

A row that isn't there would have given its bias: where biases are kept, what it becomes in between is added to the next bias.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.ao.pruning._experimental.pruner.parametrization import BiasHook, FakeStructuredSparsity
from flambeau.nn.utils import parametrize

__all__ = [
    "prune_conv2d",
    "prune_conv2d_activation_conv2d",
    "prune_conv2d_activation_pool_conv2d",
    "prune_conv2d_conv2d",
    "prune_conv2d_pool_activation_conv2d",
    "prune_conv2d_pool_flatten_linear",
    "prune_linear",
    "prune_linear_activation_linear",
    "prune_linear_linear",
    "prune_lstm_output_layernorm_linear",
    "prune_lstm_output_linear",
]


def _mask(layer: Any, name: str = "weight") -> Any:
    """The mask of a tensor's rows."""
    masks = [each.mask for each in layer.parametrizations[name] if isinstance(each, FakeStructuredSparsity)]
    return masks[-1]


@torch.no_grad()
def _take_columns(layer: Any, kept: Any, name: str = "weight") -> int:
    """Leave these columns of a weight, which may be masked itself; their number."""
    if parametrize.is_parametrized(layer, name):
        place, own = layer.parametrizations[name], "original"
    else:
        place, own = layer, name
    setattr(place, own, nn.Parameter(getattr(place, own)[:, kept]))
    return getattr(place, own).shape[1]  # type: ignore[no-any-return]


def _take_inputs(layer: Any, kept: Any) -> None:
    count = _take_columns(layer, kept)
    if isinstance(layer, nn.Linear):
        layer.in_features = count
    else:
        layer.in_channels = count


def _unmask(layer: Any) -> None:
    with torch.no_grad():
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=True)


def _take_rows(layer: Any) -> Any:
    """Leave the rows of the mask, which is given back, and no hook that adds the bias."""
    mask = _mask(layer)
    _unmask(layer)
    with torch.no_grad():
        layer.weight = nn.Parameter(layer.weight[mask])
    if isinstance(layer, nn.Linear):
        layer.out_features = layer.weight.shape[0]
    else:
        layer.out_channels = layer.weight.shape[0]
    for key in [key for key, hook in layer._forward_hooks.items() if isinstance(hook, BiasHook)]:
        del layer._forward_hooks[key]
    return mask


def _take_bias(layer: Any, mask: Any, from_before_first: bool) -> Any:
    """Leave these elements of the bias; those of its own that go, or None.

    from_before_first: a bias that came from the layer before counts before the layer's own.
    """
    own, now = getattr(layer, "_bias", None), layer.bias
    both = [now, own] if from_before_first else [own, now]
    whole = next((each for each in both if each is not None), None)
    if whole is not None:
        layer.bias = nn.Parameter(whole[mask])
    if hasattr(layer, "_bias"):
        del layer._bias
    return None if own is None else own[~mask]


def _add_to_bias(layer: Any, lost: Any, mask: Any) -> None:
    """Add what lost inputs would have given to a layer's bias."""
    masked = parametrize.is_parametrized(layer)
    weight = layer.parametrizations.weight.original if masked else layer.weight
    columns = weight[:, ~mask]
    if isinstance(layer, nn.Conv2d):
        added = torch.matmul(lost.reshape(1, -1), columns.transpose(1, 2)).sum([1, 2, 3])
    elif isinstance(layer, nn.Linear):
        added = lost @ columns.T
    else:
        raise NotImplementedError(f"Type {type(layer)} not supported yet.")
    bias = getattr(layer, "_bias", None) if masked else layer.bias
    layer.bias = nn.Parameter(added if bias is None else added + bias)


def _prune(layer: Any) -> None:
    mask = _take_rows(layer)
    if getattr(layer, "prune_bias", False):
        _take_bias(layer, mask, from_before_first=False)


def _prune_between(layer: Any, between: Callable[[Any], Any] | None, following: Any, repeat: int = 1) -> None:
    """Take rows out of a layer and the inputs that they were out of the next; each row is `repeat` inputs."""
    mask = _take_rows(layer)
    inputs = mask.repeat_interleave(repeat)
    if getattr(layer, "prune_bias", False):
        _take_bias(layer, mask, from_before_first=False)
    else:
        lost = _take_bias(layer, mask, from_before_first=True)
        if lost is not None:
            lost = lost if between is None else between(lost)
            _add_to_bias(following, lost.repeat_interleave(repeat), inputs)
    _take_inputs(following, inputs)


def prune_linear(linear: Any) -> None:
    """A Linear that gives the result."""
    _prune(linear)


def prune_linear_linear(linear1: Any, linear2: Any) -> None:
    """Linear, Linear."""
    _prune_between(linear1, None, linear2)


def prune_linear_activation_linear(linear1: Any, activation: Any, linear2: Any) -> None:
    """Linear, a function of each element, Linear."""
    _prune_between(linear1, activation, linear2)


def prune_conv2d(conv2d: Any) -> None:
    """A convolution that gives the result."""
    _prune(conv2d)


def _prune_before_padding(conv: Any) -> None:
    """Rows become zero but stay: next to the zeros of a padding their bias can't be added to the next one's."""
    mask = _mask(conv)
    _unmask(conv)
    own, now = getattr(conv, "_bias", None), conv.bias
    if own is not None:
        conv.bias = nn.Parameter(own if now is None else torch.where(mask, now, own))
        del conv._bias
    elif now is not None:
        now.data[~mask] = 0


def prune_conv2d_conv2d(conv2d_1: Any, conv2d_2: Any) -> None:
    """Two convolutions."""
    prune_conv2d_activation_conv2d(conv2d_1, None, conv2d_2)


def prune_conv2d_activation_conv2d(conv2d_1: Any, activation: Any, conv2d_2: Any) -> None:
    """A convolution, a function of each element, a convolution."""
    biased = conv2d_1.bias is not None or getattr(conv2d_1, "_bias", None) is not None
    if biased and getattr(conv2d_2, "padding", (0, 0)) > (0, 0):
        _prune_before_padding(conv2d_1)
    else:
        _prune_between(conv2d_1, activation, conv2d_2)


def prune_conv2d_pool_activation_conv2d(c1: Any, pool: Any, activation: Any, c2: Any) -> None:
    """A convolution, a pool, a function of each element, a convolution."""
    prune_conv2d_activation_conv2d(c1, activation, c2)


def prune_conv2d_activation_pool_conv2d(c1: Any, activation: Any, pool: Any, c2: Any) -> None:
    """A convolution, a function of each element, a pool, a convolution."""
    prune_conv2d_activation_conv2d(c1, activation, c2)


def prune_conv2d_pool_flatten_linear(conv2d: Any, pool: Any, flatten: Any, linear: Any) -> None:
    """A convolution, a pool to a fixed size, flatten, Linear. AssertionError if the sizes don't fit."""
    channels = len(_mask(conv2d))
    weight = linear.parametrizations.weight.original if parametrize.is_parametrized(linear) else linear.weight
    assert weight.shape[1] % channels == 0, f"Flattening from dimensions {channels} to {weight.shape[1]} not supported"
    _prune_between(conv2d, None, linear, weight.shape[1] // channels)


def prune_lstm_output_linear(lstm: Any, getitem: Any, linear: Any) -> None:
    """An LSTM's outputs and a Linear."""
    prune_lstm_output_layernorm_linear(lstm, getitem, None, linear)


@torch.no_grad()
def prune_lstm_output_layernorm_linear(lstm: Any, getitem: Any, layernorm: Any, linear: Any) -> None:
    """An LSTM's outputs, a LayerNorm or None, and a Linear. The gates of a layer have to lose the same number of rows."""
    for i in range(lstm.num_layers):
        if parametrize.is_parametrized(lstm, f"weight_ih_l{i}"):
            _take_gates(lstm, f"ih_l{i}")
        if not parametrize.is_parametrized(lstm, f"weight_hh_l{i}"):
            continue
        gates = _take_gates(lstm, f"hh_l{i}").split(lstm.hidden_size)
        parts = getattr(lstm, f"weight_hh_l{i}").split([int(each.sum()) for each in gates])
        setattr(lstm, f"weight_hh_l{i}", nn.Parameter(torch.cat([part[:, kept] for part, kept in zip(parts, gates)])))
        outputs = gates[3]
        if i + 1 < lstm.num_layers:
            _take_columns(lstm, outputs, f"weight_ih_l{i + 1}")
            continue
        lstm.hidden_size = int(gates[0].sum())
        _take_inputs(linear, outputs)
        if layernorm is not None:
            layernorm.normalized_shape = (linear.in_features,)
            layernorm.weight, layernorm.bias = nn.Parameter(layernorm.weight[outputs]), nn.Parameter(layernorm.bias[outputs])


def _take_gates(lstm: Any, which: str) -> Any:
    """Leave the rows of the mask of one of an LSTM's weights, and of its bias; the mask."""
    mask = _mask(lstm, f"weight_{which}")
    parametrize.remove_parametrizations(lstm, f"weight_{which}", leave_parametrized=True)
    for name in (f"weight_{which}", f"bias_{which}"):
        setattr(lstm, name, nn.Parameter(getattr(lstm, name)[mask]))
    return mask
