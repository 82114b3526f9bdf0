"""Arithmetic of types that are partly unknown: what two have in common, what broadcasting and layers make of them.

Stands on fx.tensor_type; sizes may be numbers, `Dyn`, variables, or expressions of sympy where a program has these. Used by
graph_gradual_typechecker.
"""

from __future__ import annotations

from math import prod
from typing import Any

from flambeau.fx.experimental.unification import Var
from flambeau.fx.tensor_type import Dyn, TensorType, is_consistent, is_more_precise

__all__ = [
    "adaptiveavgpool2d_check", "broadcast_types", "calculate_out_dimension", "expand_to_tensor_dim", "flatten_check",
    "get_greatest_upper_bound", "linear_check", "maxpool2d_check", "reshape_check",
]  # fmt: skip


def expand_to_tensor_dim(t: Any, n: int) -> TensorType:
    """The type as that of a tensor of n dimensions. TypeError for one of another number."""
    if t == Dyn:
        return TensorType((Dyn,) * n)
    if isinstance(t, TensorType):
        if len(t.__args__) != n:
            raise TypeError(f"Cannot extend tensor. Tensor {t} has rank {len(t.__args__)}. It should have rank {n}")
        return t
    raise TypeError(f"Cannot make a type of a tensor of rank {n} of {t}")


def broadcast_types(t1: Any, t2: Any) -> tuple[Any, Any]:
    """Both types, with ones in front and sizes of 1 as large as the other's. TypeError for what is no type of a tensor."""
    if t1 == Dyn or t2 == Dyn or isinstance(t1, Var) or isinstance(t2, Var):
        return t1, t2
    if not (isinstance(t1, TensorType) and isinstance(t2, TensorType)):
        raise TypeError(f"Cannot broadcast types {t1} and {t2}")
    rank = max(len(t1.__args__), len(t2.__args__))
    one, other = ([1] * (rank - len(t.__args__)) + list(t.__args__) for t in (t1, t2))
    return (
        TensorType(tuple([y if x == 1 else x for x, y in zip(one, other)])),
        TensorType(tuple([x if y == 1 else y for x, y in zip(one, other)])),
    )


def get_greatest_upper_bound(type1: Any, type2: Any) -> Any:
    """The type that says what both say. TypeError for types that contradict each other."""
    if type1 == Dyn:
        return type2
    if type2 == Dyn:
        return type1
    if not (isinstance(type1, TensorType) and isinstance(type2, TensorType)) or not is_consistent(type1, type2):
        raise TypeError(f"Inconsistent types {type1}, {type2}")
    return TensorType(tuple([x if is_more_precise(x, y) else y for x, y in zip(type1.__args__, type2.__args__)]))


def _pair(value: Any, index: int) -> Any:
    return value if isinstance(value, int) else value[index]


def calculate_out_dimension(d_in: Any, module_instance: Any, index: int) -> Any:
    """The size that a convolution or pooling gives, in the dimension of that index: of a number or of a symbol."""
    if d_in == Dyn:
        return Dyn
    if isinstance(d_in, Var):
        raise TypeError(f"{d_in} in {module_instance} must be a number or Dyn but is {type(d_in)}")
    padding, kernel, stride, dilation = (
        _pair(getattr(module_instance, name), index) for name in ("padding", "kernel_size", "stride", "dilation")
    )
    return (d_in + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def maxpool2d_check(typ: TensorType, module_instance: Any) -> TensorType:
    """What max pooling makes of a type of rank 3 or 4. TypeError for others."""
    sizes = list(typ.__args__)
    if len(sizes) not in (3, 4):
        raise TypeError(f"Wrong size {typ} for {module_instance}")
    for index in (0, 1):
        sizes[index - 2] = calculate_out_dimension(sizes[index - 2], module_instance, index)
    return TensorType(tuple(sizes))


def adaptiveavgpool2d_check(tensor_type: TensorType, module_instance: Any) -> TensorType:
    """What adaptive pooling makes of a type of rank 3 or 4. TypeError for others."""
    sizes, wanted = list(tensor_type.__args__), module_instance.output_size
    if len(sizes) not in (3, 4):
        raise TypeError(f"Tensor ranks must be 3 or 4. Got {tensor_type}")
    for index in (0, 1):
        size = wanted if wanted is None or isinstance(wanted, int) else wanted[index]
        sizes[index - 2] = sizes[index - 2] if size is None else size
    return TensorType(tuple(sizes))


def linear_check(tensor_type: TensorType, module_instance: Any) -> TensorType:
    """What a linear layer makes of a type. TypeError where the last size isn't that of its weight."""
    sizes = tensor_type.__args__
    if len(sizes) < 2 or not is_consistent(module_instance.in_features, sizes[-1]):
        raise TypeError(f"Inconsistent {module_instance.in_features} and {sizes[-1]} in {module_instance}")
    return TensorType((*sizes[:-1], module_instance.out_features))


def flattened(rank: int, start_dim: int, end_dim: int) -> tuple[int, int]:
    """The first dimension that flatten takes, and the one behind its last."""
    return start_dim + rank * (start_dim < 0), end_dim + rank * (end_dim < 0) + 1


def flatten_check(tensor_type: TensorType, start_dim: int, end_dim: int) -> TensorType:
    """What flatten makes of a type. TypeError for dimensions that it doesn't have."""
    sizes = list(tensor_type.__args__)
    start, end = flattened(len(sizes), start_dim, end_dim)
    if not (0 <= start < len(sizes) and start < end <= len(sizes)):
        raise TypeError(f"Incompatible dimensions {start_dim}, {end_dim} in type {tensor_type}")
    taken = sizes[start:end]
    return TensorType((*sizes[:start], Dyn if Dyn in taken else prod(taken), *sizes[end:]))


def reshape_check(t: Any, sizes: list[int]) -> TensorType:
    """What reshape makes of a type. TypeError where the elements can't be as many; unknown sizes have to divide them."""
    made = TensorType(tuple([Dyn if size == -1 else size for size in sizes]))
    if t == Dyn:
        return made
    if isinstance(t, TensorType):
        have = prod(size for size in t.__args__ if size != Dyn)
        want = prod(size for size in sizes if size != -1)
        unknown, inferred = Dyn in t.__args__, -1 in sizes
        if have == want or (inferred and want and have % want == 0) or (unknown and have and want % have == 0):
            return made
    raise TypeError(f"Cannot reshape type {t} to {made}")
