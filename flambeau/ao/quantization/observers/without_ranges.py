"""Observers that look at no values: with a scale given, for a dtype alone, that keep values, or take another's.

Stands on base.py.
"""

from __future__ import annotations

import warnings
from typing import Any

import flambeau as torch
from flambeau.ao.quantization.observers.base import ObserverBase
from flambeau.base.naming import public_module


class FixedQParamsObserver(ObserverBase):
    """A scale and zero point that are given, for values whose range is known."""

    __module__ = public_module("ao.quantization.observer")

    scale: Any
    zero_point: Any

    def __init__(
        self,
        scale: float,
        zero_point: int,
        dtype: Any = torch.quint8,
        qscheme: Any = torch.per_tensor_affine,
        quant_min: int = 0,
        quant_max: int = 255,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        if is_dynamic:
            raise NotImplementedError("FixedQParamsObserver doesn't support dynamic quantization")
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        self.quant_min, self.quant_max = quant_min, quant_max
        self.register_buffer("scale", torch.tensor([scale], dtype=torch.float))
        self.register_buffer("zero_point", torch.tensor([zero_point], dtype=torch.int))
        self.dtype, self.qscheme = dtype, qscheme

    def forward(self, X: Any) -> Any:
        """X."""
        return X

    def calculate_qparams(self) -> tuple[Any, Any]:
        """What was given."""
        return self.scale, self.zero_point


class PlaceholderObserver(ObserverBase):
    """Nothing but a dtype: for values that are converted, or quantized at run time."""

    __module__ = public_module("ao.quantization.observer")

    def __init__(
        self,
        dtype: Any = torch.float32,
        custom_op_name: str = "",
        compute_dtype: Any = None,
        quant_min: int | None = None,
        quant_max: int | None = None,
        qscheme: Any = None,
        eps: Any = None,
        is_dynamic: bool = False,
    ) -> None:
        super().__init__(dtype=dtype, is_dynamic=is_dynamic)
        self.qscheme = torch.per_tensor_affine if qscheme is None else qscheme
        self.quant_min, self.quant_max = quant_min, quant_max
        self.eps = torch.finfo(torch.float32).eps if eps is None else eps
        self.custom_op = custom_op_name
        if compute_dtype:
            self.is_dynamic = True
            warnings.warn(
                "Please use `is_dynamic` instead of `compute_dtype`.                     "
                "`compute_dtype` will be deprecated in a future release                     of "
                "PyTorch.",
                stacklevel=2,
            )

    def forward(self, x: Any) -> Any:
        """x."""
        return x

    def extra_repr(self) -> str:
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"

    def calculate_qparams(self) -> Any:
        """Exception: there are none."""
        raise Exception("calculate_qparams should not be called for PlaceholderObserver")


class RecordingObserver(ObserverBase):
    """Keeps every tensor that passes."""

    __module__ = public_module("ao.quantization.observer")

    __annotations__ = {"tensor_val": list}

    def __init__(self, dtype: Any = torch.quint8) -> None:
        super().__init__(dtype=dtype, is_dynamic=False)
        self.tensor_val: list[Any] = []

    def forward(self, x: Any) -> Any:
        """x, of which a copy is kept."""
        self.tensor_val.append(x.clone())
        return x

    def calculate_qparams(self) -> Any:
        """Exception: there are none."""
        raise Exception("calculate_qparams should not be called for RecordingObserver")

    def get_tensor_value(self) -> list[Any]:
        """The tensors."""
        return self.tensor_val


class NoopObserver(ObserverBase):
    """Looks at nothing."""

    __module__ = public_module("ao.quantization.observer")

    def __init__(self, dtype: Any = torch.float16, custom_op_name: str = "") -> None:
        super().__init__(dtype=dtype, is_dynamic=False)
        self.dtype, self.custom_op = dtype, custom_op_name

    def forward(self, x: Any) -> Any:
        """x."""
        return x

    def calculate_qparams(self) -> Any:
        """Exception: there are none."""
        raise Exception("calculate_qparams should not be called for NoopObserver")


class ReuseInputObserver(ObserverBase):
    """Says that the result of an operator is quantized as its input was."""

    __module__ = public_module("ao.quantization.observer")

    def __init__(self) -> None:
        super().__init__(torch.quint8, is_dynamic=False)

    def forward(self, x: Any) -> Any:
        """x."""
        return x

    def calculate_qparams(self) -> Any:
        """Exception: there are none."""
        raise Exception("calculate_qparams should not be called for ReuseInputObserver")
