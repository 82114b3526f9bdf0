"""The numbers that stand for dtypes, layouts and memory formats in programs, as PyTorch numbers them.

Stands on base; used by constants, by the executor, and by what reads and writes archives.
"""

from __future__ import annotations

from typing import Any

from flambeau.base import dtype as dtypes
from flambeau.base import layout as layouts
from flambeau.base.dtype import dtype
from flambeau.base.layout import layout, memory_format

__all__ = ["code_of", "dtype_of", "dtype_or_none", "layout_of", "memory_format_of"]

_LAYOUTS = tuple("strided sparse_coo sparse_csr _mkldnn sparse_csc sparse_bsr sparse_bsc".split())
_FORMATS = tuple("contiguous_format preserve_format channels_last channels_last_3d".split())


def code_of(value: dtype | layout | memory_format | int) -> int:
    """The number of a dtype, a layout or a memory format. RuntimeError for one that has none."""
    if isinstance(value, int):
        return value
    names = dtypes.NUMBERED if isinstance(value, dtype) else _LAYOUTS if isinstance(value, layout) else _FORMATS
    name = str(value).rpartition(".")[2]
    if name not in names:
        raise RuntimeError(f"{value} can't be part of a TorchScript program")
    return names.index(name)


def _by_name(where: Any, kind: type) -> dict[str, Any]:
    return {str(value).rpartition(".")[2]: value for value in vars(where).values() if isinstance(value, kind)}


_DTYPES_BY_NAME = _by_name(dtypes, dtype)
_LAYOUTS_BY_NAME, _FORMATS_BY_NAME = _by_name(layouts, layout), _by_name(layouts, memory_format)


def _named(code: int, names: tuple[str, ...], table: dict[str, Any], what: str) -> Any:
    found = table.get(names[code]) if 0 <= code < len(names) else None
    if found is None:
        raise RuntimeError(f"{code} is no {what} that flambeau has")
    return found


def dtype_of(code: int | dtype) -> dtype:
    """The dtype of a number. RuntimeError if it is none."""
    found: dtype = code if isinstance(code, dtype) else _named(code, dtypes.NUMBERED, _DTYPES_BY_NAME, "dtype")
    return found


def dtype_or_none(code: int | dtype | None) -> dtype | None:
    """The dtype of a number; None for None."""
    return None if code is None else dtype_of(code)


def layout_of(code: int | layout | None) -> layout | None:
    """The layout of a number; None for None. RuntimeError if it is none."""
    return code if code is None or isinstance(code, layout) else _named(code, _LAYOUTS, _LAYOUTS_BY_NAME, "layout")


def memory_format_of(code: int | memory_format | None) -> memory_format | None:
    """The memory format of a number; None for None. RuntimeError if it is none."""
    if code is None or isinstance(code, memory_format):
        return code
    found: memory_format = _named(code, _FORMATS, _FORMATS_BY_NAME, "memory format")
    return found
