"""`torch.ops.profiler`: the two ends of a record_function block as operators, for programs that write them into a graph.

The handle between them is a number in a tensor, as graphs pass tensors. Stands on torch.library; flambeau._ops registers it when
the namespace is first asked for.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import flambeau as torch
from flambeau.profiler import record_function

_open: dict[int, Any] = {}
_handles = count()
_libraries: list[Any] = []  # a library takes its operators with it when it goes


def _enter(name: str, args: str | None = None) -> Any:
    """Begin a block; returns the handle that ends it."""
    handle = next(_handles)
    _open[handle] = record_function(name, args).__enter__()
    return torch.tensor(handle)


def _exit(handle: Any) -> None:
    """End the block of a handle. RuntimeError if it has ended already."""
    block = _open.pop(int(handle), None)
    if block is None:
        raise RuntimeError("profiler::_record_function_exit: this block has ended, or the handle is none")
    block.__exit__(None, None, None)


def register() -> None:
    """Define the operators; once is enough."""
    if _libraries:
        return
    library = torch.library.Library("profiler", "DEF")
    library.define("_record_function_enter(str name, str? args=None) -> Tensor")
    library.define("_record_function_exit(Tensor handle) -> ()")
    library.impl("_record_function_enter", _enter, "CompositeExplicitAutograd")
    library.impl("_record_function_exit", _exit, "CompositeExplicitAutograd")
    _libraries.append(library)
