"""The reference modules. Stands on the files beside it."""

from flambeau.ao.nn.quantized.reference.modules.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from flambeau.ao.nn.quantized.reference.modules.linear import Linear
from flambeau.ao.nn.quantized.reference.modules.rnn import GRU, LSTM, GRUCell, LSTMCell, RNNCell
from flambeau.ao.nn.quantized.reference.modules.sparse import Embedding, EmbeddingBag

__all__ = [
    "GRU",
    "LSTM",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Embedding",
    "EmbeddingBag",
    "GRUCell",
    "LSTMCell",
    "Linear",
    "RNNCell",
]
