"""What an operator was given, as the profiler keeps it: by schema, numbers in the place of tensors made tensors.

Stands on the schemas of the dispatcher; used by flambeau.profiler.recorder and flambeau.profiler.execution_trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import flambeau as torch
from flambeau.base.dtype import dtype as DType
from flambeau.core.modes.interception import plain_signature
from flambeau.core.tensor import create
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher import builtin_schemas, calling, dispatch_modes
from flambeau.profiler.allocations import Identities
from flambeau.profiler.records import TensorMetadata

__all__ = ["NUMBERS", "bound", "concrete", "recorded", "shapes", "tensors", "types"]

#: The numbers that PyTorch's operators are handed for dtypes, and the names of its elements in traces.
_DTYPES = {
    "uint8": (0, "unsigned char"), "int8": (1, "signed char"), "int16": (2, "short int"), "int32": (3, "int"),
    "int64": (4, "long int"), "float16": (5, "c10::Half"), "float32": (6, "float"), "float64": (7, "double"),
    "complex32": (8, "c10::complex<c10::Half>"), "complex64": (9, "c10::complex<float>"),
    "complex128": (10, "c10::complex<double>"), "bool": (11, "bool"), "qint8": (12, "c10::qint8"), "quint8": (13, "c10::quint8"),
    "qint32": (14, "c10::qint32"), "bfloat16": (15, "c10::BFloat16"), "float8_e5m2": (23, "c10::Float8_e5m2"),
    "float8_e4m3fn": (24, "c10::Float8_e4m3fn"), "uint16": (27, "short unsigned int"), "uint32": (28, "unsigned int"),
    "uint64": (29, "long unsigned int"),
}  # fmt: skip
#: The same of layouts and memory formats.
NUMBERS = {
    "torch.strided": 0, "torch.sparse_coo": 1, "torch.sparse_csr": 2, "torch.contiguous_format": 0, "torch.preserve_format": 1,
    "torch.channels_last": 2, "torch.channels_last_3d": 3,
}  # fmt: skip


def tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among values and in their lists."""
    for x in values:
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, (list, tuple)):
            yield from tensors(x)


#: What functions call the arguments that schemas have under these names.
_OTHERWISE = {"self": ("input",), "indices": ("input",), "train": ("training",)}
_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def bound(function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
    """The arguments of a public function by the schema of its operator, `aten::name`, in order and with defaults, and the schema;
    as they were written, and None, where no schema fits.
    """
    found = None
    if builtin_schemas.overloads_of(f"aten::{name}"):
        found = dispatch_modes.resolve(name, args, kwargs)
        if found is None:
            found = dispatch_modes.resolve(name, args, kwargs, _by_names(function, args, kwargs))
    if found is None:
        return [*args, *kwargs.values()], None
    schema = found[0]._schema
    values = calling.bind(schema, found[1], found[2], numbers=True)
    return [
        _wrapped(value) if str(argument.type) == "Tensor" and isinstance(value, (bool, int, float, complex)) else value
        for argument, value in zip(schema.arguments, values)
    ], schema


def _by_names(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any]:
    """Fits a call to schemas by the names of its arguments, without those that schemas don't have, such as `inplace`."""
    try:
        written = plain_signature(function).bind(*args, **kwargs)
    except TypeError:
        return lambda *_: None
    written.apply_defaults()
    given = written.arguments

    def fitted(schema: Any, *_: Any) -> Any:
        found = {}
        for argument in schema.arguments:
            for key in (argument.name, *_OTHERWISE.get(argument.name, ())):
                if given.get(key) is not None or (key in given and not argument.has_default_value()):
                    value = given[key]
                    found[argument.name] = _REDUCTIONS.get(value, value) if key == "reduction" else value
                    break
        if any(a.name == "cudnn_enabled" for a in schema.arguments):
            found["cudnn_enabled"] = False
        held = sum(1 for _ in tensors(given.values()))
        return ([], found) if held == sum(1 for _ in tensors(found.values())) else None

    return fitted


def _wrapped(number: Any) -> Tensor:
    """The tensor that PyTorch's functions make of a number where an operator takes a tensor: of its widest dtype."""
    wide = {bool: torch.bool, int: torch.int64, float: torch.float64}.get(type(number), torch.complex128)
    return create.make_tensor(number, wide)


def _written(value: Any) -> Any:
    """A value as operators are handed it: numbers for dtypes, layouts and memory formats; None for what is none of all these."""
    if value is None or isinstance(value, (bool, int, float, complex)):
        return value
    if isinstance(value, DType):
        return _DTYPES.get(value.name, (None,))[0]
    return NUMBERS.get(str(value))


def recorded(value: Any, identities: Identities) -> Any:
    """A value as events of the tree have it: TensorMetadata, lists of those, numbers."""
    if isinstance(value, Tensor):
        return TensorMetadata(value, identities.of(value))
    if isinstance(value, (list, tuple)):
        return [recorded(x, identities) for x in value] if value and all(isinstance(x, Tensor) for x in value) else None
    return _written(value)


def concrete(value: Any) -> Any:
    """A value that is no tensor: numbers and lists of them."""
    if isinstance(value, (list, tuple)):
        return list(value) if all(isinstance(x, (bool, int, float, complex)) for x in value) else None
    return None if isinstance(value, Tensor) else _written(value)


def types(value: Any) -> str:
    """What kind of value it is, in the words of traces."""
    if isinstance(value, Tensor):
        return _DTYPES.get(value.dtype.name, (0, ""))[1]
    if isinstance(value, (list, tuple)):
        if value and all(isinstance(x, Tensor) for x in value):
            return "TensorList"
        return "ScalarList" if all(isinstance(x, (bool, int, float, complex)) for x in value) else ""
    return "" if _written(value) is None else "Scalar"


def shapes(values: Sequence[Any]) -> list[list[int]]:
    """The shape of every tensor; [] for what is none."""
    return [[] if not isinstance(x, Tensor) or x.is_nested else list(x.shape) for x in values]
