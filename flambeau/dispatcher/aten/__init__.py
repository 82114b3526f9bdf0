"""Operators of PyTorch's dispatcher that no public function answers: `aten.native_layer_norm_backward`, `aten.tanh_backward`.

Each is a function with the schema's arguments, registered under the operator's name by `implementation`; a file holds those
of one subject. Stands on the public operators and their rules; used by dispatcher.builtin, which loads it when the first
operator of the namespace is called.
"""

from flambeau.dispatcher.aten import (
    activations,
    assertions,
    attention,
    conversions,
    convolution,
    copies,
    embedding,
    factories,
    fourier,
    linear_algebra,
    losses,
    normalization,
    padding,
    pooling,
    recurrence,
    reductions,
    resampling,
    sparse,
    testing,
)
from flambeau.dispatcher.aten.registry import IMPLEMENTATIONS

__all__ = [
    "IMPLEMENTATIONS",
    "activations",
    "assertions",
    "attention",
    "conversions",
    "convolution",
    "copies",
    "embedding",
    "factories",
    "fourier",
    "linear_algebra",
    "losses",
    "normalization",
    "padding",
    "pooling",
    "recurrence",
    "reductions",
    "resampling",
    "sparse",
    "testing",
]
