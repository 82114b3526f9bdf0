"""torch.utils.data._utils.collate: how a DataLoader makes one batch of many items, and tensors of NumPy arrays.

Stands on NumPy and the tensor namespace. `default_collate` and `default_convert` are public.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

import flambeau
from flambeau.core.tensor.tensor import Tensor

#: NumPy types that hold text or objects, which no tensor can.
np_str_obj_array_pattern = re.compile(r"[SaUO]")
WRONG_TYPE = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def default_convert(data: Any) -> Any:
    """NumPy arrays and numbers as tensors, inside mappings and sequences too; everything else as it is."""
    kind = type(data)
    if isinstance(data, Tensor):
        return data
    if isinstance(data, np.ndarray | np.generic):
        return data if np_str_obj_array_pattern.search(data.dtype.str) else flambeau.as_tensor(data)
    if isinstance(data, Mapping):
        return _like_mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return kind(*(default_convert(item) for item in data))
    if isinstance(data, tuple):
        return [default_convert(item) for item in data]
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return _like_sequence(data, [default_convert(item) for item in data])
    return data


def _like_mapping(example: Any, content: dict[Any, Any]) -> Any:
    """A mapping of the example's class with this content; a dict where the class can't be made so."""
    try:
        if isinstance(example, MutableMapping):
            made = copy.copy(example)
            made.update(content)
            return made
        return type(example)(content)
    except TypeError:
        return content


def _like_sequence(example: Any, content: list[Any]) -> Any:
    """A sequence of the example's class with this content; a list where the class can't be made so."""
    try:
        if isinstance(example, MutableSequence):
            if len(example) != len(content):
                return content
            made = copy.copy(example)
            for position, item in enumerate(content):
                made[position] = item
            return made
        return type(example)(content)
    except TypeError:
        return content


def default_collate(batch: Any) -> Any:
    """A batch from a list of items: numbers and arrays become tensors, tensors are stacked, containers stay containers.

    Tensors and arrays of equal shape S give a tensor of shape (len(batch), *S). Raises TypeError for items of another type,
    RuntimeError for items of unequal size.
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Any, *, collate_fn_map: dict[Any, Callable[..., Any]] | None = None) -> Any:
    """default_collate with another table of functions: type (or tuple of types) -> function (batch, collate_fn_map=...)."""
    item = batch[0]
    kind = type(item)
    if collate_fn_map is not None:
        function = collate_fn_map.get(kind)
        if function is not None:
            return function(batch, collate_fn_map=collate_fn_map)
        for types, function in collate_fn_map.items():
            if isinstance(item, types):
                return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(item, Mapping):
        content = {key: collate([element[key] for element in batch], collate_fn_map=collate_fn_map) for key in item}
        return _like_mapping(item, content)
    if isinstance(item, tuple) and hasattr(item, "_fields"):
        columns = zip(*batch, strict=True)
        return kind(*(collate(column, collate_fn_map=collate_fn_map) for column in columns))
    if isinstance(item, Sequence):
        rows = list(batch)
        if any(len(row) != len(item) for row in rows):
            raise RuntimeError("each element in list of batch should be of equal size")
        collated = [collate(column, collate_fn_map=collate_fn_map) for column in zip(*rows, strict=True)]
        return collated if isinstance(item, tuple) else _like_sequence(item, collated)
    raise TypeError(WRONG_TYPE.format(kind))


def collate_tensor_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Tensors, stacked. RuntimeError for sparse ones."""
    if batch[0].layout is not flambeau.strided:
        raise RuntimeError(
            "Batches of sparse tensors are not currently supported by the default collate_fn; please provide a custom "
            "collate_fn to handle them appropriately."
        )
    return flambeau.stack(batch, 0)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """NumPy arrays, stacked into a tensor."""
    if np_str_obj_array_pattern.search(batch[0].dtype.str):
        raise TypeError(WRONG_TYPE.format(batch[0].dtype))
    return collate([flambeau.as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """NumPy numbers, as a tensor of their type."""
    return flambeau.as_tensor(batch)


def collate_float_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Python floats, as float64."""
    return flambeau.tensor(batch, dtype=flambeau.float64)


def collate_int_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Python ints and bools."""
    return flambeau.tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Text and bytes stay as they are."""
    return batch


#: How default_collate treats each type; programs may add entries.
default_collate_fn_map: dict[Any, Callable[..., Any]] = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}
