"""Embeddings with tables of integers, of 8 or 4 bits. Stands on torch.ops.quantized."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.ao.nn.quantized.modules.utils import _hide_packed_params_repr, _quantize_weight

__all__ = ["Embedding", "EmbeddingBag", "EmbeddingPackedParams"]

ops = torch.ops.quantized
_DTYPES = (torch.quint8, torch.quint4x2)


class EmbeddingPackedParams(nn.Module):
    """The packed table of an embedding."""

    _version = 1

    def __init__(self, num_embeddings: int, embedding_dim: int, dtype: Any = torch.quint8) -> None:
        super().__init__()
        self.dtype = dtype
        if dtype not in _DTYPES:
            raise NotImplementedError(
                f"Unsupported dtype on quantized embedding! Supports quint8 and quint4x2. Got dtype: {dtype}"
            )
        table = torch._empty_per_channel_affine_quantized(
            [num_embeddings, embedding_dim],
            scales=torch.ones(num_embeddings, dtype=torch.float),
            zero_points=torch.zeros(num_embeddings, dtype=torch.float),
            axis=0,
            dtype=dtype,
        )
        self.set_weight(table)

    def set_weight(self, weight: Any) -> None:
        """Pack another table."""
        self._packed_weight = ops.embedding_bag_prepack(weight)

    def _weight(self) -> Any:
        return ops.embedding_bag_unpack(self._packed_weight)

    def forward(self, x: Any) -> Any:
        """x."""
        return x

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_weight"] = self._weight()

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        self.dtype = state_dict.pop(prefix + "dtype")
        self.set_weight(state_dict.pop(prefix + "_packed_weight"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)

    def __repr__(self) -> str:
        return repr(self._weight())


class Embedding(nn.Module):
    """Rows of a table of integers; the result is float32.

    num_embeddings, embedding_dim: the table's sizes; _weight: the table, quantized by rows with zero points that are floats;
    dtype: quint8 or quint4x2. NotImplementedError for others.
    """

    _version = 1
    _IS_REFERENCE = False

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: Any = None,
        max_norm: Any = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Any = None,
        dtype: Any = torch.quint8,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.dtype = num_embeddings, embedding_dim, dtype
        self._packed_params = EmbeddingPackedParams(num_embeddings, embedding_dim, dtype)
        if _weight is None:
            ones, zeros = torch.ones(num_embeddings, dtype=torch.float), torch.zeros(num_embeddings, dtype=torch.float)
            _weight = torch.quantize_per_channel(torch.zeros(num_embeddings, embedding_dim), ones, zeros, 0, dtype)
        assert list(_weight.shape) == [num_embeddings, embedding_dim], (
            "Shape of weight does not match num_embeddings and embedding_dim"
        )
        self._packed_params.set_weight(_weight)

    def forward(self, indices: Any) -> Any:
        """The rows."""
        operator = ops.embedding_4bit if self.dtype is torch.quint4x2 else ops.embedding_byte
        return operator(self._packed_params._packed_weight, indices)

    def _get_name(self) -> str:
        return "QuantizedEmbedding"

    def __repr__(self) -> str:
        return _hide_packed_params_repr(self, EmbeddingPackedParams)

    def extra_repr(self) -> str:
        return (
            f"num_embeddings={self.num_embeddings}, embedding_dim={self.embedding_dim}, dtype={self._packed_params.dtype}, "
            f"qscheme={self.weight().qscheme()}"
        )

    def set_weight(self, w: Any) -> None:
        """Take on another table."""
        self._packed_params.set_weight(w)

    def weight(self) -> Any:
        """The table."""
        return self._packed_params._weight()

    @classmethod
    def from_reference(cls, ref_embedding: Any) -> Any:
        """The module that a reference embedding becomes."""
        return cls(
            ref_embedding.num_embeddings,
            ref_embedding.embedding_dim,
            ref_embedding.padding_idx,
            ref_embedding.max_norm,
            ref_embedding.norm_type,
            ref_embedding.scale_grad_by_freq,
            ref_embedding.sparse,
            ref_embedding.get_quantized_weight(),
            ref_embedding.weight_dtype,
        )

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module that a float embedding with a qconfig becomes."""
        observer = _observed(mod, f"nnq.{cls.__name__}", (nn.Embedding, "Embedding"), use_precomputed_fake_quant)
        made = cls(mod.num_embeddings, mod.embedding_dim, dtype=observer.dtype)
        made.set_weight(_quantize_weight(mod.weight.float(), observer))
        return made


