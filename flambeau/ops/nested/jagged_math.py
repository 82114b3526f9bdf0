"""Jagged nested tensors: elements, products, norms, attention, and dense forms. Stands on jagged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base.geometry import wrap_dim
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.nested.construction import jagged_from_list
from flambeau.ops.nested.jagged import contiguous, dense_rows, row_numbers
from flambeau.ops.nested.tensor import Jagged, first_nested, function, jagged, renamed, row_views, rule_of_jagged

rule = rule_of_jagged
_BINARY_OVERLOADS = {"add": "add.Tensor", "sub": "sub.Tensor", "mul": "mul.Tensor", "div": "div.Tensor", "eq": "eq.Tensor"}


@rule("pointwise")
def pointwise(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A function of elements, on the values of tensors with the same rows and of dense ones that broadcast to them."""
    nested = [a for a in (*args, *kwargs.values()) if isinstance(a, Jagged)]
    first = max(nested, key=lambda a: a._layout.ndim)
    name = getattr(func, "__name__", "")

    def value_of(a: Any) -> Any:
        if isinstance(a, Jagged):
            if a._rows.size != first._rows.size or a._ragged_idx != first._ragged_idx:
                raise _refused(name, first, a)
            return a._entries
        if isinstance(a, Tensor) and a._layout.ndim:
            return _broadcast(name, a, first)
        return a

    made = func(*[value_of(a) for a in args], **{key: value_of(a) for key, a in kwargs.items()})
    if name.endswith("_") and not name.endswith("__"):
        return args[0]
    return first.like(made) if isinstance(made, Tensor) else tuple(first.like(each) for each in made)


def _refused(name: str, a: Jagged, b: Any) -> RuntimeError:
    shapes = (tuple(a.shape), tuple(b.shape)) if isinstance(b, Jagged) else (a.shape, b.shape)
    return RuntimeError(
        f"cannot call binary pointwise function {_BINARY_OVERLOADS.get(name, name)} with inputs of shapes "
        f"{shapes[0]} and {shapes[1]}"
    )


def _broadcast(name: str, t: Tensor, like: Jagged) -> Tensor:
    """What of a dense tensor meets the values: it has size 1 along the rows, or no such dimension."""
    missing = like._layout.ndim - t._layout.ndim
    shape = [1] * missing + list(t._layout.shape)
    if missing < 0 or shape[like._ragged_idx] != 1 or shape[0] not in (1, like._rows.count):
        raise _refused(name, like, t)
    for d, (n, m) in enumerate(zip(shape, like.shape)):
        if d not in (0, like._ragged_idx) and 1 not in (n, m) and n != m:
            raise _refused(name, like, t)
    return dense_rows(t.reshape(shape), like)


@rule("where")
def where(condition: Any, self: Any = None, other: Any = None) -> Any:
    """Elements of one or the other."""
    return pointwise(NAMESPACE["where"], condition, self, other)


@rule("dropout", "dropout_", "native_dropout", "feature_dropout", "alpha_dropout")
def dropout(x: Jagged, p: float = 0.5, training: bool = True, *args: Any) -> Jagged:
    """Elements zeroed at random."""
    return x.like(function("dropout")(x._entries, p, training))


@rule("embedding")
def embedding(*args: Any, **kwargs: Any) -> Jagged:
    """The rows of a table at nested indices."""
    indices = first_nested(args)
    rows = function("embedding")(*[a._entries if isinstance(a, Jagged) else a for a in args], **kwargs)
    return jagged(rows, indices._rows, indices._ragged_idx)


# ---------------------------------------------------------------- products


@rule("linear")
def linear(x: Any, weight: Any, bias: Any = None) -> Jagged:
    """The last dimension times a matrix."""
    if not isinstance(x, Jagged) or isinstance(weight, Jagged):
        raise RuntimeError("linear(): weight and bias must not be nested")
    if x._ragged_idx == x._layout.ndim - 1:
        raise RuntimeError("linear(): not supported for NestedTensor whose last dimension is ragged")
    return renamed(x.like(function("linear")(x._entries, weight, bias)), "LinearBackward0")  # type: ignore[no-any-return]


