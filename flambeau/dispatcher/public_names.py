"""Which operator of aten PyTorch's Python calls for a public function, before any is taken apart: what profilers show and what
torch.export records.

Stands on the schemas and on dispatch_modes, which knows the names of what is computed here; used by flambeau.profiler and
flambeau.export.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.operator.facets import record_of
from flambeau.dispatcher import builtin_schemas, dispatch_modes

__all__ = ["NAMES", "called"]

#: Operators of another name than the function or method.
NAMES = {
    "logsigmoid": "log_sigmoid",
    "__and__": "__and__", "__or__": "__or__", "__xor__": "__xor__", "__invert__": "bitwise_not",
    "__pow__": "pow", "__mod__": "remainder", "__floordiv__": "floor_divide", "__truediv__": "div", "__matmul__": "matmul",
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__mul__": "mul", "__rmul__": "mul", "__neg__": "neg",
    "__abs__": "abs",
    "__rsub__": "rsub", "__iadd__": "add_", "__isub__": "sub_", "__imul__": "mul_", "__itruediv__": "div_", "__eq__": "eq",
    "__ne__": "ne", "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge",
}  # fmt: skip
# What profilers show beside that: export has rules for these, which do more.
_CALLED = {
    **NAMES, "__rpow__": "pow", "__rtruediv__": "reciprocal",
    "__float__": "item", "__int__": "item", "__index__": "item", "__complex__": "item",
    "__bool__": "is_nonzero", "cpu": "to", "norm": "linalg_vector_norm", "tensor": "lift_fresh", "new_tensor": "lift_fresh",
    "from_numpy": "lift_fresh", "requires_grad_": "",
}  # fmt: skip
# Operators without a tensor for a result.
_OF_VALUES = frozenset(["item", "equal", "is_nonzero", "allclose", "is_same_size", "is_set_to"])


def called(function: Callable[..., Any]) -> str:
    """The operator that PyTorch's Python calls for a public function, "" where it is code around others."""
    name = function.__name__
    declared = getattr(function, "operator", None)
    if declared is None and function.__module__.endswith("nn.functional"):
        declared = record_of(name)
    if declared is not None and declared.underneath is not None and not name.endswith("_"):
        return declared.underneath
    for known in (name, function.__qualname__.rpartition(".")[2], dispatch_modes.name_of(function)):
        if known in _CALLED or _is_dispatched(known):
            return _CALLED.get(known, known)
    return ""


def _is_dispatched(name: str) -> bool:
    """Whether PyTorch's dispatcher is asked for the operator of that name: others say what a tensor is."""
    for overload in builtin_schemas.overloads_of(f"aten::{name}"):
        schema = builtin_schemas.schema_of(f"aten::{name}", overload)
        if not builtin_schemas.is_script(f"aten::{name}", overload) and (
            name in _OF_VALUES or schema.is_mutable or any("Tensor" in str(r.type) for r in schema.returns)
        ):
            return True
    return False
