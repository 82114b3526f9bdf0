"""What is done to data and mask alike: views, indexing, joining."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.masked.maskedtensor.core import mapped, rule, wrapped


@rule(
    "view", "select", "transpose", "split", "t", "slice", "index", "expand", "_unsafe_view", "reshape", "cat",
    "unsqueeze", "unfold", "im2col", "col2im", "stack", "__getitem__", "unbind", "chunk", "narrow", "flatten",
    "expand_as", "view_as", "reshape_as", "permute", "squeeze", "movedim",
)  # fmt: skip
def alike(func: Callable, *args: Any, **kwargs: Any) -> Any:
    """The function of the data with the function of the masks for a mask."""
    data = func(*mapped(lambda x: x.get_data(), args), **mapped(lambda x: x.get_data(), kwargs))
    masks = mapped(lambda x: x.get_mask(), args), mapped(lambda x: x.get_mask(), kwargs)
    try:
        mask = func(*masks[0], **masks[1])
    except NotImplementedError:  # a function of numbers: image columns
        numbers = mapped(lambda x: x.get_mask().to(x.dtype), (args, kwargs))
        mask = func(*numbers[0], **numbers[1]).bool()
    return wrapped(data, mask)
