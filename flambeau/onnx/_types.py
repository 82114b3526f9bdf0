"""ONNX's types of elements and flambeau's dtypes: which is which, and a tensor's bytes. Used by the whole room."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

import flambeau as torch

__all__ = ["DTYPE_OF", "NUMBER_OF", "TensorProtoDataType", "as_array", "as_tensor", "dtype_of", "numpy_dtype", "number_of"]


class TensorProtoDataType(enum.IntEnum):
    """ONNX's numbers of the types of elements."""

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E4M3FNUZ = 18
    FLOAT8E5M2 = 19
    FLOAT8E5M2FNUZ = 20


_T = TensorProtoDataType
#: The number of the type of a dtype's elements.
NUMBER_OF: dict[torch.dtype, TensorProtoDataType] = {
    torch.float32: _T.FLOAT, torch.uint8: _T.UINT8, torch.int8: _T.INT8, torch.uint16: _T.UINT16, torch.int16: _T.INT16,
    torch.int32: _T.INT32, torch.int64: _T.INT64, torch.bool: _T.BOOL, torch.float16: _T.FLOAT16, torch.float64: _T.DOUBLE,
    torch.uint32: _T.UINT32, torch.uint64: _T.UINT64, torch.complex64: _T.COMPLEX64, torch.complex128: _T.COMPLEX128,
    torch.bfloat16: _T.BFLOAT16,
}  # fmt: skip
#: The dtype whose elements are of a type.
DTYPE_OF = {number: dtype for dtype, number in NUMBER_OF.items()}


def number_of(dtype: torch.dtype) -> TensorProtoDataType:
    """The number of the type of a dtype's elements. NotImplementedError where there is none."""
    if dtype not in NUMBER_OF:
        raise NotImplementedError(f"torch.onnx: {dtype} is not implemented in flambeau as a type of ONNX; use float32")
    return NUMBER_OF[dtype]


def numpy_dtype(dtype: torch.dtype) -> np.dtype:
    """NumPy's dtype; that of ml_dtypes, which onnx needs, for bfloat16."""
    if dtype == torch.bfloat16:
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(str(dtype).removeprefix("torch."))


def dtype_of(array: np.ndarray) -> torch.dtype:
    """The dtype of an array's elements."""
    return getattr(torch, array.dtype.name)


def as_array(tensor: torch.Tensor) -> np.ndarray:
    """The elements of a tensor, in its own dtype."""
    tensor = tensor.detach().cpu().contiguous()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(numpy_dtype(torch.bfloat16))
    return tensor.numpy()


def as_tensor(array: Any) -> torch.Tensor:
    """A tensor of an array's elements."""
    array = np.asarray(array, order="C")
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy() if not array.flags.writeable else array)
