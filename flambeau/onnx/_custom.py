"""Translations that a program brings with custom_translation_table. Used by `_export`.

Such a function gets the operator's arguments and makes nodes by calling onnxscript's operators (`op.Mul(x, y)`), which ask an
evaluator what to do: here one that writes nodes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau.onnx._builder import Builder, Size
from flambeau.onnx._graph import Value
from flambeau.onnx._package import onnx, script_evaluator
from flambeau.onnx._types import dtype_of

__all__ = ["call"]


def call(builder: Builder, target: Any, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """What a function of a program's own writes for an operator's arguments."""
    evaluators = script_evaluator()
    writer = _Writer(builder)
    given, named = pytree.tree_map(writer.operand, (args, dict(kwargs)))
    with evaluators.default_as(writer) if evaluators is not None else contextlib.nullcontext():
        made = function(*given, **named)
    if isinstance(made, (list, tuple)):
        return tuple(map(writer.value, made))
    return writer.value(made)


class _Operand:
    """A value with Python's operators, which write nodes."""

    def __init__(self, writer: _Writer, value: Value) -> None:
        self.writer, self.value = writer, value

    dtype = property(lambda self: self.value.dtype, doc="Flambeau's dtype.")
    shape = property(lambda self: self.value.shape, doc="Numbers, and names of sizes that may change.")

    def __bool__(self) -> bool:
        raise TypeError("A value of an ONNX graph is known when the model runs; choose with op.Where")


def _operator(name: str, op_type: str, turned: bool = False) -> None:
    def method(self: _Operand, other: Any) -> _Operand:
        given = (other, self) if turned else (self, other)
        return self.writer.node(op_type, given)

    setattr(_Operand, name, method)


for _name, _op_type in {"add": "Add", "sub": "Sub", "mul": "Mul", "truediv": "Div", "pow": "Pow", "matmul": "MatMul"}.items():
    _operator(f"__{_name}__", _op_type)
    _operator(f"__r{_name}__", _op_type, True)
for _name, _op_type in {"lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "and": "And", "or": "Or",
                        "mod": "Mod"}.items():  # fmt: skip
    _operator(f"__{_name}__", _op_type)
_Operand.__neg__ = lambda self: self.writer.node("Neg", (self,))  # type: ignore[attr-defined]


class _Writer:
    """What onnxscript calls an evaluator: its operators become nodes, and its functions run, so that theirs do."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder

    def operand(self, x: Any) -> Any:
        """A value as functions get it."""
        if isinstance(x, Size):
            x = self.builder.number(x, None)
        return _Operand(self, x) if isinstance(x, Value) else x

    def value(self, x: Any) -> Any:
        """What a function gave, as a value."""
        return x.value if isinstance(x, _Operand) else x if x is None else self.builder.number(x, None)

    def node(self, op_type: str, inputs: Sequence[Any], domain: str = "", outputs: int = 1, **attributes: Any) -> Any:
        """A node; numbers and lists get the dtype of the first value."""
        like = next((x.value.dtype for x in inputs if isinstance(x, _Operand)), None)
        given = [self._input(x, like) for x in inputs]
        made = self.builder.op(op_type, *given, outputs=outputs, domain=domain, attributes=attributes)
        return tuple(map(self.operand, made)) if outputs > 1 else self.operand(made)

    def _input(self, x: Any, like: Any) -> Any:
        if isinstance(x, _Operand):
            return x.value
        if isinstance(x, (list, tuple)) and any(isinstance(n, float) for n in x):
            return self.builder.const(x, like)
        return x

    # ---- onnxscript's names

    def eval_op(self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A call of an operator: arguments are inputs first, then attributes."""
        schema = op.op_schema
        names = [x.name for x in schema.inputs]
        variadic = bool(schema.inputs) and schema.inputs[-1].option.name == "Variadic"
        inputs = list(args if variadic else args[: len(names)])
        attributes = dict(zip(schema.attributes, args[len(names) :])) if not variadic else {}
        for name, x in kwargs.items():
            if name in names:
                at = names.index(name)
                inputs += [None] * (at + 1 - len(inputs))
                inputs[at] = x
            elif not name.startswith("_"):
                attributes[name] = x
        if schema.name == "Constant" and not schema.domain:
            return self.operand(self._constant(attributes))
        outputs = kwargs.get("_outputs", schema.min_output if schema.min_output == schema.max_output else 1)
        if schema.name == "Split":
            outputs = attributes.get("num_outputs", len(self.builder.out) if isinstance(self.builder.out, (list, tuple)) else 1)
        if schema.domain:
            self.builder.domains[schema.domain] = schema.since_version
        return self.node(schema.name, inputs, schema.domain, outputs, **attributes)

    def _constant(self, attributes: Mapping[str, Any]) -> Value:
        ((name, value),) = attributes.items()
        if name == "value":
            array = value if not hasattr(value, "data_type") else onnx().numpy_helper.to_array(value)
            return self.builder.const(array, dtype_of(array))
        return self.builder.const(value, torch.float32 if "float" in name else torch.int64)

    def eval_function(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A call of a function of onnxscript's: its body."""
        return function.function(*args, **kwargs)
