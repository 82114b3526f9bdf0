"""Tables of quantized rows: packing them, and the rows or sums of rows that indices choose.

A packed table is a tensor of bytes: each row its integers, then its scale and its least number, in float32 after bytes and in
float16 after integers of 4 or 2 bits. Only the rows that are chosen are turned into floats. Stands on ops.quantized.
"""

from __future__ import annotations

import math
from typing import Any

import flambeau as torch
from flambeau.ops.quantized.conversion import packed_bytes, unpacked_bytes
from flambeau.ops.quantized.tensor import codes
from flambeau.quantized_ops.packed import EmbeddingParams

__all__ = ["OPERATORS"]

F = torch.nn.functional


def _tail(bits: int) -> Any:
    return torch.float32 if bits == 8 else torch.float16


def _check_table(weight: Any, bits: int) -> None:
    """RuntimeError for what can't be packed."""
    if weight.dtype not in (torch.float32, torch.float16):
        name = "byte" if bits == 8 else f"{bits}bit"
        raise RuntimeError(f"'embedding_bag_{name}_prepack' only support float32 or float16.")
    if bits == 8:
        return
    if weight.dim() != 2:
        raise RuntimeError(f"qembeddingbag_{bits}bit_prepack takes a table of two dimensions, got {weight.dim()}")
    if weight.shape[1] % (8 // bits):
        raise RuntimeError(f"qembeddingbag_{bits}bit_prepack only works for the number of columns a multiple of {8 // bits}")


def _flat(weight: Any) -> Any:
    return weight.to(torch.float32).reshape(math.prod(weight.shape[:-1]), weight.shape[-1])


def _shaped(rows: Any, weight: Any) -> Any:
    return rows.reshape(*weight.shape[:-1], rows.shape[1])


def _pack(bits: int) -> Any:
    """Rows of floats as rows of bytes."""

    def prepack(weight: Any, optimized_qparams: bool = False, nbins: int = 200, ratio: float = 0.16) -> Any:
        _check_table(weight, bits)
        flat = _flat(weight)
        low, high = _ranges(flat)
        if optimized_qparams:
            ranges = [torch.choose_qparams_optimized(row, row.numel(), nbins, ratio, bits) for row in flat]
            high, low = (torch.cat([pair[i] for pair in ranges]).reshape(-1, 1) for i in (0, 1))
        return _shaped(_packed(flat, low, high, bits), weight)

    return prepack


def _ranges(flat: Any) -> tuple[Any, Any]:
    """The least and the greatest number of each row, NaNs not counted: (rows, 1) each."""
    if not flat.shape[1]:
        return flat.new_zeros(flat.shape[0], 1), flat.new_zeros(flat.shape[0], 1)
    odd = flat.isnan()
    if not bool(odd.any()):
        return flat.amin(1, True), flat.amax(1, True)
    return flat.masked_fill(odd, math.inf).amin(1, True), flat.masked_fill(odd, -math.inf).amax(1, True)


def _pack_with_ranges(bits: int) -> Any:
    """The same with the least and the greatest number of each row given."""

    def prepack(weight: Any, rowwise_min_max: Any, *_: Any) -> Any:
        _check_table(weight, bits)
        flat = _flat(weight)
        low, high = rowwise_min_max.to(torch.float32).reshape(-1, 2).split(1, 1)
        return _shaped(_packed(flat, low, high, bits), weight)

    return prepack


def _packed(flat: Any, low: Any, high: Any, bits: int) -> Any:
    greatest = 2**bits - 1
    if bits == 8:
        scale = (high - low) / greatest
        inverse = 255.0 / (high - low + 1e-8)
    else:
        low = low.to(torch.float16).to(torch.float32)
        scale = ((high - low) / greatest).to(torch.float16).to(torch.float32)
        scale = torch.where(scale == 0, 1.0, scale)
        inverse = 1 / scale
        unbounded = torch.isinf(inverse)
        scale, inverse = torch.where(unbounded, 1.0, scale), torch.where(unbounded, 1.0, inverse)
    integers = ((flat - low) * inverse).round().clamp(0, greatest).to(torch.uint8)
    kind = _tail(bits)
    tail = torch.cat([scale, low], 1).to(kind).view(torch.uint8)
    return torch.cat([integers if bits == 8 else packed_bytes(integers, 8 // bits), tail], 1)


def _rows(packed: Any, bits: int) -> Any:
    """Rows of floats from rows of bytes (count, bytes)."""
    kind = _tail(bits)
    size = 2 * kind.itemsize
    body, tail = packed[:, :-size], packed[:, -size:].contiguous().view(kind).to(torch.float32)
    integers = body if bits == 8 else unpacked_bytes(body, 8 // bits, body.shape[1] * (8 // bits))
    return integers.to(torch.float32) * tail[:, :1] + tail[:, 1:]


def _unpack(bits: int) -> Any:
    def unpack(weight: Any) -> Any:
        return _rows(weight.reshape(-1, weight.shape[-1]), bits).reshape(*weight.shape[:-1], -1)

    return unpack


def _chosen(table: Any, places: Any, bits: int) -> Any:
    """The rows of a packed tensor or an EmbeddingParams at `places` (one dimension), in float32."""
    if isinstance(table, EmbeddingParams):
        weight = table.weight
        scales, zeros = weight.q_per_channel_scales(), weight.q_per_channel_zero_points()
        integers = codes(weight).index_select(0, places).to(torch.float32)  # type: ignore[attr-defined]
        scale = scales.to(torch.float32).index_select(0, places).unsqueeze(1)
        zero = zeros.to(torch.float32).index_select(0, places).unsqueeze(1)
        return integers * scale + (-zero * scale)
    return _rows(table.index_select(0, places), bits)


def _bag(bits: int) -> Any:
    """Sums of rows: bags begin at offsets, or are the rows of indices in two dimensions."""

    def embedding_bag(
        weight: Any,
        indices: Any,
        offsets: Any = None,
        scale_grad_by_freq: bool = False,
        mode: int = 0,
        pruned_weights: bool = False,
        per_sample_weights: Any = None,
        compressed_indices_mapping: Any = None,
        include_last_offset: bool = False,
    ) -> Any:
        if indices.dim() not in (1, 2):
            raise RuntimeError("qembedding/qembedding_bag operator supports 1 or 2d indices, got " + str(indices.dim()))
        if mode != 0 and not isinstance(weight, EmbeddingParams):
            raise NotImplementedError("quantized embedding_bag adds rows up (mode=0); divide by their number for means")
        if indices.dim() == 2:
            if offsets is not None:
                raise RuntimeError("embedding_bag operator: input is 2D, then offsets has to be None, as input is treated is a "
                                   "mini-batch of fixed length sequences.")  # fmt: skip
            offsets = torch.arange(0, indices.numel() + include_last_offset, indices.shape[1], dtype=indices.dtype)
        elif offsets is None:
            raise RuntimeError("embedding_bag expects offsets to be set for 1D indices.")
        places = indices.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
        if pruned_weights and compressed_indices_mapping is not None and compressed_indices_mapping.numel() > 1:
            places = compressed_indices_mapping[places.to(torch.int64)]
            rows = _chosen(weight, places.clamp_min(0).to(torch.int64), bits) * (places >= 0).unsqueeze(1)
        else:
            rows = _chosen(weight, places.to(torch.int64), bits)
        if per_sample_weights is not None:
            rows = rows * per_sample_weights.to(torch.float32).unsqueeze(1)
        return F.embedding_bag(
            torch.arange(rows.shape[0]), rows, offsets.to(torch.int64), mode="sum", include_last_offset=include_last_offset
        )

    return embedding_bag


def _embedding(bits: int) -> Any:
    def embedding(weight: Any, indices: Any, pruned_weights: bool = False) -> Any:
        return _chosen(weight, indices.reshape(-1).to(torch.int64), bits).reshape(*indices.shape, -1)

    return embedding


def _prepack(weight: Any) -> EmbeddingParams:
    """A table of quint8 or quint4x2, quantized by its rows with zero points that are floats."""
    if weight.qscheme() is not torch.per_channel_affine_float_qparams:
        raise RuntimeError("Expect embedding_bag weights to be quantized using kPerChannelAffineFloatQParams")
    if weight.dtype not in (torch.quint8, torch.quint4x2):
        raise RuntimeError("Currently we only support 8-bit and 4-bit quantized embedding tables.")
    return EmbeddingParams(weight)


def _table() -> dict[str, Any]:
    made: dict[str, Any] = {"embedding_bag_prepack": _prepack, "embedding_bag_unpack": EmbeddingParams.unpack}
    for name, bits in (("byte", 8), ("4bit", 4), ("2bit", 2)):
        made[f"embedding_bag_{name}_prepack"] = _pack(bits)
        made[f"embedding_bag_{name}_prepack_with_rowwise_min_max"] = _pack_with_ranges(bits)
        made[f"embedding_bag_{name}_unpack"] = _unpack(bits)
        made[f"embedding_bag_{name}_rowwise_offsets"] = _bag(bits)
        if bits > 2:
            made[f"embedding_bag_{name}"] = _bag(bits)
            made[f"embedding_{name}"] = _embedding(bits)
    return made


#: The kernels by operator.
OPERATORS = _table()
