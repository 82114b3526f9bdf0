"""Handles of registered hooks.

Stands on base.naming; tensors, graph nodes, modules and optimisers hand these out.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from itertools import count
from typing import Any

from flambeau.base.naming import public_module

__all__ = ["RemovableHandle"]

_numbers = count()


class RemovableHandle:
    """What registering a hook returns: `remove()` takes the hook back; as a context manager it does so on exit.

    `hooks_dict` holds the hooks by number; `extra_dict` (one or several) are tables with entries under the same number.
    """

    __module__ = public_module("utils.hooks")
    id: int
    next_id: int = 0

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = next(_numbers)
        RemovableHandle.next_id = self.id + 1
        extras = [] if extra_dict is None else extra_dict if isinstance(extra_dict, list) else [extra_dict]
        self.extra_dict_ref: tuple[Any, ...] = tuple(weakref.ref(extra) for extra in extras)

    def remove(self) -> None:
        """Take the hook back; harmless when it is gone already."""
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            table = reference()
            if table is not None:
                table.pop(self.id, None)

    def __getstate__(self) -> Any:
        return (self.hooks_dict_ref(), self.id, tuple(reference() for reference in self.extra_dict_ref))

    def __setstate__(self, state: Any) -> None:
        table, self.id = state[0], state[1]
        # A handle whose table is gone gets an empty one of its own: removing stays harmless.
        self.hooks_dict_ref = weakref.ref(OrderedDict() if table is None else table)
        self.extra_dict_ref = tuple(weakref.ref(OrderedDict() if extra is None else extra) for extra in state[2])

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def register(table: OrderedDict[int, Any], hook: Callable[..., Any], *, first: bool = False) -> RemovableHandle:
    """Put `hook` into `table`, at its end or front, and return the handle that takes it out."""
    handle = RemovableHandle(table)
    table[handle.id] = hook
    if first:
        table.move_to_end(handle.id, last=False)
    return handle
