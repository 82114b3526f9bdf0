"""Embeddings with rounded weights. Stands on utils."""

from __future__ import annotations

from typing import Any

from flambeau import nn
from flambeau.ao.nn.quantized.reference.modules.utils import ReferenceQuantizedModule

__all__ = ["Embedding", "EmbeddingBag"]


class Embedding(ReferenceQuantizedModule, nn.Embedding):
    """nn.Embedding whose weight is quantized and dequantized at each call; nn.Embedding's arguments and weight_qparams."""

    def __init__(self, *args: Any, device: Any = None, weight_qparams: dict[str, Any] | None = None, **kwargs: Any) -> None:
        nn.Embedding.__init__(self, *args, **{**kwargs, "device": device})
        self._init_weight_qparams(weight_qparams, device)

    def forward(self, input: Any) -> Any:
        """The rows of the rounded weight."""
        return nn.functional.embedding(
            input, self.get_weight(), self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    @classmethod
    def from_float(cls, mod: Any, weight_qparams: dict[str, Any]) -> Any:
        """The reference module of an Embedding; the weight is shared."""
        return cls(
            mod.num_embeddings,
            mod.embedding_dim,
            mod.padding_idx,
            mod.max_norm,
            mod.norm_type,
            mod.scale_grad_by_freq,
            mod.sparse,
            mod.weight.detach(),
            device=mod.weight.device,
            dtype=mod.weight.dtype,
            weight_qparams=weight_qparams,
        )


class EmbeddingBag(ReferenceQuantizedModule, nn.EmbeddingBag):
    """nn.EmbeddingBag whose weight is quantized and dequantized at each call; its arguments and weight_qparams."""

    def __init__(self, *args: Any, device: Any = None, weight_qparams: dict[str, Any] | None = None, **kwargs: Any) -> None:
        nn.EmbeddingBag.__init__(self, *args, **{**kwargs, "device": device})
        self._init_weight_qparams(weight_qparams, device)

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        """The bags of rows of the rounded weight."""
        return nn.functional.embedding_bag(
            input,
            self.get_weight(),
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    @classmethod
    def from_float(cls, mod: Any, weight_qparams: dict[str, Any], use_precomputed_fake_quant: bool = False) -> Any:
        """The reference module of an EmbeddingBag; the weight is shared."""
        return cls(
            mod.num_embeddings,
            mod.embedding_dim,
            mod.max_norm,
            mod.norm_type,
            mod.scale_grad_by_freq,
            mod.mode,
            mod.sparse,
            mod.weight.detach(),
            mod.include_last_offset,
            mod.padding_idx,
            device=mod.weight.device,
            dtype=mod.weight.dtype,
            weight_qparams=weight_qparams,
        )
