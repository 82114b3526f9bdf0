"""Strided nested tensors: elements, products, rows and attention. Stands on strided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.base.dtype import bool_
from flambeau.base.geometry import wrap_dim
from flambeau.core.operator.pointwise import NUMBERS
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.nested.strided import contiguous
from flambeau.ops.nested.tensor import Strided, function, packed, pieces, renamed, rule_of_strided, strided
from flambeau.ops.nn.encoder_layer import _native_multi_head_attention

rule = rule_of_strided
UNARY = """abs sgn sqrt neg negative relu gelu tanh silu sin cos logical_not isinf isposinf isneginf isnan selu threshold
    eq ne gt ge lt le""".split()
IN_PLACE = "abs_ sgn_ neg_ relu_ tanh_ logical_not_".split()
BINARY = "add sub mul div".split()


def buffer_of(x: Strided) -> Tensor:
    """The buffer. RuntimeError unless the tensors lie in it one after the other, without holes."""
    if not (x.in_order and x.fills_buffer):
        raise RuntimeError("NestedTensor must be contiguous to get buffer.")
    return x._entries


def _unary(name: str) -> None:
    elements = function(name)

    @rule(name)
    def apply(x: Any, *args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], Strided):
            raise RuntimeError(f"{name} does not support nested tensor as other value.")
        return x.like(elements(buffer_of(x), *args, **kwargs))


def _write(name: str) -> None:
    elements = getattr(Tensor, name)

    @rule(name)
    def write(x: Any, *args: Any, **kwargs: Any) -> Any:
        elements(buffer_of(x), *args, **kwargs)
        return x


for _name in UNARY:
    _unary(_name)
for _name in IN_PLACE:
    _write(_name)


@rule("silu_")
def silu_(x: Strided) -> Strided:
    """silu in place."""
    x._entries.copy_(function("silu")(buffer_of(x)))
    return x


def _number(x: Any) -> bool:
    return x.__class__ in NUMBERS or (isinstance(x, Tensor) and not isinstance(x, Strided) and not x._layout.ndim)


def _both(name: str, a: Any, b: Any) -> None:
    if not (isinstance(a, Strided) and isinstance(b, Strided)):
        words = "a non-nested self and nested other" if isinstance(b, Strided) else "a nested self and non-nested other"
        raise RuntimeError(f"Expected both self and other to be nested, but got {words}")
    if a._sizes != b._sizes:
        raise RuntimeError(f"{name} does not support broadcasting when given a NestedTensor")


def _binary(name: str) -> None:
    elements = function(name)

    @rule(name)
    def apply(a: Any, b: Any, **kwargs: Any) -> Any:
        if _number(b):
            return a.like(elements(a._entries, b, **kwargs))
        if _number(a):
            return b.like(elements(a, b._entries, **kwargs))
        _both(name, a, b)
        if name in ("add", "sub") or _same_order(name, a, b):
            a, b = _alike(a, b)
        return a.like(elements(a._entries, b._entries, **kwargs))

    if name not in ("add", "mul"):
        return
    writes = getattr(Tensor, name + "_")

    @rule(name + "_")
    def write(a: Any, b: Any, **kwargs: Any) -> Any:
        if _number(b):
            writes(a._entries, b, **kwargs)
            return a
        if isinstance(b, Strided) and not isinstance(a, Strided) and not a._layout.ndim:
            raise RuntimeError(f"output with shape [] doesn't match the broadcast shape [{b.numel()}]")
        _both(name + "_", a, b)
        _same_order(name + "_", a, b)
        writes(a._entries, b._entries, **kwargs)
        return a


def _same_order(name: str, a: Strided, b: Strided) -> bool:
    """True. RuntimeError unless the tensors of both lie in their buffers alike."""
    if a._strides != b._strides:
        raise RuntimeError(f"{name} requires strides to match when given NestedTensors")
    if a._starts != b._starts:
        raise RuntimeError(f"{name} requires offsets to match when given NestedTensors")
    return True


def _alike(a: Strided, b: Strided) -> tuple[Strided, Strided]:
    """Both in buffers of the same order."""
    if a.fills_buffer and b.fills_buffer and a._strides == b._strides and a._starts == b._starts:
        return a, b
    return contiguous(a), contiguous(b)


for _name in BINARY:
    _binary(_name)


@rule("rsub")
def rsub(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    """b - alpha * a."""
    return renamed(a.like(NAMESPACE["rsub"](contiguous(a)._entries, b, alpha=alpha)), "RsubBackward0")


@rule("where")
def where(condition: Any, self: Any, other: Any) -> Any:
    """Elements of one or the other. RuntimeError unless all are nested."""
    raise RuntimeError("self must not be nested")


@rule("masked_fill", "masked_fill_")
def masked_fill(x: Strided, mask: Any, value: Any) -> Strided:
    """x with `value` where the nested mask holds."""
    if not mask._layout.ndim and not isinstance(mask, Strided):
        return x.like(x._entries.masked_fill(mask, value))
    if mask.dtype is not bool_:
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {_short(mask.dtype)}")
    _both("masked_fill", x, mask)
    a, b = _alike(x, mask)
    return a.like(a._entries.masked_fill(b._entries, value))


def _short(dtype: Any) -> str:
    name = str(dtype).rpartition(".")[2]
    return {"float32": "float", "float64": "double", "int64": "long int", "int32": "int"}.get(name, name)


@rule("native_dropout")
def native_dropout(x: Strided, p: float, train: Any) -> tuple[Any, Any]:
    """Dropout, and which elements it kept."""
    made, mask = NAMESPACE["native_dropout"](x._entries, p, train)
    return x.like(made), x.like(mask)


@rule("dropout", "dropout_", "feature_dropout", "alpha_dropout")
def dropout(x: Strided, p: float = 0.5, training: bool = True, *args: Any) -> Strided:
    """Elements zeroed at random."""
    return x.like(function("dropout")(x._entries, p, training))


@rule("embedding")
def embedding(weight: Any, indices: Any = None, *args: Any, **kwargs: Any) -> Strided:
    """The rows of a table at nested indices."""
    weight, indices = (weight, indices) if isinstance(indices, Strided) else (indices, weight)
    rows = function("embedding")(weight, contiguous(indices)._entries, *args, **kwargs)
    width = weight._layout.shape[-1]
    return strided(rows.reshape(-1), [(*size, width) for size in indices._sizes])


# ---------------------------------------------------------------- rows


def _rows(x: Strided) -> Tensor:
    """All elements as rows of the last dimension, in which the tensors agree."""
    return contiguous(x)._entries.reshape(-1, x.size(-1))  # type: ignore[no-any-return]


@rule("linear")
def linear(x: Any, weight: Any, bias: Any = None) -> Strided:
    """The last dimension times a matrix."""
    if isinstance(weight, Strided) or isinstance(bias, Strided):
        raise RuntimeError("linear: weight and bias must not be nested")
    if x._layout.ndim != 3 or weight._layout.ndim != 2:
        raise RuntimeError(
            "Linear requires nested_tensor.dim == 3 and dense_matrix.dim == 2. Nested tensor dim: "
            f"{x._layout.ndim}. Dense tensor dim: {weight._layout.ndim}"
        )
    if not x.is_contiguous():
        raise RuntimeError("for now linear only supports contiguous nested tensor")
    last = [size[-1] for size in x._sizes]
    if len(set(last)) > 1:
        raise RuntimeError(
            "Expected all tensors in nested tensor to have the same trailing dimension, instead last dimension equals: "
            + _column(last)
        )
    if x.size(-1) != weight._layout.shape[1]:
        raise RuntimeError(
            "Shape mismatch for NestedTensor Linear: Expected input's (a nested tensor) 'last_dim' to equal "
            f"'weight.size(1), but got: last_dim = {x.size(-1)}, and weight.size(1) = {weight._layout.shape[1]}"
        )
    made = function("linear")(_rows(x), weight, bias)
    return renamed(strided(made.reshape(-1), [(*size[:-1], weight._layout.shape[0]) for size in x._sizes]), "LinearBackward0")


@rule("native_layer_norm")
def native_layer_norm(x: Strided, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    """Layer norm over the last dimensions."""
    if weight is None or bias is None:
        raise ValueError("NestedTensor layer_norm requires weight and bias")
    if isinstance(weight, Strided) or isinstance(bias, Strided):
        raise RuntimeError("Layer norm: weight and bias must not be nested")
    shape = list(normalized_shape)
    if not x.is_contiguous():
        raise RuntimeError(
            "Expected nested_tensor_impl_is_contiguous(nt_input) to be true, but got false.  (Could this error "
            "message be "
            "improved?  If so, please report an enhancement request to PyTorch.)"
        )
    ndim = x._layout.ndim
    if (
        any(len({size[ndim - 2 - place] for size in x._sizes}) > 1 for place in range(min(len(shape), ndim - 1)))
        or len(shape) > ndim - 2
    ):
        raise RuntimeError("normalized_shape extends into irregular dimensions for the nested tensor")
    for place, n in enumerate(shape):
        if x.size(ndim - len(shape) + place) != n:
            raise RuntimeError(f"The shape at dimension {place}of normalized_shape doesn't match the input")
    flat = contiguous(x)._entries.reshape(-1, *shape)
    made, mean, rstd = function("native_layer_norm")(flat, shape, weight, bias, eps)
    return x.like(made.reshape(-1)), mean, rstd


@rule("softmax")
def softmax(x: Strided, dim: int, dtype: Any = None, **_: Any) -> Strided:
    """Softmax along a dimension of each tensor."""
    if not x._sizes:
        return x
    at = wrap_dim(dim, x._layout.ndim)
    if at == 0:
        raise RuntimeError("Cannot apply softmax across nested dimension 0")
    if dtype is not None:
        x = x.like(x._entries.to(dtype))
    if at == x._layout.ndim - 1 and len({size[-1] for size in x._sizes}) == 1 and x.numel():
        return renamed(contiguous(x).like(_rows(x).softmax(-1).reshape(-1)), "SoftmaxBackward0")  # type: ignore[no-any-return]
    return renamed(packed([p.softmax(at - 1) for p in pieces(x)]), "SoftmaxBackward0")  # type: ignore[no-any-return]


@rule("sum")
def total(x: Strided, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Strided:
    """The sums along the last dimension, which is kept."""
    if dim is None:
        raise x.refused("sum", ())
    dims = [dim] if isinstance(dim, int) else list(dim)
    if len(dims) != 1:
        raise RuntimeError("NestedTensor only allows reduction of a single dimension for now.")
    at = wrap_dim(dims[0], x._layout.ndim)
    if at != x._layout.ndim - 1:
        raise RuntimeError(f"NestedTensor can only be reduced across the last dimension for now got dimension {at} instead.")
    if not keepdim:
        raise RuntimeError("NestedTensor always requires keepdim=True for now.")
    if dtype is not None:
        raise RuntimeError("NestedTensor does not support dtype argument for now.")
    if not x.is_contiguous():
        raise RuntimeError("NestedTensor does not support reductions when the input is noncontiguous for now.")
    return renamed(packed([p.sum(-1, keepdim=True) for p in pieces(x)]), "SumBackwardAutogradNestedTensor1")


# ---------------------------------------------------------------- products


def _matrices(x: Any) -> list[Tensor]:
    return pieces(x) if isinstance(x, Strided) else list(x.unbind(0))


@rule("bmm")
def bmm(a: Any, b: Any) -> Strided:
    """Products of matrices, pair by pair; one of the two may be dense."""
    for place, x in ((1, a), (2, b)):
        if x._layout.ndim != 3:
            raise RuntimeError(f"batch{place} must be a 3D tensor")
    left, right = _matrices(a), _matrices(b)
    if len(left) != len(right):
        raise RuntimeError(f"Expected size for the 1st dimension of batch2 tensor to be: {len(left)} but got: {len(right)}.")
    for place, (p, q) in enumerate(zip(left, right)):
        (n, k), (m, j) = p._layout.shape, q._layout.shape
        if k != m:
            raise RuntimeError(f"{place}-th nested matrices in batch cannot be multiplied ({n}x{k} and {m}x{j})")
    return renamed(packed([p.mm(q) for p, q in zip(left, right)]), "BmmBackward0")  # type: ignore[no-any-return]


def _column(values: Sequence[int]) -> str:
    """A list as PyTorch's messages print one."""
    return "\n".join(f" {n}" for n in values) + f"\n[ torch.LongTensor{{{len(values)}}} ]"


