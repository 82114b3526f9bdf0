"""torch.onnx.ops: operators of ONNX as functions of tensors, which are exported as they are.

`symbolic` stands for any operator; `attention` and `rotary_embedding` compute what theirs do. Stands on torch.library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flambeau as torch
from flambeau.onnx._graph import Value
from flambeau.onnx._types import DTYPE_OF, number_of
from flambeau.onnx.ops import _operators, _symbolic

__all__ = ["aten_decompositions", "attention", "rotary_embedding", "symbolic", "symbolic_multi_out"]

_Attributes = dict[str, int | float | str | bool | Sequence[int] | Sequence[float] | Sequence[str] | Sequence[bool]]


def aten_decompositions() -> dict[Any, Callable[..., Any]]:
    """What ONNX's operators are made of, by overload."""
    return dict(_operators.DECOMPOSITIONS)


def symbolic(
    domain_op: str,
    /,
    inputs: Sequence[torch.Tensor | None],
    attrs: _Attributes | None = None,
    *,
    dtype: torch.dtype | int,
    shape: Sequence[int],
    version: int | None = None,
    metadata_props: dict[str, str] | None = None,
) -> torch.Tensor:
    """A tensor that any operator of ONNX makes, "Add" or "domain::Name"; zeros outside of an exported model.

    inputs: tensors, None for one that is left out; attrs: numbers, texts, lists of them; dtype, shape: the result's; version:
    that of the domain's operators; metadata_props: texts for the node. In a translation (custom_translation_table), inputs are
    values of the graph, and the node is written at once. ValueError for attributes of another kind.
    """
    return symbolic_multi_out(
        domain_op, inputs, attrs, dtypes=[dtype], shapes=[shape], version=version, metadata_props=metadata_props, _single=True
    )[0]


def symbolic_multi_out(
    domain_op: str,
    /,
    inputs: Sequence[torch.Tensor | None],
    attrs: _Attributes | None = None,
    *,
    dtypes: Sequence[torch.dtype | int],
    shapes: Sequence[Sequence[int]],
    version: int | None = None,
    metadata_props: dict[str, str] | None = None,
    _single: bool = False,
) -> Sequence[torch.Tensor]:
    """`symbolic` with several results, one for each dtype and shape. RuntimeError where these differ in number."""
    torch._check(
        len(shapes) == len(dtypes), lambda: f"Number of shapes ({len(shapes)}) must match number of dtypes ({len(dtypes)})"
    )
    numbers = [dtype if isinstance(dtype, int) else int(number_of(dtype)) for dtype in dtypes]
    valid = list(map(int, DTYPE_OF))
    for number in numbers:
        torch._check(number in valid, lambda n=number: f"{n} is invalid as an ONNX data type. Valid values are {valid}")
    domain, _, op_type = domain_op.rpartition("::")
    encoded = _symbolic.encode(attrs or {})
    props = metadata_props or {}
    rest = {**encoded, "metadata_props_keys": list(props), "metadata_props_values": list(props.values()),
            "domain": domain, "version": version}  # fmt: skip
    if any(isinstance(x, Value) for x in inputs) or any(hasattr(x, "writer") for x in inputs):
        return _symbolic.write(inputs, op_type, numbers, shapes, rest)
    if _single:
        return [torch.ops.onnx_symbolic._symbolic(list(inputs), op_type, numbers[0], shape=list(shapes[0]), **rest)]
    return torch.ops.onnx_symbolic._symbolic_multi_out(list(inputs), op_type, numbers, shapes=list(map(list, shapes)), **rest)


def rotary_embedding(
    X: torch.Tensor,
    cos_cache: torch.Tensor,
    sin_cache: torch.Tensor,
    position_ids: torch.Tensor | None = None,
    *,
    interleaved: bool = False,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> torch.Tensor:
    """ONNX's RotaryEmbedding: pairs of elements of each head turned by the angle of their place.

    X: (batch, heads, length, size), or (batch, length, heads * size) with num_heads. cos_cache, sin_cache: (places, turned / 2)
    with position_ids (batch, length), else (batch, length, turned / 2). interleaved: whether pairs are neighbours, or an element
    of the first half and one of the second. rotary_embedding_dim: how many elements are turned; 0 for all. X's shape and dtype.
    """
    return _operators.call(
        "RotaryEmbedding", X, cos_cache, sin_cache, position_ids,
        interleaved=interleaved, num_heads=num_heads, rotary_embedding_dim=rotary_embedding_dim,
    )  # fmt: skip


def attention(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    past_key: torch.Tensor | None = None,
    past_value: torch.Tensor | None = None,
    *,
    is_causal: bool = False,
    kv_num_heads: int = 0,
    q_num_heads: int = 0,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """ONNX's Attention: (result, keys and values with the past ones, scores).

    Q, K, V: (batch, heads, length, size), or (batch, length, heads * size) with q_num_heads and kv_num_heads. attn_mask: truths,
    or numbers that are added. qk_matmul_output_mode: which scores: 0 the products, 1 with the mask, 2 within softcap, 3 the
    shares. RuntimeError for heads that don't divide.
    """
    return _operators.call(
        "Attention", Q, K, V, attn_mask, past_key, past_value, is_causal=is_causal, kv_num_heads=kv_num_heads,
        q_num_heads=q_num_heads, qk_matmul_output_mode=qk_matmul_output_mode, scale=scale, softcap=softcap,
        softmax_precision=softmax_precision,
    )  # fmt: skip
