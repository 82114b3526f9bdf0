"""Modules with integer weights whose inputs are quantized while they run."""

from flambeau.ao.nn.quantized.dynamic.modules.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from flambeau.ao.nn.quantized.dynamic.modules.linear import Linear
from flambeau.ao.nn.quantized.dynamic.modules.rnn import GRU, LSTM, GRUCell, LSTMCell, RNNCell

__all__ = [
    "GRU",
    "LSTM",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "GRUCell",
    "LSTMCell",
    "Linear",
    "RNNCell",
]
