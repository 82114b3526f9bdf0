"""Checks of values inside graphs, which raise when a graph runs."""

from __future__ import annotations

from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.registry import implementation


@implementation()
def _assert_async(self: Tensor, assert_msg: str | None = None) -> None:
    """RuntimeError with the message unless the only element is true; nothing for a tensor without values."""
    if self._layout.device.type != "meta" and not self.item():
        raise RuntimeError("Expected Tensor with single nonzero value, but got zero" if assert_msg is None else assert_msg)


@implementation("_functional_assert_async.msg")
def _functional_assert_async(self: Tensor, assert_msg: str, dep_token: Tensor) -> Any:
    """_assert_async, with a token that orders it."""
    _assert_async(self, assert_msg)
    return dep_token.clone()