@rule("matmul", "bmm", "mm", "__matmul__")
def matmul(a: Any, b: Any) -> Any:
    """Products of matrices: with a matrix, with a batch of them, of tensors with the same rows, and along the rows (dense)."""
    refusal = RuntimeError(f"matmul(): not supported between inputs of shapes {tuple(a.shape)} and {b.shape}")
    if isinstance(a, Jagged) and not isinstance(b, Jagged):
        if b._layout.ndim == 2 and a._ragged_idx != a._layout.ndim - 1:
            return a.like(a._entries.matmul(b))
        if b._layout.ndim == 3 and a._layout.ndim == 3 and a._ragged_idx == 1:
            if b._layout.shape[0] != a._rows.count:
                raise RuntimeError(
                    f"The size of tensor a ({a._rows.count}) must match the size of tensor b ({b._layout.shape[0]}) at "
                    "non-singleton dimension 0"
                )
            made = NAMESPACE["cat"]([row.mm(m) for row, m in zip(row_views(contiguous(a)), b.unbind(0))])
            return jagged(made, contiguous(a)._rows)
        raise refusal
    if not isinstance(a, Jagged) or a._rows.size != b._rows.size:
        raise refusal
    last = a._layout.ndim - 1
    if a._ragged_idx == last and b._ragged_idx == last - 1:  # the rows are added up
        return NAMESPACE["stack"]([p.matmul(q) for p, q in zip(row_views(a), row_views(b))])
    if a._ragged_idx == b._ragged_idx < last - 1 and a._layout.ndim == b._layout.ndim:
        return a.like(a._entries.matmul(b._entries))
    raise refusal