def _observed(mod: Any, who: str, kind: Any, precomputed: bool) -> Any:
    """The observer of a table, which has seen it."""
    if hasattr(mod, "weight_fake_quant"):
        observer = mod.weight_fake_quant
    else:
        assert type(mod) is kind[0], f"{who}.from_float only works for {kind[1]}"
        assert hasattr(mod, "qconfig"), f"{kind[1]} input float module must have qconfig defined"
        from flambeau.ao.quantization.qconfig import float_qparams_weight_only_qconfig

        has_weight = mod.qconfig is not None and mod.qconfig.weight is not None
        observer = mod.qconfig.weight() if has_weight else float_qparams_weight_only_qconfig.weight()
    dtype = observer.dtype
    assert observer.qscheme is torch.per_channel_affine_float_qparams, (
        f"Embedding quantization is only supported with float_qparams_weight_only_qconfig. Got {observer.qscheme}"
    )
    assert dtype in _DTYPES, f"The only supported dtype for nnq.{kind[1]} is torch.quint8 and torch.quint4x2, got {dtype}"
    if not precomputed:
        observer(mod.weight)
    return observer


class EmbeddingBag(Embedding):
    """Sums of rows of a table of integers; the result is float32. The arguments are nn.EmbeddingBag's and Embedding's."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: Any = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "sum",
        sparse: bool = False,
        _weight: Any = None,
        include_last_offset: bool = False,
        dtype: Any = torch.quint8,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, _weight=_weight, dtype=dtype)
        self.mode, self.pruned_weights, self.include_last_offset = mode, False, include_last_offset

    def forward(
        self, indices: Any, offsets: Any = None, per_sample_weights: Any = None, compressed_indices_mapping: Any = None
    ) -> Any:
        """The sums."""
        operator = ops.embedding_bag_4bit if self.dtype is torch.quint4x2 else ops.embedding_bag_byte
        return operator(
            self._packed_params._packed_weight,
            indices,
            offsets,
            False,
            0,
            self.pruned_weights,
            per_sample_weights,
            compressed_indices_mapping,
            self.include_last_offset,
        )

    def _get_name(self) -> str:
        return "QuantizedEmbeddingBag"

    @classmethod
    def from_reference(cls, ref_embedding_bag: Any) -> Any:
        """The module that a reference embedding bag becomes."""
        return cls(
            ref_embedding_bag.num_embeddings,
            ref_embedding_bag.embedding_dim,
            ref_embedding_bag.max_norm,
            ref_embedding_bag.norm_type,
            ref_embedding_bag.scale_grad_by_freq,
            ref_embedding_bag.mode,
            ref_embedding_bag.sparse,
            ref_embedding_bag.get_quantized_weight(),
            ref_embedding_bag.include_last_offset,
            ref_embedding_bag.weight_dtype,
        )

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module that a float embedding bag with a qconfig becomes."""
        observer = _observed(mod, f"nnq.{cls.__name__}", (nn.EmbeddingBag, "EmbeddingBag"), use_precomputed_fake_quant)
        made = cls(
            mod.num_embeddings,
            mod.embedding_dim,
            max_norm=mod.max_norm,
            norm_type=mod.norm_type,
            mode=mod.mode,
            include_last_offset=mod.include_last_offset,
            dtype=observer.dtype,
        )
        made.set_weight(_quantize_weight(mod.weight.float(), observer))
        return made
