"""Sizes in a trace: `x.shape[0]` is a tensor of one integer that the graph works out, as in PyTorch.

`shape` and a few other properties of Tensor are exchanged for such as look for a recorder while a thread traces. Stands on state.
"""

from __future__ import annotations

import threading
from typing import Any

import flambeau as torch
from flambeau.base.layout import Size
from flambeau.core.modes import modes
from flambeau.dispatcher.schema_types import IntType
from flambeau.jit.tracing.current import current

__all__ = ["properties_seen", "size_of"]

#: Properties that are operators, by PyTorch's names.
_OPERATORS = {"T": "numpy_T", "mT": "mT", "mH": "mH", "H": "matrix_H", "real": "real", "imag": "imag"}


class TracedSize(Size):
    """A shape of tensors, whose slices and sums are such too."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:  # type: ignore[override]
        found = tuple.__getitem__(self, key)
        return tuple.__new__(TracedSize, found) if type(key) is slice else found

    def __add__(self, other: Any) -> Any:
        return tuple.__new__(TracedSize, tuple.__add__(self, tuple(other)))

    def __radd__(self, other: Any) -> Any:
        return tuple.__new__(TracedSize, tuple.__add__(tuple(other), self))

    def numel(self) -> Any:
        """The product of all."""
        made: Any = 1
        for n in self:
            made = made * n
        return made


def size_of(x: Any, dim: Any) -> Any:
    """The size of a dimension (all for None, "numel" for the number of elements), as tensors that are values of the graph."""
    if dim is None:
        return tuple.__new__(TracedSize, [size_of(x, i) for i in range(x._layout.ndim)])
    state = current()
    assert state is not None
    inputs = [state.value(x)]
    if dim == "numel":
        number, name, overload = x._layout.numel, "aten::numel", "default"
    else:
        number, name, overload = x._layout.shape[_checked(x, dim)], "aten::size", "int"
        inputs.append(state.constant(int(dim)))
    made = torch.tensor(number)
    value = state.node(name, inputs, overload).output().setType(IntType())
    state.set(made, state.tensor_of_number(value, IntType()))
    return made


def _checked(x: Any, dim: Any) -> int:
    ndim = x._layout.ndim
    at = int(dim)
    if not -max(ndim, 1) <= at < max(ndim, 1) or not ndim:
        x.size(at)  # raises
    return at


class properties_seen:
    """Context: properties of Tensor are recorded in threads whose innermost mode is a recorder."""

    _lock = threading.Lock()
    _count = 0
    _own: dict[str, Any] = {}

    def __enter__(self) -> None:
        cls = properties_seen
        with self._lock:
            cls._count += 1
            if cls._count == 1:
                for name in ("shape", *_OPERATORS):
                    cls._own[name] = vars(torch.Tensor)[name]
                    setattr(torch.Tensor, name, _recorded(name, cls._own[name]))

    def __exit__(self, *exception: object) -> None:
        cls = properties_seen
        with self._lock:
            cls._count -= 1
            if not cls._count:
                for name, own in cls._own.items():
                    setattr(torch.Tensor, name, own)


def _recorded(name: str, own: Any) -> property:
    def get(self: Any) -> Any:
        recorder = _recorder()
        return own.__get__(self) if recorder is None else recorder.property(name, _OPERATORS.get(name), self)

    return property(get, own.fset, own.fdel, own.__doc__)


def _recorder() -> Any:
    stack = modes.local.dispatch_modes
    return stack[-1] if stack and current() is not None and hasattr(stack[-1], "property") else None
