"""An LSTM with quantized states: use the dynamic one. Stands on nn."""

from __future__ import annotations

from typing import Any

from flambeau import nn

__all__ = ["LSTM"]


class LSTM(nn.Module):
    """NotImplementedError: torch.ao.nn.quantized.dynamic.LSTM, which quantize_dynamic makes, is there."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "torch.ao.nn.quantized.LSTM is not implemented in flambeau: use "
            "torch.ao.quantization.quantize_dynamic, which makes dynamic LSTMs"
        )

    from_observed = from_float = classmethod(lambda cls, other: cls())
