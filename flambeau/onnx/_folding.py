"""What nodes of constants give, worked out while a model is written: sizes, masks, indices. Used by `_builder`.

Only what NumPy does as ONNX says; other nodes stay, and the runtime folds them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.onnx._types import DTYPE_OF, numpy_dtype

__all__ = ["evaluate", "fold"]

LIMIT = 1 << 20  # bytes: larger constants stay nodes, so that files stay small

_Arrays = list[Any]
_RULES: dict[str, Callable[[_Arrays, dict[str, Any]], Any]] = {}


def fold(op_type: str, inputs: _Arrays, attributes: dict[str, Any]) -> np.ndarray | None:
    """The one result of a node whose inputs are constants; None where it stays a node, as large ones do."""
    made = evaluate(op_type, inputs, attributes)
    return made[0] if made is not None and len(made) == 1 and made[0].nbytes <= LIMIT else None


def evaluate(op_type: str, inputs: _Arrays, attributes: dict[str, Any]) -> list[np.ndarray] | None:
    """The results of a node; None where there is no rule for it."""
    rule = _RULES.get(op_type)
    if rule is None:
        return None
    with np.errstate(all="ignore"):
        made = rule(inputs, attributes)
    return None if made is None else [np.asarray(x) for x in (made if isinstance(made, list) else [made])]


def _rule(*names: str) -> Callable[[Callable[[_Arrays, dict[str, Any]], Any]], Any]:
    def keep(function: Callable[[_Arrays, dict[str, Any]], Any]) -> Any:
        for name in names:
            _RULES[name] = function
        return function

    return keep


for _name, _function in {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Equal": np.equal, "Less": np.less, "Greater": np.greater,
    "LessOrEqual": np.less_equal, "GreaterOrEqual": np.greater_equal, "And": np.logical_and, "Or": np.logical_or,
    "Xor": np.logical_xor, "Not": np.logical_not, "Neg": np.negative, "Abs": np.abs, "Max": np.maximum, "Min": np.minimum,
    "Where": np.where,
}.items():  # fmt: skip
    if _name in ("Max", "Min"):
        _RULES[_name] = lambda x, a, f=_function: f(*x) if len(x) == 2 else None
    else:
        _RULES[_name] = lambda x, a, f=_function: f(*x)


@_rule("Div")
def _div(x: _Arrays, a: dict[str, Any]) -> Any:
    if x[0].dtype.kind not in "iu":
        return np.divide(*x)
    if not np.all(x[1]):
        return None
    made = np.abs(x[0]) // np.abs(x[1])
    return (np.sign(x[0]) * np.sign(x[1]) * made).astype(x[0].dtype)


@_rule("Mod")
def _mod(x: _Arrays, a: dict[str, Any]) -> Any:
    return None if a.get("fmod") or not np.all(x[1]) else np.mod(*x)


@_rule("Cast")
def _cast(x: _Arrays, a: dict[str, Any]) -> Any:
    dtype = DTYPE_OF.get(a["to"])
    return None if dtype is None else x[0].astype(numpy_dtype(dtype))


@_rule("QuantizeLinear")
def _quantize_linear(x: _Arrays, a: dict[str, Any]) -> Any:
    if len(x) < 3 or x[0].dtype != np.float32 or "block_size" in a:
        return None
    shape = [1] * x[0].ndim
    if x[1].ndim:
        shape[a.get("axis", 1)] = -1
    scale, zero_point = x[1].reshape(shape), x[2].reshape(shape).astype(np.float32)
    limits = np.iinfo(x[2].dtype)
    return np.clip(np.rint(x[0] / scale) + zero_point, limits.min, limits.max).astype(x[2].dtype)


@_rule("Clip")
def _clip(x: _Arrays, a: dict[str, Any]) -> Any:
    return np.clip(x[0], *x[1:3]).astype(x[0].dtype) if len(x) == 3 else None


@_rule("Identity")
def _identity(x: _Arrays, a: dict[str, Any]) -> Any:
    return x[0]


@_rule("Reshape")
def _reshape(x: _Arrays, a: dict[str, Any]) -> Any:
    sizes = [x[0].shape[i] if n == 0 and not a.get("allowzero") else int(n) for i, n in enumerate(x[1])]
    return x[0].reshape(sizes)


@_rule("Transpose")
def _transpose(x: _Arrays, a: dict[str, Any]) -> Any:
    return np.transpose(x[0], a.get("perm"))


@_rule("Unsqueeze")
def _unsqueeze(x: _Arrays, a: dict[str, Any]) -> Any:
    return np.expand_dims(x[0], tuple(int(d) for d in x[1]))


@_rule("Squeeze")
def _squeeze(x: _Arrays, a: dict[str, Any]) -> Any:
    return np.squeeze(x[0], tuple(int(d) for d in x[1]) if len(x) > 1 else None)


@_rule("Concat")
def _concat(x: _Arrays, a: dict[str, Any]) -> Any:
    return np.concatenate(x, a["axis"])


@_rule("Split")
def _split(x: _Arrays, a: dict[str, Any]) -> Any:
    if len(x) > 1:
        return np.split(x[0], np.cumsum(x[1])[:-1], a.get("axis", 0))
    count = a.get("num_outputs")
    return None if count is None or x[0].shape[a.get("axis", 0)] % count else np.split(x[0], count, a.get("axis", 0))


@_rule("Gather")
def _gather(x: _Arrays, a: dict[str, Any]) -> Any:
    return np.take(x[0], x[1], a.get("axis", 0))


@_rule("Slice")
def _slice(x: _Arrays, a: dict[str, Any]) -> Any:
    starts, ends, axes, steps = ([int(n) for n in row] for row in (*x[1:], [1] * len(x[1]))[:4])
    index = [slice(None)] * x[0].ndim
    for start, end, axis, step in zip(starts, ends, axes, steps):
        if step < 1:
            return None
        index[axis] = slice(start, end, step)
    return x[0][tuple(index)]


@_rule("Expand")
def _expand(x: _Arrays, a: dict[str, Any]) -> Any:
    shape = np.broadcast_shapes(x[0].shape, tuple(int(n) for n in x[1]))
    return None if np.prod(shape) * x[0].itemsize > LIMIT else np.broadcast_to(x[0], shape)


@_rule("ConstantOfShape")
def _constant_of_shape(x: _Arrays, a: dict[str, Any]) -> Any:
    value = a.get("value", np.zeros(1, np.float32))
    return None if np.prod(x[0]) * value.itemsize > LIMIT else np.full(tuple(x[0]), value[0], value.dtype)


@_rule("Range")
def _range(x: _Arrays, a: dict[str, Any]) -> Any:
    if not x[2] or abs((float(x[1]) - float(x[0])) / float(x[2])) * x[0].itemsize > LIMIT:
        return None
    return np.arange(*x, dtype=x[0].dtype)


@_rule("Trilu")
def _trilu(x: _Arrays, a: dict[str, Any]) -> Any:
    return (np.triu if a.get("upper", 1) else np.tril)(x[0], int(x[1]) if len(x) > 1 else 0)


@_rule("ReduceProd")
def _reduce_prod(x: _Arrays, a: dict[str, Any]) -> Any:
    axes = tuple(int(d) for d in x[1]) if len(x) > 1 else None
    return np.prod(x[0], axes, dtype=x[0].dtype, keepdims=bool(a.get("keepdims", 1)))
