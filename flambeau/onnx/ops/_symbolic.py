"""The operators behind torch.onnx.ops.symbolic: onnx_symbolic::_symbolic and _symbolic_multi_out, and their translation.

Attributes are lists in their schemas: names, kinds, and where each begins and ends in the list of its kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import flambeau as torch
from flambeau.onnx._builder import Builder, Size
from flambeau.onnx._graph import SymbolicDim, Value
from flambeau.onnx._registry import translation
from flambeau.onnx._types import DTYPE_OF

__all__ = ["decode", "encode", "write"]

_REST = (
    "str[] attr_keys, str[] attr_types, int[][] attr_pos, int[] attr_ints, float[] attr_floats, str[] attr_strs, "
    "str[] metadata_props_keys, str[] metadata_props_values, str domain='', int? version=None"
)
_LISTS = {"i": "attr_ints", "f": "attr_floats", "s": "attr_strs"}


def encode(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes as lists. ValueError for a kind that ONNX doesn't have, and for empty lists."""
    made: dict[str, Any] = {"attr_keys": [], "attr_types": [], "attr_pos": [], **{name: [] for name in _LISTS.values()}}
    for name, value in attributes.items():
        many = isinstance(value, Sequence) and not isinstance(value, str)
        values = list(value) if many else [value]
        if not values:
            raise ValueError(f"Empty sequence for attribute {name}")
        kind = "f" if any(isinstance(x, float) for x in values) else "i" if isinstance(values[0], int) else "s"
        to = {"f": float, "i": int, "s": str}[kind]
        if kind == "s" and not all(isinstance(x, str) for x in values):
            raise ValueError(f"Unsupported {'sequence' if many else 'attribute'} type for {name}: {type(value)}")
        row = made[_LISTS[kind]]
        made["attr_pos"].append([len(row), len(row) + len(values)])
        row += map(to, values)
        made["attr_keys"].append(name)
        made["attr_types"].append(kind + "s" * many)
    return made


def decode(rest: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes of the lists."""
    made = {}
    for name, kind, (start, end) in zip(rest["attr_keys"], rest["attr_types"], rest["attr_pos"]):
        values = list(rest[_LISTS[kind[0]]][start:end])
        made[name] = values if len(kind) > 1 else values[0]
    return made


@torch.library.custom_op(
    "onnx_symbolic::_symbolic",
    mutates_args=(),
    schema=f"(Tensor?[] inputs, str op_type, int onnx_dtype, *, SymInt[] shape, {_REST}) -> Tensor",
)
def _symbolic(inputs: Any, op_type: str, onnx_dtype: int, *, shape: Sequence[int], **rest: Any) -> torch.Tensor:
    return torch.zeros(list(shape), dtype=DTYPE_OF[onnx_dtype])  # type: ignore[index]


@_symbolic.register_fake
def _(inputs: Any, op_type: str, onnx_dtype: int, *, shape: Sequence[int], **rest: Any) -> torch.Tensor:
    return torch.empty(list(shape), dtype=DTYPE_OF[onnx_dtype])  # type: ignore[index]


@torch.library.custom_op(
    "onnx_symbolic::_symbolic_multi_out",
    mutates_args=(),
    schema=f"(Tensor?[] inputs, str op_type, int[] onnx_dtypes, *, SymInt[][] shapes, {_REST}) -> Tensor[]",
)
def _symbolic_multi_out(
    inputs: Any, op_type: str, onnx_dtypes: Sequence[int], *, shapes: Sequence[Sequence[int]], **rest: Any
) -> list[torch.Tensor]:
    return [torch.zeros(list(s), dtype=DTYPE_OF[d]) for s, d in zip(shapes, onnx_dtypes)]  # type: ignore[index]


@_symbolic_multi_out.register_fake
def _(
    inputs: Any, op_type: str, onnx_dtypes: Sequence[int], *, shapes: Sequence[Sequence[int]], **rest: Any
) -> list[torch.Tensor]:
    return [torch.empty(list(s), dtype=DTYPE_OF[d]) for s, d in zip(shapes, onnx_dtypes)]  # type: ignore[index]


# ---------------------------------------------------------------- in models


def _node(b: Builder, inputs: Sequence[Any], op_type: str, numbers: Sequence[int], shapes: Any, rest: Mapping[str, Any]) -> Any:
    domain = rest.get("domain") or ""
    if domain:
        b.domains[domain] = rest.get("version") or 1
    before = b.origin
    b.origin = {**before, **dict(zip(rest["metadata_props_keys"], rest["metadata_props_values"]))}
    made = b.op(op_type, *inputs, outputs=len(numbers), domain=domain, attributes=decode(rest))
    b.origin = before
    values = [made] if len(numbers) == 1 else list(made)
    for value, number, shape in zip(values, numbers, shapes):
        value.dtype = DTYPE_OF[number]  # type: ignore[index]
        value.shape = [SymbolicDim(None) if isinstance(n, Size) or not isinstance(n, int) else n for n in shape]
    return values


@translation("onnx_symbolic::_symbolic")
def _symbolic_node(b: Builder, inputs: Any, op_type: str, onnx_dtype: int, *, shape: Any, **rest: Any) -> Value:
    """The operator that it stands for."""
    return _node(b, inputs, op_type, [onnx_dtype], [shape], rest)[0]


@translation("onnx_symbolic::_symbolic_multi_out")
def _symbolic_nodes(b: Builder, inputs: Any, op_type: str, onnx_dtypes: Any, *, shapes: Any, **rest: Any) -> Any:
    """The same with several results."""
    return tuple(_node(b, inputs, op_type, onnx_dtypes, shapes, rest))


def write(inputs: Sequence[Any], op_type: str, numbers: Sequence[int], shapes: Any, rest: Mapping[str, Any]) -> list[Any]:
    """The same in a translation of a program's own, on the values that it is given."""
    writer = next(x.writer for x in inputs if hasattr(x, "writer"))
    given = [x.value if hasattr(x, "writer") else x for x in inputs]
    return [writer.operand(value) for value in _node(writer.builder, given, op_type, numbers, shapes, rest)]
