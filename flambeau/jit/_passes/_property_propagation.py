"""torch.jit._passes._property_propagation: inputs of graphs described by examples. Stands on passes.shapes."""

from __future__ import annotations

from typing import Any

from flambeau.dispatcher.schema_types import TensorType
from flambeau.dispatcher.shaped_types import ShapedTensorType
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.types import ClassType

__all__ = ["apply_input_props_using_example"]


def apply_input_props_using_example(graph: Graph, example_input: list[Any]) -> None:
    """Give the inputs that are tensors the sizes, dtypes and devices of the examples. RuntimeError for another number of them."""
    inputs = list(graph.inputs())
    if inputs and isinstance(inputs[0].type(), ClassType) and inputs[0].type().is_module:  # type: ignore[attr-defined]
        inputs = inputs[1:]
    if len(inputs) != len(example_input):
        raise RuntimeError("Number of inputs in graph does not match number of inputs in the example")
    for index, (value, example) in enumerate(zip(inputs, example_input)):
        if example is None:
            continue
        if not isinstance(value.type(), TensorType) or not hasattr(example, "dtype"):
            if hasattr(example, "dtype") != isinstance(value.type(), TensorType):
                raise RuntimeError(f"Input {index} does not match type of example", value, example)
            continue
        value.setType(ShapedTensorType(example.dtype, example.shape, None, None, example.device))
