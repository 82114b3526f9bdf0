"""torch.nn.attention.varlen: attention over packed sequences, which PyTorch has on GPUs only."""

from __future__ import annotations

from typing import NamedTuple

from flambeau.core.operator import unsupported as _unsupported

_ADVICE = "PyTorch has it on GPUs only; pad the sequences and mask them in scaled_dot_product_attention, or use flex_attention"
varlen_attn = _unsupported.function("nn.attention.varlen.varlen_attn", _ADVICE)
varlen_attn_out = _unsupported.function("nn.attention.varlen.varlen_attn_out", _ADVICE)

__all__ = ["AuxRequest", "varlen_attn", "varlen_attn_out"]


class AuxRequest(NamedTuple):
    """What varlen_attn is to return beside its result."""

    lse: bool = False
