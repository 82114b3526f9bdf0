"""torch._tensor_str: how tensors print, under PyTorch's names. All of it is in core.tensor.printing."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.core.tensor.printing import get_printoptions, printoptions, set_printoptions, tensor_body, tensor_repr
from flambeau.core.tensor.printing import options as PRINT_OPTS
from flambeau.core.tensor.printing import with_suffixes as _add_suffixes

__all__ = [
    "PRINT_OPTS",
    "_add_suffixes",
    "_str",
    "_str_intern",
    "_tensor_str",
    "get_printoptions",
    "get_summarized_data",
    "printoptions",
    "set_printoptions",
]


def _str_intern(inp: Any, *, tensor_contents: str | None = None) -> str:
    """What print shows of a tensor; tensor_contents: text in the place of its numbers."""
    return tensor_repr(inp, contents=tensor_contents)


_str = _str_intern


def _tensor_str(self: Any, indent: int) -> str:
    """The brackets and numbers of a tensor whose first bracket stands at column `indent`."""
    return tensor_body(self, indent)


def get_summarized_data(self: Any) -> Any:
    """The elements that a summary shows: of each long dimension the first and last `PRINT_OPTS.edgeitems`."""
    for axis, size in enumerate(self.shape):
        edge = PRINT_OPTS.edgeitems
        if size > 2 * edge:
            self = torch.cat((self.narrow(axis, 0, edge), self.narrow(axis, size - edge, edge)), axis)
    return self
