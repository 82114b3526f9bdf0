"""Sharding of scaled dot product attention: batches and heads may be cut."""

from __future__ import annotations

from collections.abc import Iterable

from flambeau.distributed.tensor._ops.registry import OpCall, R, S, Way, rule


@rule("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention_for_cpu_backward")
@rule("scaled_dot_product_attention", "_scaled_dot_product_attention_math")
def attention(call: OpCall) -> Iterable[Way]:
    """Tensors of (batch, heads, ...): cut along either. A mask goes along where it has the dimension."""
    tensors = [name for name in call.arguments if call.operand(name) is not None]
    first = call.operands[0].shape
    for dim in (0, 1):
        placed = {}
        for name in tensors:
            spec = call.operand(name)
            assert spec is not None
            broadcast = name == "attn_mask" and (spec.ndim < 4 or spec.shape[dim] == 1)
            placed[name] = R if broadcast else S(dim)
        sizes = {spec.shape[dim] for name in tensors if placed[name] != R and (spec := call.operand(name)) is not None}
        if sizes <= {first[dim]}:  # grouped queries have fewer heads in keys: their parts wouldn't meet
            # The log of sums may lie otherwise, as (batch, sequence, heads) or with heads second: its shape tells.
            yield call.way(
                [S(dim) if meta.shape[dim : dim + 1] == first[dim : dim + 1] else R for meta in call.results], **placed
            )
