"""Sharding of operators that compute element by element, their operands broadcast, and of factories like a tensor."""

from __future__ import annotations

from collections.abc import Iterable

from flambeau.distributed.tensor._ops.registry import OpCall, R, Way, partials, rule
from flambeau.distributed.tensor.placement_types import Placement, Shard

#: Operators f(x) with f(x + y) = f(x) + f(y): parts that are still to be summed may go through. So may an average's.
_LINEAR = frozenset({"neg", "clone", "_to_copy", "positive", "lift_fresh", "zeros_like", "zero_", "copy_"})
#: Linear in all tensors together, if they are partial alike.
_JOINTLY_LINEAR = frozenset({"add", "add_", "sub", "sub_", "where"})
#: Linear in each of these arguments alone, the others being whole.
_LINEAR_IN = {"mul": (0, 1), "mul_": (0,), "div": (0,), "div_": (0,)}


def _aligned(shape: tuple[int, ...], result: tuple[int, ...], dim: int) -> Placement | None:
    """How an operand lies where the result is cut along a dimension: cut alike, or whole where it is broadcast."""
    own = dim - (len(result) - len(shape))
    if own < 0 or (shape[own] == 1 and result[dim] != 1):
        return R
    return Shard(own) if shape[own] == result[dim] else None


def pointwise(call: OpCall) -> Iterable[Way]:
    """Every dimension of the result may be cut; linear operators may leave a sum to be made."""
    shape = tuple(call.results[0].shape) if call.results else tuple(call.operands[0].shape)
    count = len(call.results)
    for dim in range(len(shape)):
        operands = [_aligned(tuple(spec.shape), shape, dim) for spec in call.operands]
        if all(found is not None for found in operands):
            # Another result may be nothing on this device (the buffer of log_sigmoid_forward).
            results = tuple(Shard(dim) if tuple(meta.shape) == shape else R for meta in call.results)
            yield Way(results, tuple(found for found in operands if found is not None))
    name = call.func._opname
    tensors = len(call.operands)
    for partial in partials(call):
        if partial.reduce_op not in ("sum", "avg"):
            continue
        every = Way((partial,) * count, (partial,) * tensors)
        if name in _LINEAR:
            yield every
        elif name == "where":
            yield Way((partial,), (R, *(partial,) * (tensors - 1)))
        elif name in _JOINTLY_LINEAR and tensors == 2:
            yield every
        elif name in _LINEAR_IN:
            for index in _LINEAR_IN[name]:
                if index < tensors:
                    yield Way((partial,) * count, tuple(partial if k == index else R for k in range(tensors)))


# What isn't marked pointwise among PyTorch's tags, but acts so.
rule(
    "_to_copy", "clone", "copy_", "fill_", "zero_", "zeros_like", "ones_like", "empty_like", "full_like", "rand_like",
    "randn_like", "randint_like", "bernoulli", "bernoulli_", "normal_", "uniform_", "exponential_", "random_", "native_dropout",
    "native_dropout_backward", "where", "lift_fresh", "masked_fill", "masked_fill_", "lerp", "lerp_", "addcmul", "addcmul_",
    "addcdiv", "addcdiv_", "isclose", "nan_to_num", "nan_to_num_", "log_sigmoid_forward", "log_sigmoid_backward",
)(pointwise)  # fmt: skip


@rule("new_zeros", "new_ones", "new_full", "new_empty", "new_empty_strided")
def new(call: OpCall) -> Iterable[Way]:
    """A tensor of its own sizes, placed as the one it is made from where they are the same."""
    if tuple(call.results[0].shape) == tuple(call.operands[0].shape):
        for dim in range(len(call.results[0].shape)):
            yield Way((Shard(dim),), (Shard(dim),))
    yield Way((R,), (call.now(0),))
