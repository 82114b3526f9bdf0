"""A Linear that is trained for being quantized at run time. Stands on qat.modules.linear."""

from __future__ import annotations

from typing import Any

from flambeau.ao.nn.qat.modules import linear

__all__ = ["Linear"]


class Linear(linear.Linear):
    """qat.Linear whose qconfig observes nothing from one call to the next. ValueError for another."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True, qconfig: Any = None, **factory: Any) -> None:
        super().__init__(in_features, out_features, bias, qconfig, **factory)
        activation = qconfig.activation()
        observer = getattr(activation, "activation_post_process", activation)
        if getattr(observer, "averaging_constant", 1) != 1:
            raise ValueError(
                "Dynamic QAT requires a memoryless observer.This means a MovingAverage observer with "
                "averaging constant equal to 1"
            )
