"""Quantized tensors in pickles and files, in PyTorch's format. Stands on conversion; core.tensor.rebuild is its like for plain
ones."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from flambeau.base import qscheme
from flambeau.base.naming import called, findable
from flambeau.core.tensor import storage_io
from flambeau.core.tensor.rebuild import attributes_of, rebuild_from_type_v2
from flambeau.core.tensor.storage_types import BY_DTYPE, StorageReference
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.quantized.conversion import packed_bytes, unpacked_bytes
from flambeau.ops.quantized.tensor import CODES, PER_BYTE, PerChannel, PerTensor, codes, rule, wrapped


@rule("__reduce_ex__", "__reduce__")
def reduce(x: Any, protocol: int = 2) -> tuple[Any, ...]:
    """The (function, arguments) by which pickle writes a quantized tensor."""
    integers = codes(x)
    shape, strides = tuple(x._layout.shape), tuple(x._layout.strides)
    if x.dtype in PER_BYTE:
        integers = packed_bytes(integers.reshape(-1), PER_BYTE[x.dtype])
        storage, offset, *_ = storage_io.parts(integers)
        strides = tuple(integers.new_empty(shape, device="meta").stride())  # type: ignore[attr-defined]
    else:
        storage, offset, *_ = storage_io.parts(integers)
    reference = StorageReference.of(storage, x.dtype)
    arguments = (reference, offset, shape, strides, x._quantizer.parts(), False, OrderedDict())
    state = {key: value for key, value in attributes_of(x).items() if key != "_quantizer"}
    if state:
        return rebuild_from_type_v2, (findable(rebuild_qtensor), Tensor, arguments, state)
    return findable(rebuild_qtensor), arguments


@called("_utils", "_rebuild_qtensor")
def rebuild_qtensor(
    reference: Any,
    offset: int,
    shape: Sequence[int],
    strides: Sequence[int],
    quantizer: Any,
    requires_grad: bool,
    backward_hooks: Any,
) -> Any:
    """A quantized tensor over a storage. RuntimeError for geometry outside of it, or a quantizer that is none."""
    dtype = reference.dtype if isinstance(reference, StorageReference) else None
    if dtype not in CODES or dtype not in BY_DTYPE:
        raise TypeError(f"expected a storage of a quantized dtype, not {dtype}")
    if dtype in PER_BYTE:
        count, elements = PER_BYTE[dtype], math.prod(shape)
        packed = storage_io.make_tensor(reference.storage, CODES[dtype], offset, (-(-elements // count),), (1,))
        integers = unpacked_bytes(packed, count, elements).reshape(tuple(shape))  # type: ignore[attr-defined]
    else:
        integers = storage_io.make_tensor(reference.storage, CODES[dtype], offset, shape, strides)
    return wrapped(integers, quantizer_of(quantizer), dtype)


def quantizer_of(parts: Any) -> PerTensor | PerChannel:
    """The quantizer whose `parts` these are. RuntimeError for anything else."""
    scheme, *rest = parts if isinstance(parts, tuple) and parts else (None,)
    if scheme is qscheme.per_tensor_affine and len(rest) == 2:
        return PerTensor(float(rest[0]), int(rest[1]))
    if scheme in (qscheme.per_channel_affine, qscheme.per_channel_affine_float_qparams) and len(rest) == 3:
        scales, zero_points, axis = rest
        if isinstance(scales, (list, tuple)):
            raise RuntimeError("scales of a quantized tensor in a file must be a tensor")
        return PerChannel(scales, zero_points, int(axis))
    raise RuntimeError(f"Can't deserialize quantized tensor with qscheme {scheme}")
