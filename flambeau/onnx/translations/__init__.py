"""Translations of aten's operators, one small function each, by subject; importing the package fills `_registry`'s table."""

from flambeau.onnx.translations import (
    activation,
    arithmetic,
    attention,
    comparison,
    convolution,
    creation,
    indexing,
    joining,
    linear,
    losses,
    normalization,
    padding,
    pooling,
    quantization,
    recurrent,
    reduction,
    resampling,
    searching,
    selection,
    views,
)
