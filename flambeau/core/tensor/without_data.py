"""What operators do for tensors that have no values: those on the meta device, and fake ones.

Results get the layouts of a real run (plans with such results compile and run nothing; `abstract` of an operator's declaration
stands for an implementation that computes otherwise), checks of values find nothing wrong, and what needs values raises. Used by
core.operator.define and flambeau.ops.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau.base.layout import Layout
from flambeau.core.tensor.fakes import is_fake, without_values
from flambeau.core.tensor.tensor import Tensor, empty_layout


def known(x: Tensor) -> bool:
    """Whether a tensor has values."""
    return x._layout.device.type != "meta"


def found(condition: Tensor) -> bool:
    """Whether a condition holds for some element, as far as that is known."""
    return known(condition) and bool(condition.any())


def needs_values(x: Tensor, operator: str, error: Exception | None = None) -> Exception:
    """What aten's `operator` raises, called with x, whose values are not known: its results' sizes, or what it does, depend on
    them, or PyTorch has it for no such tensors. error: where PyTorch has other words for it on the meta device.
    """
    if is_fake(x._layout):
        return without_values(operator)
    return error or NotImplementedError(
        f"aten::{operator}: attempted to run this operator with Meta tensors, but there was no fake impl or Meta kernel "
        "registered. You may have run into this message while using an operator with PT2 compilation APIs "
        "(torch.compile/torch.export); in order to use this operator with those APIs you'll need to add a fake impl. Please see "
        "the following for next steps:  https://pytorch.org/tutorials/advanced/custom_ops_landing_page.html"
    )


def allocated(made: Any) -> Any:
    """Fresh tensors of the layouts in what an abstract implementation gives: a layout, or a (named) tuple of them."""
    return empty_layout(made) if isinstance(made, Layout) else type(made)(map(allocated, made))


def abstract_first(implementation: Callable, abstract: Callable) -> Callable:
    """The implementation of an operator whose arguments `abstract` checks; where no values are, its layouts are the results'."""

    @functools.wraps(implementation)
    def checked(*args: Any, **kwargs: Any) -> Any:
        layouts = abstract(*args, **kwargs)
        first = layouts if isinstance(layouts, Layout) else layouts[0]
        return allocated(layouts) if first.device.type == "meta" else implementation(*args, **kwargs)

    return checked
