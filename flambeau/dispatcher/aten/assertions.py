"""Checks of values and sizes inside graphs, which raise when a graph runs."""

from __future__ import annotations

from typing import Any

from flambeau.core.symbolic_numbers import sym_constrain_range, sym_constrain_range_for_size
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


@implementation("_assert_scalar")
def assert_scalar(self: Any, assert_msg: str) -> None:
    """RuntimeError with this text unless the number is true; a symbolic one is asserted of the trace."""
    holds = self.node.expect_true() if hasattr(self, "node") else bool(self)
    if not holds:
        raise RuntimeError(assert_msg)


@implementation("sym_constrain_range")
def constrain_range(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """RuntimeError unless min <= size <= max."""
    sym_constrain_range(size, min=min, max=max)


@implementation("sym_constrain_range_for_size")
def constrain_range_for_size(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """The same for a size."""
    sym_constrain_range_for_size(size, min=min, max=max)
