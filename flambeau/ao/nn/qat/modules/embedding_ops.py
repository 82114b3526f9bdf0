"""Embeddings whose rows are rounded while they are trained. Stands on nn."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import nn

__all__ = ["Embedding", "EmbeddingBag"]

F = nn.functional


class _Rounded:
    """What the two have in common."""

    _FLOAT_MODULE: Any
    _SHARED: tuple[str, ...]
    _SHOWN: str  # the class in messages
    weight: Any

    def __init__(self, *args: Any, qconfig: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        assert qconfig, "qconfig must be provided for QAT module"
        assert qconfig.weight().qscheme is torch.per_channel_affine_float_qparams, (
            f"{self._SHOWN} weights requires a qscheme of torch.per_channel_affine_float_qparams Got {qconfig.weight().qscheme}"
        )
        self.qconfig = qconfig
        self.weight_fake_quant = qconfig.weight()

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module that a float one with a qconfig becomes; the table is shared."""
        assert type(mod) is cls._FLOAT_MODULE, f" qat.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}"
        assert hasattr(mod, "qconfig"), "Input float module must have qconfig defined"
        assert mod.qconfig, "Input float module must have a valid qconfig"
        return cls(
            mod.num_embeddings,
            mod.embedding_dim,
            **{name: getattr(mod, name) for name in cls._SHARED},
            _weight=mod.weight,
            qconfig=mod.qconfig,
        )

    def to_float(self) -> Any:
        """A float module with this table."""
        shared = {name: getattr(self, name) for name in self._SHARED}
        made = self._FLOAT_MODULE(self.num_embeddings, self.embedding_dim, **shared)  # type: ignore[attr-defined]
        made.weight = nn.Parameter(self.weight.detach())
        made.train(self.training)  # type: ignore[attr-defined]
        return made


class Embedding(_Rounded, nn.Embedding):
    """nn.Embedding with rounded rows; `qconfig` is needed."""

    _FLOAT_MODULE = nn.Embedding
    _SHOWN = "Embedding"
    _SHARED = ("padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse")

    def forward(self, input: Any) -> Any:
        """Rows of the rounded table."""
        weight = self.weight_fake_quant(self.weight)
        return F.embedding(input, weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse)


class EmbeddingBag(_Rounded, nn.EmbeddingBag):
    """nn.EmbeddingBag with rounded rows; `qconfig` is needed."""

    _FLOAT_MODULE = nn.EmbeddingBag
    _SHOWN = "Embedding Bag"
    _SHARED = ("max_norm", "norm_type", "scale_grad_by_freq", "mode", "sparse", "include_last_offset", "padding_idx")

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        """Sums of rows of the rounded table."""
        return F.embedding_bag(
            input,
            self.weight_fake_quant(self.weight),
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
