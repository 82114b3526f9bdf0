"""torch.ao.nn.quantizable: float modules made of others that can be observed one by one; not there yet."""

from __future__ import annotations

from typing import Any

from flambeau import nn

__all__ = ["LSTM", "MultiheadAttention"]


class LSTM(nn.Module):
    """NotImplementedError: quantize_dynamic makes dynamic LSTMs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "torch.ao.nn.quantizable.LSTM is not implemented in flambeau: leave the qconfig of LSTMs None, or use "
            "torch.ao.quantization.quantize_dynamic"
        )

    from_float = classmethod(lambda cls, other: cls())


class MultiheadAttention(nn.Module):
    """NotImplementedError: attention stays in float32."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "torch.ao.nn.quantizable.MultiheadAttention is not implemented in flambeau: leave the qconfig of attention None, or "
            "use torch.ao.quantization.quantize_dynamic"
        )

    from_float = classmethod(lambda cls, other: cls())
