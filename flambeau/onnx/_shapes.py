"""The shapes of what common nodes make, as far as translations ask for them. Used by `_builder`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.onnx._graph import SymbolicDim, Value

__all__ = ["broadcast", "shape_of"]

_LIKE_FIRST = frozenset(
    """Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cast Ceil Celu Clip Cos Cosh CumSum Elu Erf Exp Floor Gelu HardSigmoid
    HardSwish Identity IsInf IsNaN LeakyRelu Log LogSoftmax Mish Neg Not RandomNormalLike RandomUniformLike Reciprocal Relu Round
    Selu Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Tan Tanh Trilu Bernoulli EyeLike LayerNormalization
    BatchNormalization InstanceNormalization GroupNormalization RMSNormalization ScatterElements ScatterND Dropout""".split()
)
_TOGETHER = frozenset(
    """Add Sub Mul Div Pow Mod Max Min And Or Xor Equal Less LessOrEqual Greater GreaterOrEqual BitwiseAnd BitwiseOr BitwiseXor
    Where""".split()
)


def broadcast(shapes: Sequence[Sequence[Any]]) -> list[Any]:
    """The shape that several have together; sizes that can't be told apart have no name."""
    rank = max(map(len, shapes))
    made: list[Any] = [1] * rank
    for shape in shapes:
        for i, n in enumerate(shape, rank - len(shape)):
            own = made[i]
            if (isinstance(own, int) and own == 1) or (isinstance(own, SymbolicDim) and isinstance(n, int) and n != 1):
                made[i] = n
            elif isinstance(own, SymbolicDim) and isinstance(n, SymbolicDim) and own.value != n.value:
                made[i] = SymbolicDim(None)
    return made


def shape_of(op_type: str, inputs: Sequence[Value | None], attributes: dict[str, Any]) -> list[Any] | None:
    """The shape of a node's first output; None where it isn't known."""
    if not inputs or any(x is not None and x.shape is None for x in inputs):
        return None
    shapes = [x.shape for x in inputs if x is not None and x.shape is not None]
    if op_type in _LIKE_FIRST:
        return list(shapes[0])
    if op_type in _TOGETHER:
        return broadcast(shapes)
    if op_type == "GatherElements":
        return list(shapes[1])
    if op_type == "Gather":
        axis = attributes.get("axis", 0) % len(shapes[0])
        return [*shapes[0][:axis], *shapes[1], *shapes[0][axis + 1 :]]
    if op_type == "MatMul" and len(shapes[0]) > 1 and len(shapes[1]) > 1:
        return [*broadcast([shapes[0][:-2], shapes[1][:-2]]), shapes[0][-2], shapes[1][-1]]
    if op_type == "Slice":
        if len(inputs) < 4 or inputs[3] is None or inputs[3].constant is None:
            return None
        cut = {d % len(shapes[0]) for d in inputs[3].constant.tolist()}
        return [SymbolicDim(None) if i in cut else n for i, n in enumerate(shapes[0])]
    if op_type == "Concat":
        axis = attributes["axis"] % len(shapes[0])
        total = [s[axis] for s in shapes]
        made = list(shapes[0])
        made[axis] = sum(total) if all(isinstance(n, int) for n in total) else SymbolicDim(None)
        return made
    return None