@rule("scaled_dot_product_attention")
def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Jagged:
    """Attention of each tensor to its own: (batch, heads, rows, width); query may have other rows than key and value."""
    for x in (query, key, value):
        if not isinstance(x, Jagged):
            raise ValueError(
                f"Expected query, key, and value to be nested tensors, but got query.is_nested: {query.is_nested}, "
                f"key.is_nested: {key.is_nested}, and value.is_nested: {value.is_nested} instead."
            )
    for x in (key, value):
        if x.dtype != query.dtype:
            raise ValueError(
                f"Expected query, key, and value to have the same dtype, but got query.dtype: {query.dtype}, "
                "key.dtype: "
                f"{key.dtype}, and value.dtype: {value.dtype} instead."
            )
        if x._layout.ndim < 3 or query._layout.ndim < 3:
            raise ValueError(
                "Expected query, key, and value to all be  at least 3 dimensional, but got query.dim: "
                f"{query.dim()}, key.dim: "
                f"{key.dim()} and value.dim: {value.dim()} instead."
            )
    if query._ragged_idx != key._ragged_idx or query._ragged_idx != value._ragged_idx:
        raise ValueError(
            f"Expected query, key, and value to all be ragged on the same dimension, but got ragged dims "
            f"{query._ragged_idx}, {key._ragged_idx}, and {value._ragged_idx}, respectively."
        )
    if attn_mask is not None:
        raise ValueError("Masks are not yet supported!")
    attend = function("scaled_dot_product_attention")
    if query._ragged_idx != query._layout.ndim - 2:  # the rows are no sequence, but belong to the batch
        return query.like(
            attend(query._entries, key._entries, value._entries, None, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
        )
    parts = []
    for q, k, v in zip(row_views(query), row_views(key), row_views(value)):
        made = attend(
            q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), None, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
        parts.append(made.squeeze(0))
    if query._rows.lengths is None:
        # rows next to each other, as the projections that made the query left them
        joined = (
            NAMESPACE["cat"]([p.transpose(0, -2) for p in parts])
            if parts[0]._layout.ndim == 3
            else NAMESPACE["cat"](parts, query._ragged_idx - 1)
        )
        if parts[0]._layout.ndim == 3:
            joined = joined.transpose(0, 1)
        return jagged(joined, query._rows, query._ragged_idx)
    made = jagged_from_list(parts)
    made._rows.size = query._rows.size
    return made


# ---------------------------------------------------------------- norms and softmax


@rule("native_layer_norm", "layer_norm")
def native_layer_norm(
    x: Jagged, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> tuple[Any, Any, Any]:
    """Layer norm over the last dimensions, to which the rows may belong if they are the first of them."""
    shape = tuple(normalized_shape)
    ndim = x._layout.ndim
    if ndim <= 2:
        raise RuntimeError("layer_norm(): not supported for NestedTensor objects with 2 or fewer dimensions")
    if len(shape) >= ndim:
        raise RuntimeError("layer_norm(): not supported when normalizing over the batch dimension for NestedTensor")
    touched = x._ragged_idx >= ndim - len(shape)
    if not touched:
        made, mean, rstd = function("native_layer_norm")(x._entries, shape, weight, bias, eps)
        return renamed(x.like(made), "NativeLayerNormBackward0"), mean, rstd
    if x._ragged_idx > 1:
        raise RuntimeError(
            "layer_norm(): not supported when normalizing over the ragged dimension with transposed inputs for NestedTensor"
        )
    if x._rows.lengths is not None:
        raise RuntimeError(
            "layer_norm(): not supported where lengths is not None if operating on the ragged dimension for NestedTensor"
        )
    rows = []
    for row in row_views(x):
        own = row._layout.shape[-len(shape) :]
        scaled = function("native_layer_norm")(row, own, None, None, eps)[0]
        rows.append(scaled)
    made = x.like(NAMESPACE["cat"](rows, x._ragged_idx - 1))
    return made, None, None


@rule("rms_norm", "_fused_rms_norm")
def rms_norm(x: Jagged, normalized_shape: Any, weight: Any = None, eps: Any = None) -> Any:
    """RMS norm over the last dimensions, of which none is ragged."""
    if x._ragged_idx >= x._layout.ndim - len(tuple(normalized_shape)):
        raise RuntimeError("rms_norm(): not supported when normalizing over the ragged dimension for NestedTensor")
    return x.like(function("rms_norm")(x._entries, normalized_shape, weight, eps))


def _softmax(name: str) -> None:
    function = getattr(Tensor, name)

    @rule(name, "_" + name)
    def softmax(x: Jagged, dim: int, dtype: Any = None, **_: Any) -> Jagged:
        at = wrap_dim(dim, x._layout.ndim)
        if at == 0:
            raise RuntimeError("softmax(): not supported when reducing across the batch dimension for NestedTensor")
        if at != x._ragged_idx:
            return renamed(x.like(function(x._entries, at - 1, dtype=dtype)), "SoftmaxBackward0")  # type: ignore[no-any-return]
        if x._ragged_idx > 1:
            raise RuntimeError(
                "softmax(): not supported when reducing along the ragged dimension for ragged_idx > 1 for NestedTensor"
            )
        if x._rows.lengths is not None:
            raise RuntimeError(
                "softmax(): not supported where lengths is not None if reducing across the ragged dimension for NestedTensor"
            )
        return x.like(NAMESPACE["cat"]([function(row, 0, dtype=dtype) for row in row_views(x)]))


_softmax("softmax")
_softmax("log_softmax")


# ---------------------------------------------------------------- dense forms


@rule("to_padded_tensor")
def to_padded_tensor(x: Jagged, padding: float, output_size: Sequence[Any] | None = None) -> Tensor:
    """The tensors side by side in a dense one, with `padding` where they end."""
    along = x._ragged_idx
    length = x._rows.most
    if output_size is not None:
        wanted = list(output_size)
        if len(wanted) != x._layout.ndim or wanted[along] < length:
            raise RuntimeError(
                f"to_padded_tensor(): output_size {wanted} doesn't hold a tensor of shape {tuple(x.shape)} whose "
                "longest row has "
                f"{length}"
            )
        length = wanted[along]
    rows = x._entries.movedim(along - 1, 0)
    count = x._rows.count
    starts, lengths = (x._rows.offsets[:-1], x._rows.offsets.new_tensor([n for _, n in x._rows.bounds]))
    places = NAMESPACE["arange"](length, device=starts.device)
    inside = places < lengths.unsqueeze(1)
    if not rows._layout.shape[0]:
        made = rows.new_full((count, length, *rows._layout.shape[1:]), padding)
    else:
        index = (starts.unsqueeze(1) + places).masked_fill(~inside, 0).reshape(-1)
        made = rows.index_select(0, index).reshape((count, length, *rows._layout.shape[1:]))
        made = made.masked_fill(~inside.reshape(count, length, *[1] * (rows._layout.ndim - 1)), padding)
    return renamed(made.movedim(1, along), "NestedToPaddedTensorBackward0")  # type: ignore[no-any-return]


__all__ = ["attention", "embedding", "linear", "matmul", "native_layer_norm", "pointwise", "row_numbers", "to_padded_tensor"]