def _batches(sizes: Sequence[Sequence[int]]) -> str:
    rows = [size[:-2] for size in sizes]
    return (
        "\n".join(" " + "  ".join(str(n) for n in row) for row in rows) + f"\n[ torch.LongTensor{{{len(rows)},{len(rows[0])}}} ]"
    )


@rule("matmul")
def matmul(a: Any, b: Any) -> Any:
    """Products of matrices, pair by pair; dimensions between the batch and the matrices agree."""
    if isinstance(a, Strided) and not isinstance(b, Strided) and a._layout.ndim >= 4 and b._layout.ndim == 2:
        return renamed(packed([p.matmul(b) for p in pieces(a)]), "MatmulBackward0")
    if not (isinstance(a, Strided) and isinstance(b, Strided)):
        words = "a nested self and non-nested other" if isinstance(a, Strided) else "a non-nested self and nested other"
        raise RuntimeError(f"Expected both to be nested, but got {words}")
    for place, x in (("1st", a), ("2nd", b)):
        if x._layout.ndim < 3:
            raise RuntimeError(
                f"matmul: For nested tensors, only inputs with >= 3 dims are currently supported. {place} input has "
                "rank: "
                f"{x._layout.ndim}"
            )
    if len(a._sizes) != len(b._sizes):
        raise RuntimeError(
            f"matmul: Expected size for the 1st dimension of 2nd input tensor to be: {len(a._sizes)} but got: {len(b._sizes)}."
        )
    if a._layout.ndim != b._layout.ndim:
        raise RuntimeError("matmul: both inputs must have the same rank")
    if any(s[:-2] != t[:-2] for s, t in zip(a._sizes, b._sizes)):
        raise RuntimeError(
            "matmul: For nested tensors, batch dimensions must have the same sizes, no broadcasting is currently "
            "performed. "
            f"Got batch shapes for self {_batches(a._sizes)} and batch shapes for mat2 {_batches(b._sizes)}"
        )
    last, second = [s[-1] for s in a._sizes], [t[-2] for t in b._sizes]
    if last != second:
        raise RuntimeError(
            f"matmul: Nested tensors cannot be matrix multiplied, last dimension of self has sizes{_column(last)}"
            f"second last dimension of mat2 has sizes{_column(second)}"
        )
    return renamed(packed([p.matmul(q) for p, q in zip(pieces(a), pieces(b))]), "MatmulBackward0")


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
) -> Strided:
    """Attention of each tensor to its own: query (batch, heads, length, width)."""
    if not all(isinstance(x, Strided) for x in (query, key, value)):
        raise RuntimeError("Expected query, key and value to all be nested, or all dense")
    if attn_mask is not None:
        raise RuntimeError(
            "Scaled_dot_product_attention: Nested tensors for query / key are not supported when an explicit attn_mask is set"
        )
    if is_causal:
        raise RuntimeError("_scaled_dot_product_attention: Nested tensors for query / key are not supported when is_causal=True")
    attend = function("scaled_dot_product_attention")
    return packed(
        [
            attend(
                q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), None, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            ).squeeze(0)
            for q, k, v in zip(pieces(query), pieces(key), pieces(value))
        ]
    )


