"""torch.nn.attention.flex_attention: attention whose scores a function of the program changes, and whose mask is a function.

`score_mod(score, batch, head, query, key)` and `mask_mod(batch, head, query, key)` are written for numbers; vmap gives them
all batches, heads, queries and keys at once. Gradients reach the tensors that they capture, too. Where a BlockMask leaves
much out, rows of blocks are computed one after the other with the keys that they need. Stands on block_mask and vmap.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

import flambeau as torch
from flambeau.base.warn import warn_once
from flambeau.core.operator import unsupported as _unsupported
from flambeau.nn.attention._validate import calculate_scale, same_device
from flambeau.nn.attention.block_mask import _DEFAULT_SPARSE_BLOCK_SIZE, BlockMask, MaskMod, dense_to_ordered, noop_mask, round_up

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "FlexKernelOptions",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

_LARGE_SPARSE_BLOCK_SIZE = 1 << 30
_BACKENDS = ("AUTO", "TRITON", "FLASH", "TRITON_DECODE")
ScoreMod = Callable[..., Any]
_score_mod_signature = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
_mask_mod_signature = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
create_nested_block_mask = _unsupported.function(
    "nn.attention.flex_attention.create_nested_block_mask",
    "pad the sequences to one length and mask by their lengths in a mask_mod",
)


class AuxRequest(NamedTuple):
    """What flex_attention returns beside its result: lse, the logarithms of the sums of the scores' exponentials."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for by AuxRequest: lse of shape (batch, heads, queries), or None."""

    lse: Any = None
    max_scores: Any = None


class FlexKernelOptions(TypedDict, total=False):
    """Settings of PyTorch's kernels; only BACKEND is looked at, and no number depends on it."""

    num_warps: int
    num_stages: int
    BLOCK_M: int
    BLOCK_N: int
    PRESCALE_QK: bool
    ROWS_GUARANTEED_SAFE: bool
    BLOCKS_ARE_CONTIGUOUS: bool
    WRITE_DQ: bool
    FORCE_USE_FLEX_ATTENTION: bool
    BACKEND: str


# ---------------------------------------------------------------- functions of numbers, for all of them at once


class _ModificationType(enum.Enum):
    SCORE_MOD, MASK_MOD, UNKNOWN = 1, 2, 3


def _get_mod_type(fn: Callable[..., Any]) -> _ModificationType:
    """Whether a function takes a score and four indices, or the indices. Raises AssertionError for neither."""
    if hasattr(fn, "__code__"):
        code = fn.__code__
        count = code.co_argcount - (code.co_varnames[:1] == ("self",)) - len(getattr(fn, "__defaults__", None) or ())
        if code.co_flags & inspect.CO_VARARGS:
            return _ModificationType.UNKNOWN
    else:
        parameters = inspect.signature(fn).parameters.values()
        if any(p.kind is p.VAR_POSITIONAL for p in parameters):
            return _ModificationType.UNKNOWN
        count = sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
    if count not in (4, 5):
        raise AssertionError(f"Expected 4 or 5 positional args, got {count}")
    return _ModificationType.SCORE_MOD if count == 5 else _ModificationType.MASK_MOD


def _for_all(fn: Callable[..., Any], scores: bool) -> Callable[..., Any]:
    """A mod for numbers as one for (scores of shape (B, H, Q, K) and) four index vectors; the result is of that shape."""
    for axis in (3, 2, 1, 0):
        indices = [None] * 4
        indices[axis] = 0  # type: ignore[call-overload]
        fn = torch.vmap(fn, in_dims=(0, *indices) if scores else tuple(indices), out_dims=0)
    return fn


