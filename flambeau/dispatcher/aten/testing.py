"""Operators that PyTorch has for tests of how operators are called: optional lists, texts as defaults, kinds of gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.core.operator.define import operator
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.registry import implementation


@implementation("_test_optional_intlist", "_test_optional_filled_intlist", "_test_optional_floatlist")
def with_addends(values: Tensor, addends: Sequence[float] | float | None) -> Tensor:
    """The values plus the addends, one by one, or all by the same; the values themselves for None."""
    if addends is None:
        return values
    given = list(addends) if isinstance(addends, (list, tuple)) else [addends] * values._layout.numel
    made: Tensor = values + NAMESPACE["tensor"](given, dtype=values._layout.dtype)  # type: ignore[operator]
    return made


@implementation()
def _test_string_default(dummy: Tensor, a: str = "\"'\\", b: str = "\"'\\") -> Tensor:
    """The tensor. RuntimeError unless both texts are the defaults of the schema."""
    for name, text in (("A", a), ("B", b)):
        if text != "\"'\\":
            raise RuntimeError(f"Default {name} failed")
    return dummy


@implementation("_test_ambiguous_defaults.a")
def ambiguous_numbers(dummy: Tensor, a: int = 1, b: int = 1) -> Tensor:
    """1. RuntimeError unless both numbers are 1."""
    if a != 1 or b != 1:
        raise RuntimeError("expected the defaults 1 and 1")
    return NAMESPACE["scalar_tensor"](1)  # type: ignore[no-any-return]


@implementation("_test_ambiguous_defaults.b")
def ambiguous_text(dummy: Tensor, a: int = 2, b: str = "2") -> Tensor:
    """2. RuntimeError unless the arguments are 2 and "2"."""
    if a != 2 or b != "2":
        raise RuntimeError("expected the defaults 2 and '2'")
    return NAMESPACE["scalar_tensor"](2)  # type: ignore[no-any-return]


@operator(function=False, method=False, name="_test_autograd_multiple_dispatch_full")
def _full_coverage(self: Tensor):
    """A copy, whose gradient is one more than what arrives."""
    return self.clone()  # type: ignore[attr-defined]


@_full_coverage.vjp
def _(g: Any) -> Any:
    return g + 1


implementation("_test_autograd_multiple_dispatch.fullcoverage")(_full_coverage)


@operator(function=False, method=False, name="_test_warn_in_autograd")
def _warn_in_autograd(self: Tensor):
    """A copy, whose gradient comes with a warning."""
    return self.clone()  # type: ignore[attr-defined]


@_warn_in_autograd.vjp
def _(g: Any) -> Any:
    import warnings

    warnings.warn("Warn from backward", stacklevel=2)
    return g * 1


implementation("_test_warn_in_autograd")(_warn_in_autograd)


@operator(function=False, method=False, name="_test_autograd_multiple_dispatch_nested")
def _nested_only(self: Tensor, b: bool):
    """A copy, whose gradient is the square of what arrives."""
    return self.clone()  # type: ignore[attr-defined]


@_nested_only.vjp
def _(g: Any) -> Any:
    return g * g


implementation("_test_autograd_multiple_dispatch.ntonly")(_nested_only)


@implementation()
def _test_autograd_multiple_dispatch_view(self: Tensor) -> Tensor:
    """The tensor as one row, a view."""
    return self.view(-1)  # type: ignore[attr-defined, no-any-return]


@implementation()
def _test_serialization_subcmul(self: Tensor, other: Tensor, alpha: float = 1) -> Tensor:
    """self - alpha * other."""
    return self - alpha * other  # type: ignore[operator, no-any-return]


@implementation("_test_check_tensor", "_test_parallel_materialize")
def unchanged(self: Tensor, num_parallel: int = 1, skip_first: bool = False) -> Tensor:
    """The tensor itself."""
    return self
