"""torch._prims_common: what primitive operators and references ask of dtypes, shapes, strides and arguments.

Stands on what tensors answer themselves; dtypes, promotion, shapes, strides and checks are in the modules beside this one.
"""

from __future__ import annotations

import functools
import importlib
import math
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import flambeau as torch
from flambeau._prims_common import checks, dtypes, promotion, shapes, strides
from flambeau._prims_common.checks import *
from flambeau._prims_common.dtypes import *
from flambeau._prims_common.promotion import *
from flambeau._prims_common.shapes import *
from flambeau._prims_common.strides import *
from flambeau._prims_common.strides import validate_memory_format

__all__ = [
    *checks.__all__, *dtypes.__all__, *promotion.__all__, *shapes.__all__, *strides.__all__, "BoolLike", "DeviceLikeType", "Dim",
    "DimsSequenceType", "DimsType", "FloatLike", "IntLike", "Number", "NumberType", "NumberTypeType", "RealNumberType",
    "ShapeType", "StrideType", "TensorLike", "TensorLikeType", "TensorOrNumberLikeType", "TensorSequenceType",
    "canonicalize_device", "check", "device_or_default", "get_aten_op", "layout_or_default", "mask_tensor", "prod", "reduce",
    "sym_float", "sym_int", "sym_max", "sym_min", "validate_memory_format",
]  # fmt: skip

Tensor = TensorLike = TensorLikeType = torch.Tensor
ShapeType = torch.Size | list[int] | tuple[int, ...]
StrideType = DimsSequenceType = list[int] | tuple[int, ...]
DimsType = int | list[int] | tuple[int, ...]
DeviceLikeType = str | torch.device | int
NumberType = bool | int | float | complex
RealNumberType = bool | int | float
NumberTypeType = type[bool] | type[int] | type[float] | type[complex]
TensorSequenceType = list[torch.Tensor] | tuple[torch.Tensor, ...]
TensorOrNumberLikeType = torch.Tensor | NumberType
Number = promotion.NUMBERS
IntLike, FloatLike, BoolLike = (int, torch.SymInt), (float, torch.SymFloat), (bool, torch.SymBool)
Dim = IntWithoutSymInt = int
FloatWithoutSymFloat = float
sym_int, sym_float, sym_max, sym_min, reduce = torch.sym_int, torch.sym_float, torch.sym_max, torch.sym_min, functools.reduce


def canonicalize_device(device: Any) -> torch.device:
    """A device, given as one or by its name. AssertionError for anything else."""
    if not isinstance(device, (torch.device, str)):
        raise AssertionError(f"device must be torch.device or str, got {type(device)}")
    return torch.device(device)


def device_or_default(device: Any) -> Any:
    """The device, or for None the one that tensors are made on."""
    return torch.get_default_device() if device is None else device


def layout_or_default(layout: torch.layout | None) -> torch.layout:
    """The layout, or strided for None."""
    return torch.strided if layout is None else layout


def get_aten_op(fn: Callable[..., Any], name: str) -> Any:
    """The operator of aten that a function of torch._refs is the reference of; it has the room in its name, special_i0e."""
    room = fn.__module__.rpartition("._refs")[2].rpartition(".")[2]
    prefix = room + "_" if room in ("fft", "linalg", "special") else ""
    return getattr(torch.ops.aten, prefix + name)


def mask_tensor(mask: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """The tensor where the mask is true, elsewhere 0."""
    return t.logical_and(mask) if t.dtype is torch.bool else torch.where(mask, t, 0)


def check(b: bool, s: Callable[[], str], exc_type: type[Exception] = RuntimeError) -> None:
    """Raise the exception with the message that s() gives unless b. Deprecated: use torch._check."""
    warnings.warn(
        "`torch._prims_common.check` is deprecated and will be removed in the future. Please use `torch._check*` functions "
        "instead.",
        FutureWarning,
        stacklevel=2,
    )
    if not b:
        raise exc_type(s())


def prod(xs: Sequence[Any]) -> Any:
    """The product of numbers; 1 of none."""
    return functools.reduce(operator.mul, xs, 1) if any(isinstance(x, torch.SymInt) for x in xs) else math.prod(xs)


def __getattr__(name: str) -> Any:
    if name == "wrappers":
        return importlib.import_module("flambeau._prims_common.wrappers")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