def _masked(mask_mod: MaskMod, indices: tuple[Any, ...]) -> Any:
    """The mask of shape (B, H, Q, K), or one of lower dimension that broadcasts to it."""
    return _for_all(mask_mod, scores=False)(*indices)


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """The mask_mod that lets through what one of them does. Raises RuntimeError for what can't be called."""
    _callable(mask_mods)

    def or_mask(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        result = b.new_zeros((), dtype=torch.bool)
        for mask in mask_mods:
            result = result | mask(b, h, q_idx, kv_idx)
        return result

    return or_mask


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """The mask_mod that lets through what all of them do. Raises RuntimeError for what can't be called."""
    _callable(mask_mods)

    def and_mask(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        result = b.new_ones((), dtype=torch.bool)
        for mask in mask_mods:
            result = result & mask(b, h, q_idx, kv_idx)
        return result

    return and_mask


def _callable(mask_mods: tuple[Any, ...]) -> None:
    if not all(callable(mask) for mask in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")


# ---------------------------------------------------------------- masks


def create_mask(mod_fn: Callable[..., Any], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None) -> Any:
    """What a mask_mod lets through, as a bool tensor of shape (B, H, Q_LEN, KV_LEN); of a score_mod, where scores are finite.

    B or H of None: 1. Raises AssertionError for a function of other than 4 or 5 arguments.
    """
    batch, heads = 1 if B is None else B, 1 if H is None else H
    indices = tuple(torch.arange(n, device=device) for n in (batch, heads, Q_LEN, KV_LEN))
    shape = (batch, heads, Q_LEN, KV_LEN)
    kind = _get_mod_type(mod_fn)
    if kind is _ModificationType.SCORE_MOD:
        changed = _for_all(mod_fn, scores=True)(torch.zeros(shape, device=device), *indices)
        return torch.where(torch.isneginf(changed), False, True)
    return _masked(mod_fn, indices).expand(shape)


def _convert_mask_to_block_mask(
    mask: Any,
    Q_BLOCK_SIZE: int = _DEFAULT_SPARSE_BLOCK_SIZE,
    KV_BLOCK_SIZE: int = _DEFAULT_SPARSE_BLOCK_SIZE,
    separate_full_blocks: bool = False,
) -> tuple[Any, Any]:
    """(blocks with something in them, blocks full of it or None) of a bool mask, each int8 (B, H, rows, columns).

    With separate_full_blocks the first has only those that aren't full.
    """
    batch, heads, rows, columns = mask.shape
    padded = torch.nn.functional.pad(
        mask, (0, round_up(columns, KV_BLOCK_SIZE) - columns, 0, round_up(rows, Q_BLOCK_SIZE) - rows)
    )
    blocks = padded.reshape(
        batch, heads, padded.shape[-2] // Q_BLOCK_SIZE, Q_BLOCK_SIZE, padded.shape[-1] // KV_BLOCK_SIZE, KV_BLOCK_SIZE
    )
    counts = blocks.sum(dim=(-3, -1))
    if not separate_full_blocks:
        return (counts > 0).to(torch.int8), None
    full = counts == Q_BLOCK_SIZE * KV_BLOCK_SIZE
    return ((counts > 0) & ~full).to(torch.int8), full.to(torch.int8)


def create_block_mask(
    mask_mod: MaskMod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
    compute_dq_write_order: bool = False,
    dq_kv_order: bool = True,
) -> BlockMask:
    """The BlockMask of a mask_mod over (B, H, Q_LEN, KV_LEN); B or H of None: the same for all.

    BLOCK_SIZE: of queries and keys; separate_full_blocks: list the blocks that nothing masks apart.
    Raises AssertionError for a function that is no mask_mod, NotImplementedError for compute_dq_write_order, which is about
    GPUs.
    """
    if compute_dq_write_order:
        raise NotImplementedError(
            "create_block_mask(compute_dq_write_order=True) is not implemented in flambeau: it orders the writes of kernels "
            "on GPUs; leave it out"
        )
    if _get_mod_type(mask_mod) is _ModificationType.SCORE_MOD:
        raise AssertionError(f"create-block_mask requires a mask_mod function! Got {mask_mod}")
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    with torch.no_grad():
        mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
        partial, full = _convert_mask_to_block_mask(mask, *size, separate_full_blocks)
        lists = [*dense_to_ordered(partial), *(dense_to_ordered(full) if full is not None else (None, None))]
        made = BlockMask.from_kv_blocks(*lists, BLOCK_SIZE=size, mask_mod=mask_mod, seq_lengths=(Q_LEN, KV_LEN))
    made._made_from = mask_mod
    return made


def _create_empty_block_mask(query: Any, key: Any) -> BlockMask:
    """The BlockMask that masks nothing: one block of any size."""
    return BlockMask.from_kv_blocks(
        kv_num_blocks=torch.ones([1, 1, 1], dtype=torch.int32, device=query.device),
        kv_indices=torch.zeros([1, 1, 1, 1], dtype=torch.int32, device=query.device),
        BLOCK_SIZE=_LARGE_SPARSE_BLOCK_SIZE,
        seq_lengths=(1, 1),
    )


# ---------------------------------------------------------------- attention


def _check(
    query: Any, key: Any, value: Any, block_mask: BlockMask | None, enable_gqa: bool, kernel_options: Any, aux: AuxRequest
) -> None:
    """Raise PyTorch's errors for what doesn't fit."""
    same_device(query, key, value)
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    if query.device.type != "cpu":
        raise ValueError(
            "FlexAttention is only supported on CUDA, CPU, HPU, or MPS devices. "
            f"Found input tensors on {query.device.type} device."
        )
    if query.size(-1) != key.size(-1):
        raise ValueError(
            f"Expect query and key/value to have the same embedding dimension but got E={query.size(-1)} and E={key.size(-1)}."
        )
    heads, kv_heads = query.size(1), key.size(1)
    if not enable_gqa and heads != kv_heads:
        raise ValueError(
            "Expect query and key/value to have the same number of heads but got "
            f"Hq={heads} and Hkv={kv_heads}. Try setting enable_gqa=True for GQA."
        )
    if enable_gqa and heads % kv_heads:
        raise ValueError(
            f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={heads} and Hkv={kv_heads}."
        )
    if query.size(0) != key.size(0) and (block_mask is None or key.size(0) != 1):
        raise ValueError(
            "Expect query and key/value to have the same batch size, or non-none block_mask, but got "
            f"block_mask={block_mask}, Bq={query.size(0)}, and Bkv={key.size(0)}."
        )
    if aux.max_scores:
        raise NotImplementedError("Returning max scores is not supported on CPU/MPS.")
    backend = (kernel_options or {}).get("BACKEND", "AUTO")
    if backend not in _BACKENDS:
        raise ValueError(f"Invalid BACKEND value '{backend}'. Must be one of {_BACKENDS}")
    if block_mask is not None:
        _check_lengths(block_mask, query.size(2), key.size(2))


def _check_lengths(block_mask: BlockMask, q_len: int, kv_len: int) -> None:
    wanted_q, wanted_kv = block_mask.seq_lengths
    if (wanted_q, wanted_kv) == (q_len, kv_len):
        return
    said = f"block_mask was created for block_mask.shape={block_mask.shape} but got q_len={q_len} and kv_len={kv_len}. "
    if q_len > wanted_q or kv_len > wanted_kv:
        raise ValueError(
            said + "As the block mask was created for a smaller length than you're using it for, you likely "
            "need to create a new block mask."
        )
    raise ValueError(
        said + "As the block mask was created for a larger length than you're using it for, you can either 1. create a new "
        "block mask with the correct length, or 2. 'adjust' the existing block mask to the correct length by calling "
        "block_mask._adjust(q_len, kv_len). This essentially 'crops' the block mask to the upper left corner, which does "
        "not work for all mask_mods!"
    )


def _attend(
    query: Any,
    key: Any,
    value: Any,
    score_mod: ScoreMod | None,
    mask_mod: MaskMod | None,
    scale: float,
    positions: tuple[Any, Any],
) -> tuple[Any, Any]:
    """(result, lse) of these queries and keys, whose numbers in their sequences are `positions`."""
    working = query.dtype if query.dtype == torch.float64 else torch.float32
    scores = query.to(working) @ key.to(working).transpose(-2, -1) * scale
    indices = (*(torch.arange(n, device=query.device) for n in scores.shape[:2]), *positions)
    if score_mod is not None:
        scores = _for_all(score_mod, scores=True)(scores, *indices)
    if mask_mod is not None and mask_mod is not noop_mask:
        scores = torch.where(_masked(mask_mod, indices), scores, -float("inf"))
    lse = scores.logsumexp(-1)
    # Where everything is masked, lse is -inf and the weights are exp(-inf - 0) = 0.
    weights = torch.exp(scores - torch.where(lse == -float("inf"), 0.0, lse)[..., None])
    return weights.to(query.dtype) @ value.to(query.dtype), lse


def _worth_skipping(block_mask: BlockMask | None) -> Any:
    """The blocks that some head needs, as a list of rows of numbers of columns; None where computing all is better."""
    if block_mask is None or block_mask._made_from is not block_mask.mask_mod:
        return None  # only blocks that were found from the mask are known to leave out nothing but what it masks
    q_len, kv_len = block_mask.seq_lengths
    if q_len * kv_len < 1 << 18 or block_mask.BLOCK_SIZE[0] < 32:
        return None
    needed = block_mask.to_dense().flatten(0, -3).any(0)
    if needed.sum().item() > 0.75 * needed.numel():
        return None
    return [[column for column, there in enumerate(row) if there] for row in needed.tolist()]


def _attend_by_rows(
    query: Any, key: Any, value: Any, score_mod: ScoreMod | None, block_mask: BlockMask, scale: float, rows: list[list[int]]
) -> tuple[Any, Any]:
    """_attend for one row of blocks after the other, each with the columns that it needs."""
    height, width = block_mask.BLOCK_SIZE
    kv_len = key.size(2)
    keys = torch.arange(kv_len, device=query.device)
    outs, lses = [], []
    for number, columns in enumerate(rows):
        begin, end = number * height, min((number + 1) * height, query.size(2))
        if columns and columns == list(range(columns[0], columns[-1] + 1)):
            first, last = columns[0] * width, min((columns[-1] + 1) * width, kv_len)
            some, some_key, some_value = keys[first:last], key[:, :, first:last], value[:, :, first:last]
        else:
            some = keys[torch.isin(keys // width, torch.tensor(columns, dtype=keys.dtype))]
            some_key, some_value = key.index_select(2, some), value.index_select(2, some)
        out, lse = _attend(
            query[:, :, begin:end],
            some_key,
            some_value,
            score_mod,
            block_mask.mask_mod,
            scale,
            (torch.arange(begin, end, device=query.device), some),
        )
        outs.append(out)
        lses.append(lse)
    return torch.cat(outs, 2), torch.cat(lses, 2)


def _strides_like(out: Any, query: Any) -> Any:
    """The result in the order of dimensions that the queries have in memory."""
    order = sorted(range(4), key=query.stride, reverse=True)
    if order == sorted(order):
        return out.contiguous()
    back = sorted(range(4), key=order.__getitem__)
    return out.permute(order).contiguous().permute(back)


def flex_attention(
    query: Any,
    key: Any,
    value: Any,
    score_mod: ScoreMod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: FlexKernelOptions | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """softmax(score_mod(query @ key.mT * scale), masked by block_mask) @ value, with gradients.

    query: (B, H, L, E), key: (B, H, S, E), value: (B, H, S, F), of which B of key and value may be 1 with a block_mask, and H
    a divisor of the queries' with enable_gqa. scale: 1 / sqrt(E) by default. The result is (B, H, L, F) of the queries' dtype;
    with return_aux a pair of it and AuxOutput, with the deprecated return_lse one of it and lse, (B, H, L) in float32 (or
    float64). Queries for which everything is masked give 0, and an lse of -inf.

    Raises ValueError and NotImplementedError for shapes, lengths, devices and requests that don't fit.
    """
    if return_lse and return_aux is not None:
        raise ValueError(
            "Cannot specify both return_lse and return_aux. return_lse is deprecated, please use "
            "return_aux=AuxRequest(lse=True) instead."
        )
    if return_lse:
        warn_once(
            "return_lse is deprecated and will be removed in v2.10. Please use return_aux=AuxRequest(lse=True) instead.",
            FutureWarning,
        )
    aux = return_aux or AuxRequest(lse=return_lse)
    _check(query, key, value, block_mask, enable_gqa, kernel_options, aux)
    heads, kv_heads = query.size(1), key.size(1)
    wide_key, wide_value = key, value
    if heads != kv_heads:
        wide_key = key.repeat_interleave(heads // kv_heads, dim=1)
        wide_value = value.repeat_interleave(heads // kv_heads, dim=1)
    if key.size(0) != query.size(0):
        wide_key = wide_key.expand(query.size(0), -1, -1, -1)
        wide_value = wide_value.expand(query.size(0), -1, -1, -1)
    factor = calculate_scale(query.size(-1), scale)
    rows = _worth_skipping(block_mask)
    if rows is not None:
        assert block_mask is not None
        out, lse = _attend_by_rows(query, wide_key, wide_value, score_mod, block_mask, factor, rows)
    else:
        positions = tuple(torch.arange(n, device=query.device) for n in (query.size(2), key.size(2)))
        mask_mod = None if block_mask is None else block_mask.mask_mod
        out, lse = _attend(query, wide_key, wide_value, score_mod, mask_mod, factor, positions)  # type: ignore[arg-type]
    out = _strides_like(out.to(query.dtype), query)
    if return_aux is not None:
        return out, AuxOutput(lse=lse if aux.lse else None)
    return (out, lse) if return_lse else out
