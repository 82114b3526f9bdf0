"""Constants: the node of a Python value, with its type, and what type a Python value has.

Stands on graph and the types; used by the front end, the passes and by what loads archives.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from flambeau.base.device import device
from flambeau.base.dtype import dtype
from flambeau.base.layout import layout, memory_format
from flambeau.base.rng import Generator
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.schema_types import (
    BoolType,
    ComplexType,
    DeviceObjType,
    DictType,
    FloatType,
    GeneratorType,
    IntType,
    ListType,
    NoneType,
    OptionalType,
    StringType,
    TensorType,
    TupleType,
    Type,
)
from flambeau.jit.ir.codes import code_of

if TYPE_CHECKING:
    from flambeau.jit.ir.graph import Graph
    from flambeau.jit.ir.nodes import Node

__all__ = ["can_be_constant", "constant_node", "same_constant", "type_of_value"]

_PLAIN: dict[type, tuple[str, Type]] = {
    bool: ("i", BoolType()),
    int: ("i", IntType()),
    float: ("f", FloatType()),
    complex: ("c", ComplexType()),
    str: ("s", StringType()),
    device: ("s", DeviceObjType()),
    Generator: ("ival", GeneratorType()),
}


def can_be_constant(value: Any) -> bool:
    """Whether a value may stand in a graph: numbers, texts, None, tensors without gradient, devices, dtypes, and lists,
    tuples and dicts of them.
    """
    if value is None or type(value) in _PLAIN or isinstance(value, (dtype, layout, memory_format, enum.Enum)):
        return True
    if isinstance(value, Tensor):
        return not value.requires_grad
    if isinstance(value, (list, tuple)):
        return all(map(can_be_constant, value))
    return isinstance(value, dict) and all(can_be_constant(k) and can_be_constant(v) for k, v in value.items())


def type_of_value(value: Any) -> Type | None:
    """The type of a Python value; None for what no constant can be."""
    if value is None:
        return NoneType()
    if type(value) in _PLAIN:
        return _PLAIN[type(value)][1]
    if isinstance(value, (dtype, layout, memory_format)):
        return IntType()
    if isinstance(value, Tensor):
        return TensorType()
    if isinstance(value, tuple):
        kinds = [type_of_value(item) for item in value]
        return None if None in kinds else TupleType([kind for kind in kinds if kind is not None])
    if isinstance(value, list):
        kinds = [type_of_value(item) for item in value]
        if not kinds:
            return ListType(TensorType())
        first = kinds[0]
        return None if first is None or any(kind != first for kind in kinds) else ListType(first)
    if isinstance(value, dict) and value:
        pairs = {(type_of_value(k), type_of_value(v)) for k, v in value.items()}
        key, item = next(iter(pairs))
        return None if len(pairs) != 1 or key is None or item is None else DictType(key, item)
    return None


def constant_node(graph: Graph, value: Any, kind: Type | None = None) -> Node:
    """A prim::Constant of a value. RuntimeError for what can't be one."""
    node = graph.create("prim::Constant")
    found = kind if kind is not None else type_of_value(value)
    if found is None:
        raise RuntimeError(f"Unsupported value kind: {type(value).__name__}")
    if isinstance(found, OptionalType):
        found = found.getElementType() if value is not None else NoneType()
    if value is None:
        node.output().setType(NoneType())
        return node
    if isinstance(value, (dtype, layout, memory_format)):
        value = code_of(value)
    attribute = "ival"
    if type(value) in _PLAIN:
        attribute = _PLAIN[type(value)][0]
    elif isinstance(value, Tensor):
        attribute = "t"
    node.set("value", attribute, value)
    node.output().setType(found)
    return node


def same_constant(a: Any, b: Any) -> bool:
    """Whether two constants are one: of the same kind and equal, tensors with the same values and dtype."""
    if type(a) is not type(b):
        return False
    if isinstance(a, Tensor):
        return a is b or (
            a.dtype is b.dtype and a.shape == b.shape and a.device == b.device and bool((a == b).all()) and not a.requires_grad
        )
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same_constant, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same_constant(a[k], b[k]) for k in a)
    if isinstance(a, float):
        return repr(a) == repr(b)
    return bool(a == b)