@rule("_native_multi_head_attention")
def multi_head_attention(
    query: Any,
    key: Any,
    value: Any,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    *rest: Any,
    **named: Any,
) -> tuple[Strided, Tensor | None]:
    """Attention of many heads within each tensor, and the weights of the longest with zeros where the others end."""
    results = [
        _native_multi_head_attention(
            *[part.unsqueeze(0) for part in parts], embed_dim, num_head, qkv_weight, qkv_bias, *rest, **named
        )
        for parts in zip(*[pieces(x) for x in (query, key, value)])
    ]
    longest = max(size[0] for size in query._sizes)
    weights = None
    if results[0][1] is not None:
        padded = [NAMESPACE["constant_pad_nd"](w, [0, longest - w._layout.shape[-1]] * 2, 0.0) for _, w in results]
        weights = NAMESPACE["cat"](padded)
    return packed([made.squeeze(0) for made, _ in results]), weights


# ---------------------------------------------------------------- with dense tensors


def extent(x: Strided) -> list[int]:
    """The largest size of each dimension."""
    return [max(size[d] for size in x._sizes) for d in range(x._layout.ndim - 1)]


@rule("to_padded_tensor")
def to_padded_tensor(x: Strided, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
    """The tensors side by side in a dense one, with `padding` where they end."""
    if not x._sizes or not x._layout.ndim - 1:
        return NAMESPACE["stack"](pieces(x)) if x._sizes else x._entries.new_empty(0)  # type: ignore[no-any-return]
    if not x.in_order or not x.fills_buffer:
        raise RuntimeError("for now to_padded_tensor only supports contiguous nested tensor")
    if not x.numel():
        raise RuntimeError("to_padded_tensor: at least one constituent tensor should have non-zero numel")
    sizes = [len(x._sizes), *extent(x)]
    if output_size is not None:
        wanted = list(output_size)
        if len(wanted) != len(sizes):
            raise RuntimeError("Length of output_size does not match NestedTensor dims. Broadcasting is not supported.")
        if any(n < m for n, m in zip(wanted, sizes)):
            raise RuntimeError("Value in output_size is less than NestedTensor padded size. Truncation is not supported.")
        sizes = wanted
    rows = []
    for piece in pieces(x):
        pad: list[int] = []
        for n, m in zip(reversed(sizes[1:]), reversed(piece._layout.shape)):
            pad += [0, n - m]
        rows.append(NAMESPACE["constant_pad_nd"](piece, pad, padding))
    made = NAMESPACE["stack"](rows)
    if sizes[0] > len(rows):
        made = NAMESPACE["cat"]([made, made.new_full((sizes[0] - len(rows), *sizes[1:]), padding)])
    return made  # type: ignore[no-any-return]
